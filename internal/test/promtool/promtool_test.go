package promtool_test

import (
	"strings"
	"testing"

	"recourse/internal/test/promtool"
)

// recorder is a test that may fail without failing this one.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestRun(t *testing.T) {
	const good = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n"
	for _, tt := range []struct {
		metrics string
		fails   bool
	}{{good, false}, {strings.ReplaceAll(good, "a_total", "a"), true}, {"{", true}} {
		r := &recorder{TB: t}
		if out := promtool.Run(r, t.TempDir(), []byte(tt.metrics), "check", "metrics"); r.failed != tt.fails {
			t.Errorf("%q: failed %v: %s", tt.metrics, r.failed, out)
		}
	}
}
