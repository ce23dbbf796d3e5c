package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// until waits until the screen shows a text, and checks after each output.
func (p *pty) until(t *testing.T, text string) {
	t.Helper()
	late := time.After(time.Minute)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !strings.Contains(p.shown(), text) {
		select {
		case <-late:
			t.Fatalf("the screen does not show %q:\n%s", text, p.shown())
		case <-look.C:
		}
	}
}

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
	p := terminalOf(t, 90, 20)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"show", "--follow", id}, Env: append([]string{"TERM=xterm", "NO_COLOR=1"}, s.env...), Stdin: strings.NewReader(""), Stdout: p.slave, Stderr: p.slave}
		code <- m.Run(t.Context())
	}()
	p.until(t, "waits for approval")
	p.resize(t, 48, 20)
	s.stop()
	p.until(t, "retrying")
	s = serve(t, vars, "--database", db, "--listen", strings.TrimPrefix(s.url, "http://"))
	ok(t, s.env, "approve", id, "sure", "--yes")
	p.until(t, "continues in")
	if got := <-code; got != exitOK {
		t.Errorf("exit %d", got)
	}
	golden(t, "follow", p.end())
	p.within(t)
	if p.screen.colours > 0 {
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
	if r.code != exitFailed || !strings.Contains(r.out, "not today") || strings.Contains(r.out, "\x1b") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := run(t, s.env, "show", id, "-f", "-o", "yaml"); r.code != exitFailed || !strings.Contains(r.out, "status: compensated\n") {
		t.Errorf("as YAML: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	code, screen, p := onTerminal(t, 80, append(s.env, "TERM=dumb"), "show", id, "-f")
	if code != exitFailed || !strings.Contains(screen, "not today") || strings.Contains(screen, "✗ no  ✗") {
		t.Errorf("on a dumb terminal: exit %d: %s", code, screen)
	}
	if p.screen.colours > 0 {
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
	p := terminalOf(t, 72, 30)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"run", def}, Env: append([]string{"TERM=xterm"}, vars...), Stdin: strings.NewReader(""), Stdout: p.slave, Stderr: p.slave}
		code <- m.Run(ctx)
	}()
	p.until(t, "waits for signal com.shop.paid")
	p.until(t, "continues in 60 min")
	interrupt()
	if got := <-code; got != exitFailed {
		t.Errorf("exit %d", got)
	}
	golden(t, "run-terminal", p.end())
	p.within(t)
	if p.screen.colours == 0 {
		t.Error("there are no colours")
	}
}
