package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/test/pty"
)

// On a terminal, the last lines show the calls, and the agent's output scrolls above them.
func TestAgentOnATerminal(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	p := pty.Open(t, 76, 18)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"agent", "run", "--name", "refund", "--actions", "refund,mail", "--", "sh", "-c", "for i in $(seq 30); do echo line $i; done; " + waits(token, "echo bye")},
			Env: append([]string{"TERM=xterm", "PATH=" + os.Getenv("PATH")}, s.env...), Stdin: strings.NewReader(""), Stdout: p.Slave, Stderr: p.Slave}
		code <- m.Run(t.Context())
	}()
	secret := tokenIn(t, token)
	p.Until(t, "an abort undoes nothing")
	for i := range 8 {
		s.in(t, secret, "POST", "calls", refundOf(fmt.Sprint("o-", i), 1910), nil)
	}
	p.Until(t, "an abort undoes refund[7], refund[6], ")
	p.Until(t, "5 calls more: 5 succeeded")
	p.Resize(t, 60, 18)
	s.in(t, secret, "POST", "calls", `{"action": "mail", "input": {"to": "a@shop.example", "order": "o-1"}}`, nil)
	p.Until(t, "mail[0]")
	let(t, token)
	if got := <-code; got != cli.OK {
		t.Errorf("exit %d", got)
	}
	text := p.End()
	for i := range 30 {
		if !strings.Contains(text, fmt.Sprintf("line %d\n", i+1)) {
			t.Fatalf("line %d of the agent is missing:\n%s", i+1, text)
		}
	}
	_, end, bye := strings.Cut(text, "bye\n")
	if !bye || !strings.Contains(end, "recourse: committed\n── refund  life 1  succeeded ") || !strings.Contains(end, "✓ mail[0]") || strings.Contains(end, "an abort undoes") || len(p.Screen.Unknown) > 0 {
		t.Errorf("%s%q", text, p.Screen.Unknown)
	}
	p.CheckWidth(t)
}

// A signal ends the view in the last lines at once: a second signal may end the program.
func TestAgentOnATerminalIsInterrupted(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	p := pty.Open(t, 76, 18)
	ctx, interrupt := testContext(t)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"agent", "run", "--name", "refund", "--key", "a", "--actions", "refund,mail", "--", "sh", "-c", "trap 'echo stops; until test -e " + token + ".go; do sleep 0.05; done; exit 0' TERM; " + waits(token, "")},
			Env: append([]string{"TERM=xterm", "PATH=" + os.Getenv("PATH")}, s.env...), Stdin: strings.NewReader(""), Stdout: p.Slave, Stderr: p.Slave}
		code <- m.Run(ctx)
	}()
	s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil)
	p.Until(t, "an abort undoes refund[0]")
	interrupt()
	p.Until(t, "stops")
	s.in(t, tokenIn(t, token), "POST", "calls", `{"action": "mail", "input": {"to": "a@shop.example", "order": "o-1"}}`, nil)
	p.Until(t, "recourse: mail[0] (mail@1): succeeded")
	let(t, token)
	if got := <-code; got != cli.Failed {
		t.Errorf("exit %d", got)
	}
	text := p.End()
	if frame := strings.Index(text, "an abort undoes refund[0]"); frame < 0 || strings.LastIndex(text, "an abort undoes") != frame || strings.Index(text, "recourse: mail[0]") < frame || len(p.Screen.Unknown) > 0 {
		t.Errorf("%s%q", text, p.Screen.Unknown)
	}
}
