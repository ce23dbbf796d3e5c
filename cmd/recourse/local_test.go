package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/database"
	"recourse/internal/cli/offline"
	"recourse/internal/test/buffer"
	"recourse/journal"
	"recourse/saga"
)

func TestRun(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	def := file(t, "hello.yaml", hello)
	input := `{"n":9007199254740993,"city":"LIS"}`
	checkGolden(t, "run", ok(t, vars, "run", def, "-i", input))
	if out := ok(t, vars, "run", def, "-i", input, "-o", "json"); !strings.Contains(out, `"n":9007199254740993`) {
		t.Errorf("the number was changed: %s", out)
	}
	refuse := world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}}
	if err := w.AddFault(refuse); err != nil {
		t.Fatal(err)
	}
	if r := run(t, vars, "run", def, "-i", input); r.code != cli.Failed || !strings.Contains(r.out, "compensated") {
		t.Errorf("a saga that fails: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := runWith(t, `{"n":"x"}`, vars, "run", def, "-i", "-"); r.code != cli.Usage || !strings.Contains(r.errOut, "/input/n") {
		t.Errorf("a bad input: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, nil, "run", def, "-i", input); r.code != cli.Usage || !strings.Contains(r.errOut, "RECOURSE_VAR_air") {
		t.Errorf("a missing var: exit %d: %s", r.code, r.errOut)
	}
}

// A run whose saga needs a person ends, and a server can continue with its database.
func TestRunLeavesWhatWaitsInItsDatabase(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	def := file(t, "hello.yaml", hello)
	db := filepath.Join(t.TempDir(), "a.db")
	drop := world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 2, Do: world.Do{After: world.FaultDrop}}
	if err := w.AddFault(drop); err != nil {
		t.Fatal(err)
	}
	r := run(t, vars, "run", def, "-i", `{"n":1,"city":"LIS"}`, "--database", db)
	if r.code != cli.Failed || !strings.Contains(r.errOut, "recourse serve --database") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	s := serve(t, vars, "--database", db)
	if out := ok(t, s.env, "inbox"); !strings.Contains(out, "step book") {
		t.Errorf("the inbox of the served database: %s", out)
	}
}

// A saga that was started at a server is not run by a command with the same database, which has
// another configuration. A server continues it.
func TestRunLeavesOtherSagas(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, nil, "--database", db)
	ok(t, s.env, "definitions", "apply", file(t, "later.yaml", "saga: later\nsteps:\n  - {id: nap, sleep: 1h}\n"))
	id := uuid.FromStringOrNil(strings.Fields(ok(t, s.env, "start", "later"))[0])
	if code := s.stop(); code != cli.OK {
		t.Fatalf("serve ended with %d:\n%s", code, s.log)
	}
	inDatabase := func(do func(journal.Store) error) {
		t.Helper()
		store, err := database.Open(t.Context(), db, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(do(store), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	inDatabase(func(store journal.Store) error { // now it is due
		m, err := saga.Command{Do: saga.Cancel{}, Reason: "a test", Actor: "test"}.Message(uuid.Must(uuid.NewV7()), id)
		return errors.Join(err, store.Send(t.Context(), m))
	})
	ok(t, nil, "run", file(t, "longer.yaml", "saga: longer\nsteps:\n  - {id: nap, sleep: 1s}\n"), "--database", db)
	inDatabase(func(store journal.Store) error {
		h, err := store.Saga(t.Context(), id)
		if h.Status != string(saga.Waiting) || h.Claims != 0 {
			t.Errorf("after the command the saga is %s, with %d claims", h.Status, h.Claims)
		}
		return err
	})
	waitFor(t, serve(t, nil, "--database", db), id.String(), saga.Compensated)
}

// The password in a database's URL is not printed.
func TestRunSaysNoPassword(t *testing.T) {
	t.Parallel()
	err := waitsIn("postgres://recourse:hunter2@db/recourse")
	if text := err.Error(); cli.ExitCode(err) != cli.Failed || strings.Contains(text, "hunter2") || !strings.Contains(text, "recourse serve") {
		t.Error(text)
	}
}

const slow = `saga: slow
steps:
  - id: book
    http: POST ${vars.air}/bookings
    body: {route: LIS}
    in_doubt: retry
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}
  - id: wait
    sleep: 1h
`

// lineWriter reports when a line with a text has been written.
type lineWriter struct {
	buffer.Buffer
	text string
	seen chan struct{}
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if bytes.Contains(p, []byte(w.text)) {
		close(w.seen)
	}
	return n, err
}

// The first interrupt undoes the saga.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &lineWriter{text: "sleeps until", seen: make(chan struct{})}
	m := Main{Args: []string{"run", file(t, "slow.yaml", slow)}, Env: vars, Stdin: strings.NewReader(""), Stdout: out, Stderr: &buffer.Buffer{}}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx) }()
	<-out.seen
	interrupt()
	if got := <-code; got != cli.Failed {
		t.Errorf("exit %d", got)
	}
	if net := w.Balance().Net(); net != 0 {
		t.Errorf("%d effects remain:\n%s", net, out.String())
	}
}

func TestValidateAndPlan(t *testing.T) {
	t.Parallel()
	good := file(t, "good.yaml", hello)
	bad := file(t, "bad.yaml", "saga: hello\nstesp: []\nsteps:\n  - id: a\n    htp: GET http://x\n")
	r := run(t, nil, "validate", good, bad)
	if r.code != cli.Usage {
		t.Errorf("exit %d", r.code)
	}
	out := strings.NewReplacer(good, "good.yaml", bad, "bad.yaml").Replace(r.out)
	vars := []string{config.VarPrefix + "air=https://air.example"}
	out += ok(t, vars, "plan", good, "-i", `{"n":2,"city":"LIS"}`, "--stub", `book={"id":"bk_1"}`)
	checkGolden(t, "validate", out)
	var list []offline.Findings
	r = run(t, nil, "validate", "-o", "json", good, bad)
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list) != 2 || !list[0].OK || list[1].OK || len(list[1].Errors) == 0 {
		t.Errorf("validate -o json: %v: %s", err, r.out)
	}
	if r := run(t, vars, "plan", good, "--stub", "nope=1"); r.code != cli.Usage {
		t.Errorf("a stub for no step: exit %d", r.code)
	}
	if out := ok(t, vars, "plan", good, "-i", `{"n":9007199254740993,"city":"LIS"}`, "-o", "json"); !strings.Contains(out, `"n":9007199254740993`) {
		t.Errorf("the number was changed: %s", out)
	}
}
