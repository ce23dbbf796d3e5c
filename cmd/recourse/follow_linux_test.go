package main

import (
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/test/pty"
)

const followed = `saga: followed
steps:
  - {id: book, http: "POST ${vars.air}/bookings", body: {route: LIS}}
  - {id: sure, approval: {title: Sure?}}
  - {id: then, sleep: 1s}
  - {id: mail, http: "POST ${vars.air}/bookings", body: {route: OSL}}
`

// A saga is followed on a terminal that becomes narrower, while its server restarts. The test is
// not parallel: another test could take the port.
func TestShowFollowOnATerminal(t *testing.T) {
	_, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, vars, "--database", db)
	ok(t, s.env, "definitions", "apply", file(t, "f.yaml", followed))
	id := strings.Fields(ok(t, s.env, "start", "followed"))[0]
	p := pty.Open(t, 90, 20)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"show", "--follow", id}, Env: append([]string{"TERM=xterm", "NO_COLOR=1"}, s.env...), Stdin: strings.NewReader(""), Stdout: p.Slave, Stderr: p.Slave}
		code <- m.Run(t.Context())
	}()
	p.Until(t, "waits for approval")
	p.Resize(t, 48, 20)
	s.stop()
	p.Until(t, "retrying")
	s = serve(t, vars, "--database", db, "--listen", strings.TrimPrefix(s.url, "http://"))
	ok(t, s.env, "approve", id, "sure", "--yes")
	p.Until(t, "continues in")
	if got := <-code; got != cli.OK {
		t.Errorf("exit %d", got)
	}
	checkGolden(t, "follow", p.End())
	p.CheckWidth(t)
	if p.Screen.Colours > 0 {
		t.Error("NO_COLOR is set, and there are colours")
	}
}

// Without a terminal the output is line by line, and the exit code is the saga's.
func TestShowFollow(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "f.yaml", "saga: fails\nsteps:\n  - {id: no, fail: not today}\n"))
	id := strings.Fields(ok(t, s.env, "start", "fails"))[0]
	r := run(t, s.env, "show", id, "-f")
	if r.code != cli.Failed || !strings.Contains(r.out, "not today") || strings.Contains(r.out, "\x1b") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := run(t, s.env, "show", id, "-f", "-o", "yaml"); r.code != cli.Failed || !strings.Contains(r.out, "status: compensated\n") {
		t.Errorf("as YAML: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	code, screen, p := onTerminal(t, 80, append(s.env, "TERM=dumb"), "show", id, "-f")
	if code != cli.Failed || !strings.Contains(screen, "not today") || strings.Contains(screen, "✗ no  ✗") {
		t.Errorf("on a dumb terminal: exit %d: %s", code, screen)
	}
	if p.Screen.Colours > 0 {
		t.Error("a dumb terminal was sent colours")
	}
}

// A local run is drawn in the same way; an interrupt undoes the saga, which is printed below.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	def := file(t, "r.yaml", `
saga: here
budget: 2.00 USD
steps:
  - {id: book, http: "POST ${vars.air}/bookings", body: {route: LIS}, cost: 0.75 USD, in_doubt: retry, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}}
  - id: both
    parallel:
      - {id: long, sleep: 1h}
      - {id: word, signal: com.shop.paid}
`)
	ctx, interrupt := testContext(t)
	p := pty.Open(t, 72, 30)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"run", def}, Env: append([]string{"TERM=xterm"}, vars...), Stdin: strings.NewReader(""), Stdout: p.Slave, Stderr: p.Slave}
		code <- m.Run(ctx)
	}()
	p.Until(t, "waits for signal com.shop.paid")
	p.Until(t, "continues in 60 min")
	interrupt()
	if got := <-code; got != cli.Failed {
		t.Errorf("exit %d", got)
	}
	checkGolden(t, "run-terminal", p.End())
	p.CheckWidth(t)
	if p.Screen.Colours == 0 {
		t.Error("there are no colours")
	}
}
