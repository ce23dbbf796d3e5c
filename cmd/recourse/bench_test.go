package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/cli/bench/measure"
	"recourse/internal/test/pgserver"
)

// benchDatabase returns a database with durable commits for each store.
func benchDatabase(t *testing.T) map[string]string {
	c, err := pgserver.Start("fsync=on", "synchronous_commit=on", "full_page_writes=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return map[string]string{"sqlite": filepath.Join(t.TempDir(), "b"), "postgres": c.URL}
}

// A short run on both databases: every figure is present, and the ledger is right.
func TestBench(t *testing.T) {
	t.Parallel()
	for name, database := range benchDatabase(t) {
		t.Run(name, func(t *testing.T) {
			out := ok(t, demoEnv(t), "bench", "--database", database, "--clients", "2", "--rate", "20", "--each", "500ms", "--rounds", "1", "-o", "json")
			var r measure.Report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if r.Workload != "booking3" || r.Store != name || len(r.Runs) != 4 {
				t.Fatalf("got %+v", r)
			}
			for _, f := range r.Runs {
				// Each saga needs one append for its start and one per call, and sagas share
				// commits.
				if !f.LedgerOK || f.Engine <= 0 || f.Floor <= 0 || (f.Ratio <= 0) != (f.NoRatio != "") || f.P50 <= 0 || f.P99 < f.P50 || f.Commits <= 0 || f.Commits > 10 || f.Written <= 0 || f.CPU.Engine <= 0 || f.PeakMB <= 0 {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

// A small run of each other workload. Those that depend on more than appends run on both databases.
func TestBenchWorkloads(t *testing.T) {
	t.Parallel()
	databases := benchDatabase(t)
	for _, run := range []struct {
		store, workload, args string
		sane                  func(t *testing.T, out string)
	}{
		{"sqlite", "wide", "--sagas 3 --clients 3 --rounds 1", saneWide},
		{"postgres", "start", "--each 200ms --clients 1,4 --rounds 1", saneStart},
		{"sqlite", "long", "--steps 40 --rounds 2", saneLong},
		{"sqlite", "recover", "--sagas 10", saneRecover},
		{"postgres", "recover", "--sagas 10", saneRecover},
		{"sqlite", "overload", "--clients 4 --each 400ms", saneOverload},
		{"postgres", "overload", "--clients 4 --each 400ms", saneOverload},
		{"postgres", "parked", "--sagas 100 --wake 20", saneParked},
		{"sqlite", "agent", "--sagas 20 --steps 2 --times 8 --rounds 1 --each 300ms", saneAgent},
		{"postgres", "agent", "--sagas 20 --steps 2 --times 8 --rounds 1 --each 300ms", saneAgent},
		{"sqlite", "growth", "--sagas 300 --times 3 --clients 4 --each 200ms --rounds 1", saneGrowth},
		{"postgres", "growth", "--sagas 300 --times 3 --clients 4 --each 200ms --rounds 1", saneGrowth},
		{"sqlite", "list", "--sagas 150 --times 3", saneList},
		{"postgres", "list", "--sagas 150 --times 3", saneList},
	} {
		t.Run(run.store+" "+run.workload, func(t *testing.T) {
			t.Parallel()
			database := databases[run.store]
			if run.store == "sqlite" {
				database += "-" + run.workload // each workload has its own files
			}
			out := ok(t, demoEnv(t), append([]string{"bench", "--workload", run.workload, "--database", database, "-o", "json"}, strings.Fields(run.args)...)...)
			s := report[measure.Session](t, out)
			if s.Workload != run.workload || s.Store != run.store || s.Machine == "" || s.Rounds < 1 || (s.Verified != 0) != (run.workload == "growth") {
				t.Errorf("got %+v", s)
			}
			run.sane(t, out)
		})
	}
}

func report[T any](t *testing.T, out string) T {
	t.Helper()
	var r T
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func saneWide(t *testing.T, out string) {
	f := report[measure.Report](t, out).Runs[0]
	if !f.LedgerOK || f.Variant != measure.Wide || f.Sagas != 3 || f.Engine <= 0 || f.Floor <= 0 || (f.Ratio <= 0) != (f.NoRatio != "") || f.Steps < 49*f.Engine || f.Commits < 50.0/3 || f.Commits > 52 || f.CPU.Engine <= 0 {
		t.Errorf("got %+v", f)
	}
}

// Figures of a few hundred milliseconds next to other tests show how a report is made, not how fast
// the engine is. A node's own commits, such as those of its lease, count in them.
func saneStart(t *testing.T, out string) {
	r := report[measure.Report](t, out)
	if b := r.Batches; len(r.Runs) != 2 || b == nil || b.Size != 1000 || b.Engine <= 0 || b.Single <= 0 || b.Ratio <= 0 || b.P50 <= 0 || b.Commits <= 0 || b.Commits > 0.1 || b.CPU.Engine <= 0 {
		t.Errorf("got batches %+v", r.Batches)
	}
	f := r.Runs[0]
	if !f.LedgerOK || f.Variant != measure.Start || f.Steps != 0 || f.Engine <= 0 || f.Floor <= 0 || (f.Ratio <= 0) != (f.NoRatio != "") || f.P50 <= 0 || f.P99 < f.P50 || f.Commits <= 0 || f.Commits > 4 {
		t.Errorf("got %+v", f)
	}
}

func saneLong(t *testing.T, out string) {
	runs := report[measure.LongReport](t, out).Runs
	if len(runs) != 2 {
		t.Fatalf("got %+v", runs)
	}
	for _, r := range runs {
		if r.Steps != 40 || r.Part != 20 || r.First <= 0 || r.Last <= 0 || r.Ratio <= 0 || r.Rate <= 0 || r.Commits < 1 || r.Commits > 4 || r.CPU.Engine <= 0 || r.PeakMB <= 0 {
			t.Errorf("got %+v", r)
		}
	}
}

func saneRecover(t *testing.T, out string) {
	runs := report[measure.RecoverReport](t, out).Runs
	if len(runs) != 2 || runs[0].Delay != 0 || runs[0].Left != 0 || runs[1].Delay != 50 || runs[1].Left != 200 || runs[1].Over <= 0 {
		t.Fatalf("got %+v", runs)
	}
	for _, r := range runs {
		// Requests in flight when the engine died are sent again, and no others.
		if r.Sagas != 10 || r.Again != 10 || r.Listening <= 0 || r.First <= 0 || r.Moving < r.First || r.Ended <= r.Moving || math.Abs(r.Parts.Start+r.Parts.Wait+r.Parts.Spread+r.Parts.Finish-r.Ended) > 1 || r.Rate <= 0 || r.PeakMB <= 0 {
			t.Errorf("got %+v", r)
		}
	}
}

func saneOverload(t *testing.T, out string) {
	r := report[measure.OverloadReport](t, out).Runs[0]
	if r.Sustainable <= 0 || r.Asked < 1.9*r.Sustainable-2 || r.Offered <= 0 || r.Accepted <= 0 || r.AcceptedPS <= 0 || r.Ended <= 0 || r.Starts != r.Accepted+r.Busy+r.Unavailable ||
		r.P50 <= 0 || r.P99 < r.P50 || r.Late < 0 || r.Drain <= 0 || r.BeforeMB <= 0 || r.PeakMB < r.BeforeMB {
		t.Errorf("got %+v", r)
	}
}

func saneParked(t *testing.T, out string) {
	r := report[measure.ParkedReport](t, out).Runs[0]
	if r.Sagas != 100 || r.Woken != 20 || r.Seeded <= 0 || r.Ready <= 0 || r.RSS <= 0 || r.Heap <= 0 || r.Peak < r.RSS || r.PeakMB < r.Peak || r.First <= 0 || r.Wake < r.First || r.Rate <= 0 {
		t.Errorf("got %+v", r)
	}
}

func saneList(t *testing.T, out string) {
	runs := report[measure.ListReport](t, out).Runs
	pages := 0
	for _, r := range runs {
		if strings.HasPrefix(r.List, "page: ") {
			pages++
		}
	}
	if len(runs)-pages < 8 || pages < 8 {
		t.Fatalf("got %+v", runs)
	}
	for _, r := range runs {
		// With so few samples such a list may be empty.
		counts, few := strings.HasPrefix(r.List, "counts"), strings.HasPrefix(r.List, "between")
		if r.Sagas != 150 || (r.Query == "") != counts || r.Times < 3 && !counts || r.Requests < 1 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 ||
			!counts && !few && (r.Rows == 0) != strings.HasSuffix(r.List, "none") {
			t.Errorf("got %+v", r)
		}
	}
}

func saneGrowth(t *testing.T, out string) {
	runs := report[measure.GrowthReport](t, out).Runs
	if len(runs) != 2 || runs[0].Ended != 0 || len(runs[0].Changes) != 0 || runs[1].Ended != 300 || runs[1].Filled <= 0 || runs[1].Vacuum <= 0 || len(runs[1].Changes) != 1 {
		t.Fatalf("got %+v", runs)
	}
	if c := runs[1].Changes[0]; c.Concurrency != 4 || c.Rate <= 0 || c.CPU < 0 || c.Written <= 0 {
		t.Errorf("got %+v", c)
	}
	for _, r := range runs {
		if f := r.Figures[0]; len(r.Figures) != 1 || f.Variant != measure.Succeeds || f.Engine <= 0 || f.Floor <= 0 || len(r.Tables) == 0 || r.Tables[0].Table <= 0 || len(r.Lists) < 6 {
			t.Errorf("got %+v", r)
		}
		for _, l := range r.Lists {
			// Only the copies are that old.
			few := strings.HasSuffix(l.List, "none") || r.Ended == 0 && l.List == "before"
			if l.Times < 3 || l.P50 <= 0 || (l.Rows == 0) != few || r.Ended > 0 && !few && l.Rows != 100 {
				t.Errorf("got %+v", l)
			}
		}
	}
}

func saneAgent(t *testing.T, out string) {
	r := report[measure.AgentReport](t, out)
	if len(r.Runs) != 7 || len(r.Targets) != 15 || r.Commit <= 0 || r.Others < 0 {
		t.Fatalf("got %+v", r)
	}
	for _, l := range r.Runs {
		recorded := l.What == "recorded answer"
		// The system counts CPU in ticks, so a few requests may have used none.
		if l.Times < 4 || l.AtOnce != 1 && l.AtOnce != 32 || l.DirectP50 <= 0 || l.DirectP99 < l.DirectP50 || l.P50 <= 0 || l.P99 < l.P50 || l.CPU < 0 ||
			recorded && l.Commits != 0 || !recorded && (l.Commits <= 0 || l.Commits > 5 || l.Commit <= 0) {
			t.Errorf("got %+v", l)
		}
	}
	for _, f := range r.Targets {
		if strings.HasPrefix(f.What, "storage") && (f.Value < .5 || f.Value > 10) || f.Met != (f.Value <= f.Target) {
			t.Errorf("got %+v", f)
		}
	}
}

// There are no figures without a correct ledger, or without durable commits.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--clients 2 --each 200ms --rounds 1",
		"--workload wide --sagas 2 --clients 2 --rounds 1",
		"--workload long --steps 20 --rounds 1",
		"--workload recover --sagas 20",
		"--workload overload --clients 2 --each 200ms",
		"--workload agent --sagas 2 --steps 2 --times 8 --rounds 1 --each 100ms",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := run(t, demoEnv(t), append([]string{"bench", "--cheat"}, strings.Fields(args)...)...)
			if r.code != cli.Failed || !strings.Contains(r.errOut, "ledger") || r.out != "" {
				t.Errorf("a wrong ledger: exit %d\n%s%s", r.code, r.out, r.errOut)
			}
		})
	}
	for _, args := range []string{"--workload long --steps 10001", "--workload recover --sagas 10001", "--workload agent --steps 1", "--clients 0", "--workload tall"} {
		if r := run(t, demoEnv(t), append([]string{"bench"}, strings.Fields(args)...)...); r.code != cli.Usage {
			t.Errorf("%s: exit %d\n%s", args, r.code, r.errOut)
		}
	}
	r := run(t, demoEnv(t), "bench", "--database", pgserver.DSN(t), "--clients", "2", "--each", "200ms", "--rounds", "1")
	if r.code != cli.Failed || !strings.Contains(r.errOut, "fsync=off") || r.out != "" {
		t.Errorf("without fsync: exit %d\n%s%s", r.code, r.out, r.errOut)
	}
}

// The server of the benchmark has none of the shell's settings, which are for other servers.
func TestBenchHasItsOwnSettings(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	env := append(demoEnv(t), "RECOURSE_CONFIG="+filepath.Join(t.TempDir(), "none.yaml"), "RECOURSE_STATE_DIR="+state)
	ok(t, env, "bench", "--clients", "1", "--rate", "20", "--each", "200ms", "--rounds", "1")
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state directory of another server is used: %v", err)
	}
}
