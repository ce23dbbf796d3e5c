package main

import (
	"strings"
	"testing"

	"recourse/internal/cli"
)

// Commands that publish and check remove their bars.
func TestBarsOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := dir + "/a.db"
	code, out, _ := onTerminal(t, 80, nil, "migrate", "up", "--database", db)
	if code != cli.OK || strings.TrimSpace(out) != "at step "+newestStep(t) {
		t.Errorf("migrate: exit %d: %q", code, out)
	}
	s := serve(t, nil, "--database", db)
	code, out, p := onTerminal(t, 80, s.env, "definitions", "apply", file(t, "a.yaml", "saga: one\nsteps: [{id: a, set: 1}]\n"), file(t, "b.yaml", "saga: two\nsteps: [{id: a, set: 1}]\n"))
	if code != cli.OK || strings.Count(out, "published\n") != 2 || strings.Contains(out, "#") || strings.Contains(out, "[") {
		t.Errorf("apply: exit %d: %q", code, out)
	}
	if len(p.Screen.Unknown) > 0 {
		t.Errorf("sent to the terminal: %q", p.Screen.Unknown)
	}
	ok(t, s.env, "start", "one", "--wait", "10s")
	code, out, _ = onTerminal(t, 80, nil, "verify", "--database", db)
	if code != cli.OK || strings.Contains(out, "sagas  ") || !strings.Contains(out, "no violations") {
		t.Errorf("verify: exit %d: %q", code, out)
	}
}

// newestStep returns this program's newest migration.
func newestStep(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(strings.TrimSpace(ok(t, nil, "migrate", "status", "--database", migrated(t))), "has ")
	return after
}
