package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A saga that runs one action is no session: it is not listed as one, and a fork of it has no
// agent.
func TestActionRunIsNoSession(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "act.yaml", "action: act\nagents: auto\ntask: {type: act}\n"))
	if status := s.status(t, http.MethodPost, "/v1/actions/act/run"); status != http.StatusCreated {
		t.Fatalf("HTTP %d", status)
	}
	out := ok(t, s.env, "list", "-o", "json")
	_, id, _ := strings.Cut(out, `"id":"`)
	if len(id) < 36 || !strings.Contains(out, `"~action/act"`) {
		t.Fatalf("the run: %s", out)
	}
	if out := ok(t, s.env, "sessions", "list", "-o", "json"); out != "[]\n" {
		t.Errorf("sessions: %s", out)
	}
	if r := run(t, s.env, "fork", id[:36], "--at", "1"); r.code != 0 || strings.Contains(r.errOut, "agent") {
		t.Errorf("its fork: exit %d: %s%s", r.code, r.out, r.errOut)
	}
}
