package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/engine"
	"recourse/internal/cli/bench/measure"
	"recourse/internal/cli/database"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// seeder is a node that only accepts starts. It uses a server's lane and does the commits itself,
// so it writes exactly what a server would write.
type seeder struct {
	store   journal.Store
	node    string
	now     func() time.Time // the store's clock
	lane    *engine.Lane
	commits chan engine.Commit
	done    chan engine.Committed
}

// seed implements measure.Seeder. Its sagas must not send a request before they sleep or end.
func (b *runner) seed(ctx context.Context, s measure.Seeding) (measure.Seeded, error) {
	store, err := database.Open(ctx, b.dbs.engine, true)
	if err != nil {
		return measure.Seeded{}, err
	}
	defer store.Close()
	defs := make(map[string]published, len(s.Definitions))
	known := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	for name, source := range s.Definitions {
		doc, def, _, err := known.Publish(ctx, name, []byte(source), "")
		if err != nil {
			return measure.Seeded{}, fmt.Errorf("publish %s: %w", name, err)
		}
		defs[name] = published{def, doc.Version}
	}
	node, err := uuid.NewV7()
	if err != nil {
		return measure.Seeded{}, err
	}
	lease, err := store.Register(ctx, node.String(), 24*time.Hour)
	if err != nil {
		return measure.Seeded{}, err
	}
	began := time.Now()
	d := &seeder{
		store: store, node: lease.Node, now: func() time.Time { return lease.Now.Add(time.Since(began)) },
		// The same values as a server's: see the engine's defaults.
		lane:    engine.NewLane(engine.LaneConfig{ParkAfter: 3 * time.Second, MaxBatch: 512, MaxRecords: 256, Random: rand.Uint64}),
		commits: make(chan engine.Commit, 1), done: make(chan engine.Committed, 1),
	}
	out, err := d.run(ctx, s, defs)
	out.Wall = time.Since(began)
	return out, errors.Join(err, store.Release(context.WithoutCancel(ctx), d.node))
}

// published is a published definition.
type published struct {
	def     *saga.Definition
	version int
}

func (d *seeder) run(ctx context.Context, s measure.Seeding, defs map[string]published) (measure.Seeded, error) {
	go d.append(ctx)
	defer close(d.commits)
	out := measure.Seeded{IDs: make([]uuid.UUID, 0, s.Sagas)}
	if err := d.handle(engine.Leased{Node: d.node}); err != nil {
		return out, err
	}
	for i := range s.Sagas {
		if i%10_000 == 0 {
			s.Progress(i, s.Sagas, "sagas seeded")
		}
		now := d.now()
		ev, err := start(s.Of(i, now), defs, now)
		if err == nil {
			err = d.handle(ev)
		}
		out.IDs = append(out.IDs, ev.ID)
		// Wait while one batch is in flight and the next one is full.
		for err == nil && d.lane.Len() >= 1024 {
			err = d.handle(<-d.done)
		}
		if err != nil {
			return out, err
		}
	}
	for d.lane.Len() > 0 {
		if err := d.handle(<-d.done); err != nil {
			return out, err
		}
	}
	s.Progress(s.Sagas, s.Sagas, "sagas seeded")
	return out, nil
}

// start returns the event that starts a saga.
func start(s measure.Seed, defs map[string]published, now time.Time) (engine.StartSaga, error) {
	p, ok := defs[s.Definition]
	if !ok {
		return engine.StartSaga{}, fmt.Errorf("there is no definition %s to seed", s.Definition)
	}
	data, unique, wrong := machine.Begin(p.def, machine.StartOptions{Version: p.version, Input: json.RawMessage(s.Input), Labels: s.Labels})
	if len(wrong) > 0 {
		return engine.StartSaga{}, fmt.Errorf("seed a saga of %s: %s", s.Definition, wrong[0].Detail)
	}
	id, err := uuid.NewV7AtTime(now)
	return engine.StartSaga{ID: id, Def: p.def, Start: journal.Start{Definition: p.def.Name, Version: p.version, SHA256: p.def.SHA256, Unique: unique}, Data: data, Reply: id}, err
}

// handle passes an event to the lane and executes its actions.
func (d *seeder) handle(ev engine.Event) error {
	if c, ok := ev.(engine.Committed); ok && c.Err != nil {
		return fmt.Errorf("seed: %w", c.Err)
	}
	now := d.now()
	for _, eff := range d.lane.Handle(now, now, ev) {
		switch eff := eff.(type) {
		case engine.Commit:
			d.commits <- eff
		case engine.Replied:
			if eff.Err != nil {
				return fmt.Errorf("seed saga %s: %w", eff.ID, eff.Err)
			}
		case engine.Perform:
			return fmt.Errorf("seed saga %s: it makes a request at once", eff.ID)
		}
	}
	return nil
}

// append commits one batch after another.
func (d *seeder) append(ctx context.Context) {
	for c := range d.commits {
		results, err := d.store.Append(ctx, c.Node, c.Batch)
		d.done <- engine.Committed{Number: c.Number, Results: results, Err: err}
	}
}
