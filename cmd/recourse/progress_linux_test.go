package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		n, of int
		took  time.Duration
		want  string
	}{
		{0, 0, time.Second, "0 sagas"},
		{120, 0, 0, "120 sagas"},
		{120, 0, 10 * time.Second, "120 sagas  12.0/s"},
		{0, 10, time.Second, "[........................] 0/10 sagas"},
		{5, 10, 100 * time.Second, "[############............] 5/10 sagas  0.0/s  2 min left"},
		{500_000, 1_000_000, 100 * time.Second, "[############............] 500000/1000000 sagas  5000/s  2 min left"},
		{10, 10, time.Second, "[########################] 10/10 sagas  10.0/s"},
		{12, 10, time.Second, "[########################] 12/10 sagas  12.0/s"}, // more were added in the meantime
	}
	for _, tt := range tests {
		if got := (&progress{what: "sagas", of: tt.of}).line(tt.n, tt.took); got != tt.want {
			t.Errorf("%d of %d after %s: got %q, want %q", tt.n, tt.of, tt.took, got, tt.want)
		}
	}
}

// A bar is drawn in place, fits a narrow terminal, and is removed at the end; without a terminal
// there is none.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	p := terminalOf(t, 40, 10)
	a := &app{Main: Main{Stderr: p.slave, Stdout: io.Discard}, env: map[string]string{"TERM": "xterm"}}
	bar := a.progress("sagas", 4)
	for i := range 4 {
		bar.shown = time.Time{} // as after some time
		bar.at(i)
		p.until(t, fmt.Sprintf("%d/4 sagas", i))
	}
	bar.end()
	fmt.Fprintln(p.slave, "after it")
	release := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- a.during("migrating", func() error { <-release; return io.EOF }) }()
	p.until(t, "migrating  1 s")
	close(release)
	if err := <-ended; err != io.EOF {
		t.Errorf("got %v", err)
	}
	p.within(t)
	if got := p.end(); got != "after it\n" {
		t.Errorf("left on the screen: %q", got)
	}
	var plain strings.Builder
	a.Stderr = &plain
	bar = a.progress("sagas", 4)
	bar.at(1)
	bar.end()
	if err := a.during("migrating", func() error { return nil }); err != nil || plain.Len() > 0 {
		t.Errorf("%v, %q", err, plain.String())
	}
}

// Commands that publish and check remove their bars.
func TestBarsOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := dir + "/a.db"
	code, out, _ := onTerminal(t, 80, nil, "migrate", "up", "--database", db)
	if code != exitOK || strings.TrimSpace(out) != "at step "+newestStep(t) {
		t.Errorf("migrate: exit %d: %q", code, out)
	}
	s := serve(t, nil, "--database", db)
	code, out, p := onTerminal(t, 80, s.env, "definitions", "apply", file(t, "a.yaml", "saga: one\nsteps: [{id: a, set: 1}]\n"), file(t, "b.yaml", "saga: two\nsteps: [{id: a, set: 1}]\n"))
	if code != exitOK || strings.Count(out, "published\n") != 2 || strings.Contains(out, "#") || strings.Contains(out, "[") {
		t.Errorf("apply: exit %d: %q", code, out)
	}
	if len(p.screen.unknown) > 0 {
		t.Errorf("sent to the terminal: %q", p.screen.unknown)
	}
	ok(t, s.env, "start", "one", "--wait", "10s")
	code, out, _ = onTerminal(t, 80, nil, "verify", "--database", db)
	if code != exitOK || strings.Contains(out, "sagas  ") || !strings.Contains(out, "no violations") {
		t.Errorf("verify: exit %d: %q", code, out)
	}
}

// newestStep returns this program's newest migration.
func newestStep(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(strings.TrimSpace(ok(t, nil, "migrate", "status", "--database", migrated(t))), "has ")
	return after
}
