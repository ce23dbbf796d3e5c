package measure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Config configures a session.
type Config struct {
	Workload            string
	Engine, Floor, Stub Process
	Database            string // of engine and floor: a SQLite file's name or a Postgres URL
	Variants            []Variant
	Clients             []int         // closed loops
	Rate                int           // of an open loop a second; 0: none
	Each                time.Duration // how long a run takes; or
	Sagas               int           // how many sagas it starts
	Rounds              int
	Batches             bool // also starts sagas in batches
	Progress            Progress
}

// Prepare publishes the definitions and runs one saga of each, for the floor to copy.
func Prepare(ctx context.Context, engine, stub Process, variants []Variant) (map[string]Script, error) {
	scripts := make(map[string]Script)
	for _, v := range variants {
		if err := publish(ctx, engine, v.Name(), v.Definition(stub.URL)); err != nil {
			return nil, err
		}
		id, err := NewLoad(engine.URL, 1).one(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("try %s: %w", v.Name(), err)
		}
		journal, err := journalOf[copied](ctx, engine, id)
		if err != nil {
			return nil, err
		}
		if scripts[v.Name()], err = script(journal, v.Ends()); err != nil {
			return nil, err
		}
	}
	return scripts, nil
}

// point is one measurement, made in every round.
type point struct {
	variant Variant
	clients int // 0: open loop
	batches bool
}

// samples has the results of a point's rounds.
type samples struct {
	engine, floor []sample
}

type sample struct {
	took   Took
	used   reading
	others float64 // cores that programs other than those of the benchmark have used
}

// Run measures every point in every round, engine and floor in turns. It fails if the remote
// service's ledger is wrong after any of them.
func Run(ctx context.Context, c Config) (Report, error) {
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return Report{}, err
	}
	defer db.close(context.WithoutCancel(ctx))
	var points []point
	for _, v := range c.Variants {
		for _, n := range c.Clients {
			points = append(points, point{variant: v, clients: n})
		}
		if c.Rate > 0 {
			points = append(points, point{variant: v})
		}
		if c.Batches {
			points = append(points, point{variant: v, clients: 1, batches: true})
		}
	}
	all := make([]samples, len(points))
	done := 0
	for round := range c.Rounds {
		for i, p := range points {
			for turn := range 2 {
				engine := (turn+round)%2 == 0
				c.Progress(done, c.Rounds*len(points)*2, fmt.Sprintf("%s, %d clients", p.variant, p.clients))
				done++
				if p.batches && !engine {
					continue // the floor has none
				}
				s, err := c.measure(ctx, db, p, engine)
				if err != nil {
					return Report{}, err
				}
				if engine {
					all[i].engine = append(all[i].engine, s)
				} else {
					all[i].floor = append(all[i].floor, s)
				}
			}
		}
	}
	c.Progress(done, done, "done")
	if err := c.allThere(ctx, points, all); err != nil {
		return Report{}, err
	}
	return c.report(points, all), nil
}

// allThere compares how many live sagas the engine has with how many were started.
func (c *Config) allThere(ctx context.Context, points []point, all []samples) error {
	started := 1 // the one that the floor replays
	for i, p := range points {
		if p.variant != Start {
			return nil
		}
		for _, s := range all[i].engine {
			started += len(s.took.All)
		}
	}
	st, err := statsOf(ctx, c.Engine)
	if err == nil && st.Live[Start.Name()] != started {
		err = fmt.Errorf("%d starts were acknowledged, but there are %d sagas", started, st.Live[Start.Name()])
	}
	return err
}

// measure runs one load against one program.
func (c *Config) measure(ctx context.Context, db *database, p point, engine bool) (sample, error) {
	program, commits := c.Floor, floorCommits(c.Floor)
	if engine {
		program, commits = c.Engine, engineCommits(c.Engine)
	}
	if _, err := do(ctx, http.MethodPost, c.Stub.URL+"/reset", ""); err != nil {
		return sample{}, err
	}
	l := NewLoad(program.URL, max(p.clients, 1024))
	before, err := db.before(ctx, program, c.Stub, commits)
	if err != nil {
		return sample{}, err
	}
	programs := []Process{c.Engine, c.Floor, c.Stub}
	used, began := others(db, programs...), time.Now()
	var took Took
	switch {
	case p.batches:
		took, err = l.Batches(ctx, p.variant, c.Each)
	case p.clients > 0 && c.Sagas > 0:
		took, err = l.Times(ctx, p.variant, p.clients, c.Sagas)
	case p.clients > 0:
		took, err = l.Closed(ctx, p.variant, p.clients, c.Each)
	default:
		took, err = l.Open(ctx, p.variant, c.Rate, c.Each)
	}
	if err != nil {
		return sample{}, err
	}
	cores := float64(others(db, programs...)-used) / float64(time.Since(began))
	after, err := db.after(ctx, program, c.Stub, commits)
	if err != nil {
		return sample{}, err
	}
	ledger, err := ledgerOf(ctx, c.Stub)
	if err == nil {
		err = p.variant.Check(ledger, len(took.All))
	}
	if err == nil {
		err = took.distinct()
	}
	l.client.CloseIdleConnections()
	return sample{took, after.minus(before), round(cores)}, err
}

// median of a list, which it sorts.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	if n := len(list); n%2 == 0 {
		return (list[n/2-1] + list[n/2]) / 2
	}
	return list[len(list)/2]
}
