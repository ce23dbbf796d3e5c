package main

import (
	"strings"
	"testing"

	"recourse/internal/test/pty"
)

// onTerminal runs the program on a terminal to its end and returns the text of the screen.
func onTerminal(t *testing.T, columns int, env []string, args ...string) (code int, screen string, p *pty.Terminal) {
	t.Helper()
	p = pty.Open(t, columns, 50)
	m := Main{Args: args, Env: append([]string{"TERM=xterm"}, env...), Stdin: strings.NewReader(""), Stdout: p.Slave, Stderr: p.Slave}
	code = m.Run(t.Context())
	return code, p.End(), p
}
