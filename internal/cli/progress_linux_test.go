package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"recourse/internal/test/pty"
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
		if got := (&ProgressBar{what: "sagas", of: tt.of}).line(tt.n, tt.took); got != tt.want {
			t.Errorf("%d of %d after %s: got %q, want %q", tt.n, tt.of, tt.took, got, tt.want)
		}
	}
}

// A bar is drawn in place, fits a narrow terminal, and is removed at the end; without a terminal
// there is none.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	p := pty.Open(t, 40, 10)
	a := New(t.Context(), []string{"TERM=xterm"}, nil, io.Discard, p.Slave)
	bar := a.Progress("sagas", 4)
	for i := range 4 {
		bar.shown = time.Time{} // as after some time
		bar.At(i)
		p.Until(t, fmt.Sprintf("%d/4 sagas", i))
	}
	bar.End()
	_, _ = fmt.Fprintln(p.Slave, "after it")
	release := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- a.During("migrating", func() error { <-release; return io.EOF }) }()
	p.Until(t, "migrating  1 s")
	close(release)
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	p.CheckWidth(t)
	if got := p.End(); got != "after it\n" {
		t.Errorf("left on the screen: %q", got)
	}
	var plain strings.Builder
	a.Stderr = &plain
	bar = a.Progress("sagas", 4)
	bar.At(1)
	bar.End()
	if err := a.During("migrating", func() error { return nil }); err != nil || plain.Len() > 0 {
		t.Errorf("%v, %q", err, plain.String())
	}
}
