package wire_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire/rig"
	"recourse/journal"
)

// leases is a store that notes until when its node's lease holds at most.
type leases struct {
	journal.Store
	lie time.Duration // added to the TTL that the node gets: with it, the node is a bad one

	mu    sync.Mutex
	until time.Time
}

func (l *leases) noted(got journal.Lease, err error) (journal.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got.Node != "" {
		l.until = time.Now().Add(got.TTL)
		got.TTL += l.lie
	}
	return got, err
}

func (l *leases) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	return l.noted(l.Store.Register(ctx, node, ttl, dead...))
}

func (l *leases) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	return l.noted(l.Store.Renew(ctx, node, ttl))
}

func (l *leases) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// silenced has a node with many requests ready to leave lose its database without a word, and
// returns what arrived between the end of its lease and the database's return.
func silenced(t *testing.T, lie time.Duration) (late []string) {
	dsn := pgserver.DSN(t)
	p, through := by(t, dsn, toxicWire)
	w := startSlowWorld(t)
	sys := rig.New(t, openStore(t, dsn, 4), w, "")
	store := &leases{Store: openStore(t, through, 8), lie: lie}
	// One call at a time: the other intents are committed, and wait to leave.
	n := sys.Add(store, engine.Config{Lease: 3 * time.Second, MaxCalls: 1})
	l := sys.Load(8)
	rig.Until(t, "requests wait to leave", func() bool { return n.Engine.Stats().Running > 25 })
	heal := poison(t, p, toxic{name: "timeout", attributes: `{"timeout":0}`}, "upstream", "downstream")
	<-time.After(time.Until(store.end()) + 2*time.Second)
	from, to := store.end(), time.Now()
	for _, e := range w.Ledger().Requests() {
		if e.At.After(from) && e.At.Before(to) {
			late = append(late, fmt.Sprintf("%s %s arrived %v after the lease's end", e.Method, e.Path, e.At.Sub(from)))
		}
	}
	w.ClearFaults()
	heal()
	rig.Until(t, "the node is ready again", n.Engine.Ready)
	l.End()
	sys.MustSettle()
	return late
}

// startSlowWorld starts one in which each request takes a while.
func startSlowWorld(t *testing.T) *world.Server {
	t.Helper()
	w := rig.World(t, world.Config{})
	if err := w.AddFault(world.Rule{Do: world.Do{DelayMS: 250}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// A node that cannot renew its lease sends nothing once it has ended, whatever was ready to leave.
func TestNothingLeavesAfterTheLease(t *testing.T) {
	t.Parallel()
	for _, late := range silenced(t, 0) {
		t.Error(late)
	}
}

// A node that takes its lease for longer than it is does send then.
func TestNothingLeavesAfterTheLeaseCanFail(t *testing.T) {
	t.Parallel()
	if late := silenced(t, time.Hour); len(late) == 0 {
		t.Error("a node that sends on was not noticed")
	}
}
