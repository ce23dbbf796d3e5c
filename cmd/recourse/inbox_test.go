package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/saga"
)

// Publishing shows the warnings, and each kind of inbox entry comes with a command that a shell
// accepts unchanged.
func TestInboxCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "d.yaml", `
saga: asks
budget: {amount: 1.00 EUR, on_exceed: ask}
steps:
  - {id: fetch, task: page.fetch, when: "false"}
  - id: each
    foreach: [1]
    steps:
      - {id: ok, approval: {title: Sure?, form: {limit: integer}}}
  - {id: dear, http: GET https://dear.example/, cost: 5.00 EUR}
`)
	if r := run(t, s.env, "definitions", "apply", def); r.code != cli.OK || !strings.Contains(r.errOut, "warning: blind-retry") {
		t.Fatalf("exit code %d, stderr %q", r.code, r.errOut)
	}
	var id string
	sh := func(command string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-e", "-c", command)
		c.Env = append(append(os.Environ(), s.env...), pathVar(t))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	line := func(with string) string {
		t.Helper()
		for l := range strings.SplitSeq(ok(t, s.env, "inbox", "--saga", id), "\n") {
			if c, is := strings.CutPrefix(l, "  → "); is && strings.Contains(c, with) {
				return c
			}
		}
		t.Fatalf("no command with %q in\n%s", with, ok(t, s.env, "inbox", "--saga", id))
		return ""
	}
	approve := func() {
		t.Helper()
		id, _, _ = strings.Cut(ok(t, s.env, "start", "asks"), " ")
		sh(strings.Replace(line("approve"), "…", "3", 1) + " --yes")
	}
	approve()
	if out := sh(line("recourse budget")); !strings.Contains(out, "of 5.00 EUR") {
		t.Errorf("raised: %s", out)
	}
	if out := ok(t, s.env, "inbox", "--saga", id, "--kind", "budget"); !strings.Contains(out, "Inbox is empty") {
		t.Errorf("the line that the inbox prints does not suffice: %s", out)
	}
	approve()
	sh(line("cancel"))
	waitFor(t, s, id, saga.Compensated)
}
