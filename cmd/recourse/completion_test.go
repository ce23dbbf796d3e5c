package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/cli"
	"recourse/internal/cli/completion"
	"recourse/saga"
)

// bash completes with the script as it does when Tab is pressed.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: asks\nsteps:\n  - {id: sure, approval: {title: Sure?}}\n"))
	ok(t, s.env, "definitions", "apply", file(t, "e.yaml", "saga: ends\nsteps:\n  - {id: a, set: 1}\n"))
	id := strings.Fields(ok(t, s.env, "start", "asks"))[0]
	waitFor(t, s, id, saga.Waiting)
	ended := strings.Fields(ok(t, s.env, "start", "ends", "--wait", "10s"))[0]

	complete := func(line string, env ...string) []string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "bash", "--norc", "-c", `
source <(recourse completion bash) || exit 1
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=${#COMP_WORDS[@]}
complete -p recourse | grep -q -- '-F _recourse' || exit 2
_recourse
for answer in "${COMPREPLY[@]}"; do echo "$answer"; done`, "bash", line)
		c.Env = append(append(os.Environ(), pathVar(t)), env...)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil || said.Len() > 0 {
			t.Fatalf("%q: %v\n%s%s", line, err, out, said.String())
		}
		return strings.Fields(string(out))
	}
	at := s.env[0]
	tests := []struct {
		line string
		want []string
	}{
		{"recourse re", []string{"reject", "replay", "resolve", "resume", "retry"}},
		{"recourse bench-", []string{}},
		{"recourse definitions ", []string{"apply", "list"}},
		{"recourse show --s", []string{"--server", "--steps"}},
		{"recourse list -o ", []string{"json", "text", "yaml"}},
		{"recourse list --output=j", []string{"json"}},
		{"recourse list -s stuck,wa", []string{"stuck,waiting"}},
		{"recourse start ", []string{"asks", "ends"}},
		{"recourse start --wait 3s e", []string{"ends"}},
		{"recourse show " + id, []string{id}},
		{"recourse show " + ended, []string{ended}},
		{"recourse cancel ", []string{id}},
		{"recourse approve " + id + " ", []string{"sure"}},
		{"recourse show --server http://127.0.0.1:1 ", []string{}},
	}
	for _, tt := range tests {
		got := complete(tt.line, at)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q: -want +got:\n%s", tt.line, d)
		}
	}
}

// Completion does not wait for a slow server.
func TestCompletionDoesNotWait(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(stop) })
	began := time.Now()
	r := run(t, []string{"COMP_LINE=recourse show ", "RECOURSE_SERVER=" + silent.URL})
	if r.code != cli.OK || r.out+r.errOut != "" {
		t.Errorf("exit %d: %q %q", r.code, r.out, r.errOut)
	}
	if took := time.Since(began); took > 20*completion.Timeout {
		t.Errorf("it took %s", took)
	}
}

// Each shell has a script that passes the line on.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell := range completion.Scripts {
		out := ok(t, nil, "completion", shell)
		for _, part := range []string{"COMP_LINE", "COMP_POINT", "recourse completion " + shell} {
			if !strings.Contains(out, part) {
				t.Errorf("the script for %s lacks %s", shell, part)
			}
		}
	}
	if r := run(t, nil, "completion", "csh"); r.code != cli.Usage {
		t.Errorf("csh: exit %d: %s", r.code, r.errOut)
	}
}
