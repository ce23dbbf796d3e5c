package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/test/buffer"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// failing is a store that fails over and loses sagas.
type failing struct {
	journal.Store
	timeline     atomic.Int64
	lost         atomic.Pointer[uuid.UUID]
	renewed      atomic.Int64
	alone        atomic.Bool
	inconclusive atomic.Bool // whether commits wait cannot be read
	rival        error
}

func (s *failing) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	l, err := s.Store.Register(ctx, node, ttl, dead...)
	l.Timeline = s.timeline.Load()
	return l, err
}

func (s *failing) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	if s.renewed.Swap(s.timeline.Load()) != s.timeline.Load() {
		return journal.Lease{}, journal.ErrFenced
	}
	l, err := s.Store.Renew(ctx, node, ttl)
	l.Rival = s.rival
	return l, err
}

func (s *failing) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if lost := s.lost.Load(); lost != nil && *lost == id {
		return nil, journal.ErrNotFound
	}
	return s.Store.Records(ctx, id, after, limit)
}

func (s *failing) Synchronous(context.Context) error {
	if s.inconclusive.Load() {
		return errors.New("the server does not say")
	}
	if s.alone.Load() {
		return journal.ErrNotSynchronous
	}
	return nil
}

// After a failover the node registers again, counts the acknowledged records that are lost, and
// continues at once, because its old lease is released.
func TestFailedOver(t *testing.T) {
	store := &failing{Store: memory.New(memory.Config{})}
	store.timeline.Store(1)
	store.renewed.Store(1)
	quick, nap := compile(t, "saga: q\nsteps:\n  - {id: a, set: {x: 1}}\n"), compile(t, "saga: n\nsteps:\n  - {id: a, sleep: 2s}\n")
	n := startNode(t, store, definitions{"q": quick, "n": nap}, nil)
	lost, kept := n.start(quick, "null", nil), n.start(quick, "null", nil)
	n.ended(quick, lost, saga.Succeeded)
	n.ended(quick, kept, saga.Succeeded)
	held := n.start(nap, "null", nil)
	before := n.Stats().Node
	store.lost.Store(&lost)
	store.timeline.Store(2)
	until(t, "registered again, and compared", func() bool { st := n.Stats(); return st.Node != "" && st.Node != before && st.Lost == 1 })
	nodes, err := store.Nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Errorf("nodes %+v, %v; want one, as the old lease was released", nodes, err)
	}
	n.ended(nap, held, saga.Succeeded)
	if got := n.Stats().Lost; got != 1 {
		t.Errorf("%d lost, want one", got)
	}
}

// The node logs that a second server accepts writes, and what to do about it.
func TestRival(t *testing.T) {
	log := &buffer.Buffer{}
	store := &failing{Store: memory.New(memory.Config{}), rival: errors.New("stop the old primary")}
	startNode(t, store, nil, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	until(t, "it is logged", func() bool { return strings.Contains(log.String(), "stop the old primary") })
}

// With RequireSync, starts are refused while commits do not wait for a second machine, and until it
// is known that they do.
func TestRequireSync(t *testing.T) {
	for name, begins := range map[string]func(*failing) *atomic.Bool{
		"alone":        func(s *failing) *atomic.Bool { return &s.alone },
		"inconclusive": func(s *failing) *atomic.Bool { return &s.inconclusive },
	} {
		t.Run(name, func(t *testing.T) {
			store := &failing{Store: memory.New(memory.Config{})}
			begins(store).Store(true)
			def := compile(t, "saga: q\nsteps:\n  - {id: a, set: {x: 1}}\n")
			n := startNode(t, store, definitions{"q": def}, func(c *engine.Config) { c.RequireSync, c.SyncEvery = true, 10*time.Millisecond })
			until(t, "ready", n.Ready)
			start := func() error {
				data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
				if wrong != nil {
					t.Fatal(wrong)
				}
				_, err := n.Start(t.Context(), def, journal.Start{Definition: "q", Version: 1}, data, false)
				return err
			}
			if err := start(); !errors.Is(err, saga.ErrUnavailable) {
				t.Errorf("a start: %v, want it refused", err)
			}
			begins(store).Store(false)
			until(t, "starts are accepted", func() bool { return start() == nil })
			store.alone.Store(true)
			until(t, "starts are refused", func() bool { return errors.Is(start(), saga.ErrUnavailable) })
		})
	}
}
