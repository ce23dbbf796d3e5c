package main

import (
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// A changed definition is tried on an exported journal.
func TestReplayAgainstAJournal(t *testing.T) {
	t.Parallel()
	source, _, forms := exported(t)
	journal := file(t, "j", forms["ndjson"])
	if r := run(t, nil, "replay", journal, "--against", file(t, "same.yaml", source)); r.code != cli.Failed || !strings.Contains(r.errOut, "has not ended") {
		t.Errorf("a saga that waits: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, nil, "replay", journal, "-d", file(t, "d.yaml", source), "--against", file(t, "d.yaml", source)); r.code != cli.Usage {
		t.Errorf("both definitions: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, nil, "replay"); r.code != cli.Usage || !strings.Contains(r.errOut, "--against") {
		t.Errorf("neither: exit %d: %s", r.code, r.errOut)
	}
}

// A changed definition is tried on a server's sagas, and refused if they would have run otherwise.
func TestReplayAgainstAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	const source = "saga: greet\ninput: {n: integer}\nsteps:\n  - {id: a, set: \"${input.n}\"}\n  - {id: b, fail: no, when: input.n > 2}\n"
	def := file(t, "greet.yaml", source)
	ok(t, s.env, "definitions", "apply", def)
	for _, n := range []string{"1", "2", "3"} {
		run(t, s.env, "start", "greet", "--input", `{"n":`+n+`}`, "--wait", "10s")
	}
	if out := ok(t, s.env, "replay", "--against", def); out != "3 replayed: 3 same\n" {
		t.Errorf("got %q", out)
	}
	later := file(t, "later.yaml", strings.Replace(source, "n > 2", "n > 3", 1))
	out := ok(t, s.env, "replay", "--against", later)
	if !strings.Contains(out, "other-end") || !strings.Contains(out, `/status is "succeeded" instead of "compensated"`) || !strings.HasSuffix(out, "3 replayed: 2 same, 1 other-end\n") {
		t.Errorf("got %s", out)
	}
	if r := run(t, s.env, "replay", "--against", later, "--refuse-on", "other-end", "-o", "json"); r.code != cli.Failed || !strings.Contains(r.out, `"verdict":"other-end"`) {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if out := ok(t, s.env, "replay", "--against", later, "--sagas", "status=succeeded"); out != "2 replayed: 2 same\n" {
		t.Errorf("got %q", out)
	}
	for _, args := range [][]string{{"--sagas", "team=a"}, {"--refuse-on", "same"}, {"--refuse-on", "ends"}} {
		if r := run(t, s.env, append([]string{"replay", "--against", def}, args...)...); r.code != cli.Usage {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errOut)
		}
	}
	if r := run(t, s.env, "definitions", "apply", later, "--replay", "100"); r.code != cli.Failed || !strings.Contains(r.errOut, "nothing was published") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	if out := ok(t, s.env, "definitions", "list"); !strings.Contains(out, "v1") {
		t.Errorf("got %s", out)
	}
	if out := ok(t, s.env, "definitions", "apply", later, "--replay", "100", "--refuse-on", "other-request"); !strings.Contains(out, "published") {
		t.Errorf("got %s", out)
	}
}
