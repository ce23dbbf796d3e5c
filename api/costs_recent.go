package api

import (
	"context"
	"maps"
	"sync"
	"time"

	"recourse/internal/costs/tally"
)

// costsViews are what sagas have cost, in several groupings.
type costsViews map[tally.By]costsView

// mostKept is how many answers are kept: what is asked with other times each time is not asked
// again.
const mostKept = 100

// recentCosts keeps answers for a few seconds, as a page that many look at asks the same again and
// again; and it has one counted at a time.
type recentCosts struct {
	turn chan struct{} // holds a value while somebody counts

	mu   sync.Mutex
	kept map[string]keptCosts // by query
}

func newRecentCosts() recentCosts {
	return recentCosts{turn: make(chan struct{}, 1), kept: make(map[string]keptCosts)}
}

type keptCosts struct {
	views costsViews
	until time.Time
}

// views are the answers to a query: those that are kept, or what count gives. That is kept for so
// long, and longer if it took long: at most a fifth of the time goes into counting the same again.
func (r *recentCosts) views(ctx context.Context, query string, now func() time.Time, keep time.Duration, count func() (costsViews, error)) (costsViews, error) {
	if v := r.find(query, now()); v != nil {
		return v, nil
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.turn }()
	if v := r.find(query, now()); v != nil { // whoever had the turn asked the same
		return v, nil
	}
	began := now()
	v, err := count()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now()
	keep = max(keep, 4*at.Sub(began))
	maps.DeleteFunc(r.kept, func(_ string, k keptCosts) bool { return !at.Before(k.until) })
	if len(r.kept) >= mostKept {
		clear(r.kept)
	}
	r.kept[query] = keptCosts{v, at.Add(keep)}
	return v, nil
}

func (r *recentCosts) find(query string, now time.Time) costsViews {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.kept[query]; ok && now.Before(k.until) {
		return k.views
	}
	return nil
}
