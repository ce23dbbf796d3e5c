package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/bench"
	"recourse/internal/testpg"
)

// A short session on both databases: every figure is there, and the ledger is right.
func TestBench(t *testing.T) {
	databases := map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "b") },
		"postgres": func(t *testing.T) string {
			c, err := testpg.Start("fsync=on", "synchronous_commit=on", "full_page_writes=on")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			})
			return c.URL
		},
	}
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			out := ok(t, demoEnv(t), "bench", "--database", database(t), "--clients", "2", "--rate", "20", "--each", "500ms", "--rounds", "1", "-o", "json")
			var r bench.Report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if r.Workload != "booking3" || r.Store != name || len(r.Runs) != 4 {
				t.Fatalf("got %+v", r)
			}
			for _, f := range r.Runs {
				// Each saga takes one append to start, one a call, and they share commits.
				if !f.LedgerOK || f.Engine <= 0 || f.Floor <= 0 || f.Ratio <= 0 || f.P50 <= 0 || f.P99 < f.P50 || f.Commits <= 0 || f.Commits > 10 || f.Written <= 0 || f.CPU.Engine <= 0 || f.PeakMB <= 0 {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

// No figures without a right ledger, nor without durable commits.
func TestBenchRefuses(t *testing.T) {
	r := run(t, demoEnv(t), "bench", "--clients", "2", "--each", "200ms", "--rounds", "1", "--cheat")
	if r.code != exitFailed || !strings.Contains(r.errOut, "ledger") || r.out != "" {
		t.Errorf("a wrong ledger: exit %d\n%s%s", r.code, r.out, r.errOut)
	}
	r = run(t, demoEnv(t), "bench", "--database", testpg.DSN(t), "--clients", "2", "--each", "200ms", "--rounds", "1")
	if r.code != exitFailed || !strings.Contains(r.errOut, "fsync=off") || r.out != "" {
		t.Errorf("without fsync: exit %d\n%s%s", r.code, r.out, r.errOut)
	}
}
