package measure

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// GrowthReport says how the cost of a saga changes while ended sagas accumulate.
type GrowthReport struct {
	Session
	Runs []GrowthRun `json:"runs"`
}

// GrowthRun is a database with so many ended sagas, apart from those of the runs before.
type GrowthRun struct {
	Ended   int          `json:"ended"`
	Filled  float64      `json:"filled_per_s"` // 0: it was not filled
	Vacuum  float64      `json:"vacuum_s"`     // VACUUM and ANALYZE of all tables; SQLite: ANALYZE
	Figures []Figure     `json:"figures"`      // of booking3 whose sagas succeed, one for each number of clients
	Lists   []ListRun    `json:"lists"`
	Tables  []TableSize  `json:"tables"` // after the run, without empty ones
	Changes []CostChange `json:"changes,omitempty"`
}

// CostChange compares the cost of a saga with that in the empty database: 1 is the same.
type CostChange struct {
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate"` // of the engine's rates, each divided by the floor's
	CPU         float64 `json:"cpu"`  // of engine and database
	Written     float64 `json:"written"`
}

// mostGrowth is the largest change of a saga's cost that counts as none.
const mostGrowth = 0.10

// GrowthConfig configures a session.
type GrowthConfig struct {
	Engine   Engine
	Stub     Process
	Floor    func(map[string]Script) (Process, error) // starts the floor
	Database string
	Ended    int // the most ended sagas
	Clients  []int
	Each     time.Duration
	Rounds   int
	Times    int // each list is requested so often
	Progress Progress
}

// stages returns the numbers of ended sagas that are measured: none, 100,000, ten times as many and
// so on.
func (c *GrowthConfig) stages() []int {
	list := []int{0}
	for n := 100_000; n < c.Ended; n *= 10 {
		list = append(list, n)
	}
	return append(list, c.Ended)
}

// Growth measures booking3 and lists in a database with more and more ended sagas. These are copies
// of one that the engine has run, under other ids and at earlier times. It also returns how many
// sagas the engine has run, which are the newest: only these have valid hash chains.
func Growth(ctx context.Context, c GrowthConfig) (*GrowthReport, int, error) {
	r := &GrowthReport{Session: Session{Workload: "growth", Rounds: c.Rounds}}
	engine, err := c.Engine.Start()
	if err != nil {
		return nil, 0, err
	}
	scripts, err := Prepare(ctx, engine, c.Stub, []Variant{Succeeds})
	if err != nil {
		return nil, 0, err
	}
	newest, err := decoded[listed](get(ctx, engine.URL+"/v1/sagas?limit=1"))
	if err != nil || len(newest.Data) != 1 {
		return nil, 0, fmt.Errorf("%d sagas to copy: %w", len(newest.Data), err)
	}
	floor, err := c.Floor(scripts)
	if err != nil {
		return nil, 0, err
	}
	f, err := openFiller(ctx, c.Database, newest.Data[0].ID)
	if err != nil {
		return nil, 0, err
	}
	defer f.close()
	ran := 0
	for i, ended := range c.stages() {
		run := GrowthRun{Ended: ended}
		c.Engine.Kill() // SQLite lets no other process write
		if err := c.fill(ctx, f, &run); err != nil {
			return nil, 0, fmt.Errorf("fill the database with %d sagas: %w", ended, err)
		}
		if engine, err = c.Engine.Start(); err != nil {
			return nil, 0, err
		}
		if ran, err = c.run(ctx, engine, floor, &run); err != nil {
			return nil, 0, err
		}
		if run.Tables, err = f.sizes(ctx); err != nil {
			return nil, 0, err
		}
		if i > 0 {
			run.Changes = changes(r.Runs[0].Figures, run.Figures)
		}
		r.Runs = append(r.Runs, run)
	}
	return r, ran, nil
}

// fill adds copies until there are as many as the run is for.
func (c *GrowthConfig) fill(ctx context.Context, f *filler, run *GrowthRun) error {
	began, before := time.Now(), f.copies
	if err := f.fill(ctx, run.Ended, c.Progress); err != nil {
		return err
	}
	n := f.copies - before
	if n == 0 {
		return nil // statistics of an almost empty database would mislead the planner afterwards
	}
	run.Filled = round(float64(n) / time.Since(began).Seconds())
	began = time.Now()
	err := f.vacuum(ctx)
	run.Vacuum = round(time.Since(began).Seconds())
	return err
}

// run measures sagas and lists, and returns how many sagas the engine has run so far.
func (c *GrowthConfig) run(ctx context.Context, engine, floor Process, run *GrowthRun) (int, error) {
	s := Config{Workload: "growth", Engine: engine, Floor: floor, Stub: c.Stub, Database: c.Database, Variants: []Variant{Succeeds},
		Clients: c.Clients, Each: c.Each, Rounds: c.Rounds, Progress: c.Progress}
	report, err := Run(ctx, s)
	if err != nil {
		return 0, err
	}
	run.Figures = report.Runs
	stats, err := statsOf(ctx, engine)
	if err != nil {
		return 0, err
	}
	lists := ListConfig{Times: c.Times}
	deep := "started_before=" + time.Now().Add(-growthSpan/2).UTC().Format(time.RFC3339)
	for _, l := range []struct{ name, query string }{{"first page", ""}, {"status", "status=succeeded"}, {"status: none", "status=compensated"},
		{"definition", "definition=" + Succeeds.Name()}, {"before", deep}, {"text: none", "q=zebra"}} {
		timed, err := lists.timed(ListRun{List: l.name, Query: l.query, Sagas: run.Ended}, func() (int, int, error) {
			p, err := decoded[listed](get(ctx, fmt.Sprintf("%s/v1/sagas?limit=%d&%s", engine.URL, listPage, l.query)))
			return len(p.Data), 1, err
		})
		if err != nil {
			return 0, err
		}
		run.Lists = append(run.Lists, timed)
	}
	return stats.Sagas[Succeeds.Ends()] - run.Ended, nil
}

// changes compares figures with those of the empty database.
func changes(empty, now []Figure) (list []CostChange) {
	for i, f := range now {
		e := empty[i]
		list = append(list, CostChange{Concurrency: f.Concurrency, Rate: round(f.Engine / f.Floor * e.Floor / e.Engine),
			CPU: round((f.CPU.Engine + f.CPU.Database) / (e.CPU.Engine + e.CPU.Database)), Written: round(f.Written / e.Written)})
	}
	return list
}

// Print writes the report for people.
func (r *GrowthReport) Print(w io.Writer) error {
	r.head(w, fmt.Sprintf("booking3 and lists with up to %d ended sagas; medians of %d rounds, the ledger was right after each", r.Runs[len(r.Runs)-1].Ended, r.Rounds))
	var rows, lists, tables [][]string
	var doubts string
	for _, run := range r.Runs {
		for i, f := range run.Figures {
			if f.NoRatio != "" {
				doubts += fmt.Sprintf("%d ended, %d clients: the rates say little, because %s\n", run.Ended, f.Concurrency, f.NoRatio)
			}
			change := CostChange{Rate: 1, CPU: 1, Written: 1}
			if len(run.Changes) > 0 {
				change = run.Changes[i]
			}
			rows = append(rows, strings.Split(fmt.Sprintf("%d|%d|%.0f|%.0f|%.2f|%.2f|%.2f|%.0f|%.3f|%.3f|%s|%s|%s", run.Ended, f.Concurrency, f.Engine, f.Floor, f.P50, f.P99, f.Commits, f.Written, f.CPU.Engine, f.CPU.Database,
				changed(change.Rate), changed(change.CPU), changed(change.Written)), "|"))
		}
		for _, l := range run.Lists {
			lists = append(lists, strings.Split(fmt.Sprintf("%d|%s|%d|%.2f|%.2f", run.Ended, l.List, l.Rows, l.P50, l.P99), "|"))
		}
		for _, t := range run.Tables {
			tables = append(tables, strings.Split(fmt.Sprintf("%d|%s|%.1f|%.1f|%d|%d|%d", run.Ended, t.Name, float64(t.Table)/(1<<20), float64(t.Indexes)/(1<<20), t.Dead, t.Vacuums, t.Analyzes), "|"))
		}
		if run.Filled == 0 {
			continue
		}
		fmt.Fprintf(w, "%d ended sagas: filled at %.0f/s, VACUUM and ANALYZE took %.1f s\n", run.Ended, run.Filled, run.Vacuum)
	}
	fmt.Fprintln(w)
	if err := table(w, []string{"ended", "clients", "sagas/s", "floor/s", "p50 ms", "p99", "commits", "written B", "CPU ms", "db ms", "rate", "CPU", "written"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nthe last three columns compare with the empty database: rates relative to the floor's, CPU of engine and database; * is a change of more than %.0f %%\n%s\n", 100*mostGrowth, doubts)
	if err := table(w, []string{"ended", "list", "rows", "p50 ms", "p99"}, lists); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, []string{"ended", "table", "MB", "indexes MB", "dead rows", "autovacuums", "autoanalyzes"}, tables)
}

// changed shows a factor, and marks one that is not about 1.
func changed(factor float64) string {
	if math.Abs(factor-1) > mostGrowth {
		return fmt.Sprintf("%.2f*", factor)
	}
	return fmt.Sprintf("%.2f", factor)
}
