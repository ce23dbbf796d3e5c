package main

import (
	"os"
	"strings"
	"testing"

	"recourse/internal/cli"
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

// A command whose output cannot be written fails, and says why.
func TestOutputIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = full.Close() })
	var stderr strings.Builder
	m := Main{Args: []string{"version"}, Stdin: strings.NewReader(""), Stdout: full, Stderr: &stderr}
	if code := m.Run(t.Context()); code != cli.Failed || !strings.Contains(stderr.String(), "the output is not complete: write /dev/full: no space left on device") {
		t.Errorf("code %d: %s", code, stderr.String())
	}
}
