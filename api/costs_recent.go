package api

import (
	"context"
	"maps"
	"sync"
	"time"
)

// recentCosts keeps answers for a few seconds, as a page that many look at asks the same again and again; and it has one counted at a time.
type recentCosts struct {
	turn chan struct{} // holds a value while somebody counts

	mu   sync.Mutex
	kept map[string]keptCosts // by query
}

func newRecentCosts() recentCosts {
	return recentCosts{turn: make(chan struct{}, 1), kept: make(map[string]keptCosts)}
}

type keptCosts struct {
	view  *costsView
	until time.Time
}

// view is the answer to a query: one that is kept, or what count gives, which is kept for so long.
func (r *recentCosts) view(ctx context.Context, query string, now func() time.Time, keep time.Duration, count func() (*costsView, error)) (*costsView, error) {
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
	v, err := count()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now()
	maps.DeleteFunc(r.kept, func(_ string, k keptCosts) bool { return !at.Before(k.until) })
	r.kept[query] = keptCosts{v, at.Add(keep)}
	return v, nil
}

func (r *recentCosts) find(query string, now time.Time) *costsView {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.kept[query]; ok && now.Before(k.until) {
		return k.view
	}
	return nil
}
