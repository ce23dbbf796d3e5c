package api

import (
	"context"
	"maps"
	"sync"
	"time"

	"recourse/internal/costs/tally"
)

// costsViews holds the costs of the same sagas by several groupings.
type costsViews map[tally.By]costsView

// mostKept is the maximum of cached results. Requests whose times differ each time would fill the
// cache, although no request repeats them.
const mostKept = 100

// recentCosts caches results for a few seconds, because a page with many viewers requests the same
// again and again. It counts for one request at a time.
type recentCosts struct {
	turn chan struct{} // a token: the channel is full while a request counts

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

// views returns the cached results of a query, or those of count, which are then cached. A result
// that took long to count is cached longer, so that at most a fifth of the time is spent on
// counting the same again.
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
	if v := r.find(query, now()); v != nil { // the previous request counted the same
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
