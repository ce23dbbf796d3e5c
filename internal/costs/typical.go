// Package costs knows what sagas of a definition typically cost, without reading the store each
// time.
package costs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/costs/tally"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

const (
	// Recent is the number of a definition's last ended sagas that count.
	Recent = 200
	// Enough is the number of ended sagas that are necessary for a median.
	Enough = 20

	refresh = time.Minute // the interval between reads of the store
	fold    = time.Second // the interval between updates from sagas that ended on this node
	looked  = 2000        // the most sagas of a definition that one read goes through, the newest first
	pageOf  = 500
)

// Source reads the costs of sagas.
type Source interface {
	Costs(ctx context.Context, f journal.CostFilter) ([]journal.Cost, error)
}

// Typical knows the median cost of each definition's sagas that ended last. It tracks definitions
// that callers have asked for, and those of sagas that end on this node, which it sees as an
// [engine.Observer]. It reads sagas that ended on other nodes from the store, once a minute.
type Typical struct {
	source Source
	log    *slog.Logger
	// Sagas that ended here and are not counted yet are in ended. If it is full, the next read of
	// the store finds the others.
	ended  chan seen
	wanted chan string // definitions that callers asked for and that are not known

	mu      sync.RWMutex
	medians map[string]retry.Money // for every known definition; without a currency if there is no median yet

	known map[string]map[uuid.UUID]sample // used by Run only
}

// sample is one saga that has ended.
type sample struct {
	at    time.Time
	spent retry.Money
}

type seen struct {
	definition string
	saga       uuid.UUID
	at         time.Time
	cost       saga.CostView
}

var _ engine.Observer = (*Typical)(nil)

// NewTypical returns a Typical that knows nothing until it runs.
func NewTypical(source Source, log *slog.Logger) *Typical {
	return &Typical{source: source, log: log, ended: make(chan seen, 4096), wanted: make(chan string, 256),
		medians: make(map[string]retry.Money), known: make(map[string]map[uuid.UUID]sample)}
}

// Median returns what a saga of the definition typically costs: the median of the last 200 that
// have ended, in the currency of the newest. ok is false if fewer than 20 are known, or if they
// have no currency because nothing in them costs anything. It never blocks. The first call for a
// definition makes Run read it within the next second.
func (t *Typical) Median(definition string) (median retry.Money, ok bool) {
	t.mu.RLock()
	m, known := t.medians[definition]
	t.mu.RUnlock()
	if !known {
		select {
		case t.wanted <- definition:
		default: // a later call asks for it again
		}
	}
	return m, m.Currency != ""
}

// Acquired implements engine.Observer.
func (t *Typical) Acquired(engine.Growth) {}

// Released implements engine.Observer.
func (t *Typical) Released(uuid.UUID) {}

// Appended implements engine.Observer.
func (t *Typical) Appended(g engine.Growth) {
	if n := len(g.Records); n == 0 || g.Records[n-1].Kind != journal.Finished {
		return
	}
	select {
	case t.ended <- seen{g.Machine.Definition().Name, g.Saga, g.Machine.At(), g.Machine.Cost().Own()}:
	default:
	}
}

// Run updates the medians until ctx is done.
func (t *Typical) Run(ctx context.Context) {
	every := time.NewTicker(fold)
	defer every.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		t.fold(ctx)
		if time.Since(last) >= refresh {
			t.readNewest(ctx, slices.Sorted(maps.Keys(t.known))) // sagas that have ended on other nodes
			last = time.Now()
		}
	}
}

// fold counts the sagas that ended here, and reads the definitions that callers asked for.
func (t *Typical) fold(ctx context.Context) {
	grown := make(map[string]bool)
	var fresh []string
	meet := func(definition string) {
		if t.known[definition] == nil {
			t.known[definition] = make(map[uuid.UUID]sample)
			fresh = append(fresh, definition)
		}
	}
	for range len(t.ended) {
		s := <-t.ended
		meet(s.definition)
		t.add(s.definition, s.saga, s.at, s.cost)
		grown[s.definition] = true
	}
	for range len(t.wanted) {
		meet(<-t.wanted)
	}
	t.readNewest(ctx, fresh)
	for definition := range grown {
		t.settle(definition)
	}
}

// readNewest reads the newest sagas of definitions.
func (t *Typical) readNewest(ctx context.Context, definitions []string) {
	for _, definition := range definitions {
		if err := t.load(ctx, definition); err != nil {
			if ctx.Err() == nil {
				t.log.Warn("could not read what sagas have cost; retrying in a minute", "error", err)
			}
			return
		}
		t.settle(definition)
	}
}

func (t *Typical) load(ctx context.Context, definition string) error {
	f := journal.CostFilter{Definition: definition, Limit: pageOf}
	for found, through := 0, 0; found < Recent && through < looked; {
		page, err := t.source.Costs(ctx, f)
		if err != nil {
			return err
		}
		for _, c := range page {
			sum, err := saga.ReadSummary(c.Summary)
			if c.EndedAt.IsZero() || err != nil {
				continue
			}
			t.add(definition, c.ID, c.EndedAt, sum.Cost.Own())
			found++
		}
		if len(page) < f.Limit {
			return nil
		}
		through, f.Before = through+len(page), page[len(page)-1].ID
	}
	return nil
}

func (t *Typical) add(definition string, saga uuid.UUID, at time.Time, cost saga.CostView) {
	spent, err := retry.Total(cost.Spent, cost.Currency)
	if err == nil {
		t.known[definition][saga] = sample{at, spent}
	}
}

// settle drops all but the last sagas of a definition, and computes their median.
func (t *Typical) settle(definition string) {
	samples := t.known[definition]
	newest := slices.SortedFunc(maps.Keys(samples), func(a, b uuid.UUID) int {
		if c := samples[b].at.Compare(samples[a].at); c != 0 {
			return c
		}
		return slices.Compare(b[:], a[:])
	})
	for len(newest) > Recent {
		delete(samples, newest[len(newest)-1])
		newest = newest[:len(newest)-1]
	}
	var same []retry.Money
	for _, id := range newest {
		if spent := samples[id].spent; spent.Currency == samples[newest[0]].spent.Currency {
			same = append(same, spent)
		}
	}
	var median retry.Money
	if len(same) >= Enough {
		median, _ = tally.Median(same)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.medians[definition] = median
}
