package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recourse/saga"
)

// Whoever publishes sees the warnings, and the inbox has commands that a shell takes as they are, for each kind.
func TestInboxCommands(t *testing.T) {
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "d.yaml", `
saga: asks
budget: {amount: 1.00 USD, on_exceed: ask}
steps:
  - {id: fetch, task: page.fetch, when: "false"}
  - id: each
    foreach: [1]
    steps:
      - {id: ok, approval: {title: Sure?, form: {limit: integer}}}
  - {id: dear, http: GET https://dear.example/, cost: 5.00 USD}
`)
	if r := run(t, s.env, "definitions", "apply", def); r.code != exitOK || !strings.Contains(r.errOut, "warning: blind-retry") {
		t.Fatalf("exit code %d, stderr %q", r.code, r.errOut)
	}
	id, _, _ := strings.Cut(ok(t, s.env, "start", "asks"), " ")
	sh := func(command string) string {
		t.Helper()
		dir := t.TempDir()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, filepath.Join(dir, "recourse")); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "sh", "-e", "-c", command)
		c.Env = append(append(os.Environ(), s.env...), asMain+"=1", "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	line := func(with string) string {
		t.Helper()
		for _, l := range strings.Split(ok(t, s.env, "inbox", "--saga", id), "\n") {
			if c, is := strings.CutPrefix(l, "  → "); is && strings.Contains(c, with) {
				return c
			}
		}
		t.Fatalf("no command with %q in\n%s", with, ok(t, s.env, "inbox", "--saga", id))
		return ""
	}
	sh(strings.Replace(line("approve"), "…", "3", 1) + " --yes")
	if out := sh(line("recourse budget")); !strings.Contains(out, "of 2.00 USD") {
		t.Errorf("raised: %s", out)
	}
	sh(line("cancel"))
	waitFor(t, s, id, saga.Compensated)
}
