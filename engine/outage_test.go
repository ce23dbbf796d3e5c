package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An outage of ten minutes that fails ten times a second takes a dozen lines: its begin, one each
// minute, and its end.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		o := outage{what: "could not commit", log: slog.New(slog.NewTextHandler(&b, nil)), level: slog.LevelError}
		o.observe(nil)
		for range 6000 {
			o.observe(errors.New("no answer"))
			time.Sleep(100 * time.Millisecond)
		}
		o.observe(nil)
		o.observe(nil)
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 11 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[10], "recovered from: could not commit") || !strings.Contains(lines[10], "failures=6000") {
			t.Errorf("%d lines:\n%s", len(lines), b.String())
		}
	})
}
