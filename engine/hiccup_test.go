package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// unrenewed is a store that refuses to renew leases for a while.
type unrenewed struct {
	journal.Store
	down atomic.Bool
}

func (s *unrenewed) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	if s.down.Load() {
		return journal.Lease{}, errors.New("no answer")
	}
	return s.Store.Renew(ctx, node, ttl)
}

// lapse responds to the first request when the lease has expired.
type lapse struct {
	store *unrenewed
	node  atomic.Pointer[engine.Engine]
	early atomic.Bool // a request was sent without a lease
}

func (c *lapse) Call(_ context.Context, r saga.Request) saga.Answer {
	e := c.node.Load()
	if r.URL == "http://w/b" {
		c.early.Store(!e.Ready())
		return saga.Answer{Sent: true, Status: 200}
	}
	c.store.down.Store(true)
	for e.Ready() {
		<-time.After(5 * time.Millisecond)
	}
	time.AfterFunc(500*time.Millisecond, func() { c.store.down.Store(false) })
	return saga.Answer{Sent: true, Status: 200}
}

// A lease that cannot be renewed for a short time delays requests, and uses up no attempts.
func TestLeaseHiccup(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n  - {id: b, http: \"POST http://w/b\", retry: none}\n")
	store := &unrenewed{Store: memory.New(memory.Config{})}
	caller := &lapse{store: store}
	n := startNode(t, store, definitions{"x": def}, func(c *engine.Config) {
		c.Callers, c.Lease = map[string]engine.Caller{"http": caller}, time.Second
	})
	caller.node.Store(n.Engine)
	id := n.start(def, "null", nil)
	n.ended(def, id, saga.Succeeded)
	if caller.early.Load() {
		t.Error("a request was sent without a lease")
	}
}
