package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/test/buffer"
	"recourse/internal/test/pgserver"
)

// demoEnv returns an environment with a directory for the demo's files.
func demoEnv(t *testing.T) []string {
	return []string{"TMPDIR=" + t.TempDir()}
}

// The demo as users see it: a real crash, real processes, and a matching ledger.
func TestDemo(t *testing.T) {
	t.Parallel()
	databases := map[string]func(t *testing.T) []string{
		"its own": func(*testing.T) []string { return nil },
		"sqlite": func(t *testing.T) []string {
			return []string{"--database", filepath.Join(t.TempDir(), "demo.db")}
		},
		"postgres": func(t *testing.T) []string { return []string{"--database", pgserver.DSN(t)} },
	}
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			out := ok(t, demoEnv(t), append([]string{"demo", "--once"}, database(t)...)...)
			for _, want := range []string{
				"undoing hotel, then flight",
				"another process takes over the saga",
				"attempt 2, the same key",
				"resolve refund as succeeded",
				"all invariants hold",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("the demo does not say %q:\n%s", want, out)
				}
			}
		})
	}
}

// The check at the end can fail: a world that deletes keys charges twice.
func TestDemoNoticesADoubleCharge(t *testing.T) {
	t.Parallel()
	r := run(t, demoEnv(t), "demo", "--once", "--forget-keys")
	if r.code != cli.Failed || !strings.Contains(r.out, "invariant 6") || !strings.Contains(r.out, "invariant 7") || strings.Contains(r.out, "all invariants hold") {
		t.Errorf("exit %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// A kept database is used again, with the sagas in it that need a person.
func TestDemoOnAKeptDatabase(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "demo.db")
	for range 2 {
		w := &lineWriter{text: "Ctrl-C ends it", seen: make(chan struct{})}
		ctx, interrupt := testContext(t)
		errs := &buffer.Buffer{}
		m := Main{Args: []string{"demo", "--listen", "127.0.0.1:0", "--database", database}, Env: demoEnv(t), Stdin: strings.NewReader(""), Stdout: w, Stderr: errs, Program: executable(t)}
		code := make(chan int, 1)
		go func() { code <- m.Run(ctx) }()
		select {
		case <-w.seen:
		case got := <-code:
			t.Fatalf("exit %d: %s", got, errs.String())
		}
		_, after, _ := strings.Cut(w.String(), "stays up at ")
		url, _, _ := strings.Cut(after, ". The same")
		env := []string{"RECOURSE_SERVER=" + url}
		if out := ok(t, env, "inbox"); strings.Count(out, "in_doubt  ") != 1 || strings.Count(out, "approval  Refund 39.90 USD") != 1 {
			t.Errorf("inbox: %s", out)
		}
		interrupt()
		<-code
	}
}

// Without --once the server runs until the program is interrupted, and stops with it.
func TestDemoStaysUp(t *testing.T) {
	t.Parallel()
	w := &lineWriter{text: "Ctrl-C ends it", seen: make(chan struct{})}
	ctx, interrupt := testContext(t)
	m := Main{Args: []string{"demo", "--listen", "127.0.0.1:0"}, Env: demoEnv(t), Stdin: strings.NewReader(""), Stdout: w, Stderr: &buffer.Buffer{}, Program: executable(t)}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx) }()
	<-w.seen
	_, after, _ := strings.Cut(w.String(), "stays up at ")
	url, _, _ := strings.Cut(after, ". The same")
	env := []string{"RECOURSE_SERVER=" + url}
	if out := ok(t, env, "list"); strings.Count(out, "booking") != 4 {
		t.Errorf("list: %s", out)
	}
	if out := ok(t, env, "inbox"); !strings.Contains(out, "in_doubt  It is unknown whether step refund has happened") || !strings.Contains(out, "approval  Refund 39.90 USD") {
		t.Errorf("inbox: %s", out)
	}
	// A server of the demo that is killed is replaced at once, because it keeps its node's state.
	_, after, _ = strings.Cut(w.String(), "recourse serve   # process ")
	pid, _, _ := strings.Cut(after, "\n")
	_, after, _ = strings.Cut(string(read(t, "/proc/"+pid+"/cmdline")), "--state-dir\x00")
	state, _, _ := strings.Cut(after, "\x00")
	if files, err := os.ReadDir(state); err != nil || len(files) == 0 {
		t.Errorf("the state of the demo's server in %q: %v, %v", state, files, err)
	}
	if out := ok(t, env, "list", "-d", "refund-claim", "-s", "compensated"); !strings.Contains(out, "0.02004") {
		t.Errorf("what an undone saga has cost: %s", out)
	}
	interrupt()
	if got := <-code; got != cli.OK {
		t.Errorf("exit %d", got)
	}
	if r := run(t, env, "list"); r.code != cli.Unreachable {
		t.Errorf("the server outlived the demo: exit %d", r.code)
	}
}
