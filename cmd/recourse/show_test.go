package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/saga/machine"
)

// A saga that succeeded with a step in doubt says so wherever the command line shows it.
func TestShowNamesDoubts(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	def := file(t, "d.yaml", "saga: remind\nsteps:\n  - {id: sms, http: \"POST ${vars.mail}/send\", in_doubt: fail, compensate: none, on_error: continue, retry: none}\n  - {id: done, set: 1}\n")
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/mail"}, Times: 2, Do: world.Do{After: world.FaultStatus, Status: 502}}); err != nil {
		t.Fatal(err)
	}
	const doubt = "it may have happened, and the saga went on without it"
	if out := ok(t, vars, "run", def, "-i", "null"); strings.Count(out, doubt) == 0 {
		t.Errorf("run: %s", out)
	}
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", def)
	ok(t, s.env, "start", "remind", "--wait", "20s")
	id := strings.Fields(ok(t, s.env, "list", "--status", "succeeded"))[6]
	for _, args := range [][]string{{"show", id}, {"journal", id}, {"show", id, "-o", "json"}} {
		if out := ok(t, s.env, args...); !strings.Contains(out, "sms") || !strings.Contains(out, doubt) {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := ok(t, s.env, "show", id, "--steps"); !strings.Contains(out, "in_doubt") {
		t.Errorf("the steps: %s", out)
	}
	var steps []machine.StepView
	if out := ok(t, s.env, "show", id, "--steps", "-o", "json"); json.Unmarshal([]byte(out), &steps) != nil || len(steps) != 2 || steps[0].Path != "sms" || len(steps[0].Attempts) != 1 {
		t.Errorf("the steps as JSON: %s", out)
	}
	if r := run(t, s.env, "show", id, "--steps", "--follow"); r.code != cli.Usage || !strings.Contains(r.errOut, "--follow") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
}
