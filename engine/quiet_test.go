package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// refusing is a store that refuses the records of one saga, or all writes.
type refusing struct {
	journal.Store
	saga   atomic.Pointer[uuid.UUID]
	all    atomic.Bool
	claims atomic.Int64
}

func (s *refusing) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	id := s.saga.Load()
	if s.all.Load() || id != nil && slices.ContainsFunc(batch, of(*id)) {
		return nil, errRow
	}
	return s.Store.Append(ctx, node, batch)
}

func (s *refusing) Ping(ctx context.Context) error {
	if s.all.Load() {
		return errRow
	}
	return s.Store.Ping(ctx)
}

func (s *refusing) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	s.claims.Add(1)
	return s.Store.Claim(ctx, node, limit)
}

// quietNode starts a node with one saga, whose response arrives when release is called.
func quietNode(t *testing.T) (n *node, store *refusing, def *saga.Definition, id uuid.UUID, release func()) {
	def = compile(t, oneRequest)
	store = &refusing{Store: memory.New(memory.Config{})}
	hold := make(chan struct{})
	n = startNode(t, store, definitions{"x": def}, func(c *engine.Config) {
		c.Callers = map[string]engine.Caller{"http": callerFunc(func(context.Context, saga.Request) saga.Answer {
			<-hold
			return saga.Answer{Sent: true, Status: 200}
		})}
	})
	return n, store, def, n.start(def, "null", nil), func() { close(hold) }
}

// A node whose only saga has an append that the store refuses for good takes starts soon. With the
// commits of others, the saga is given up.
func TestRefusedAppendOnAQuietNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, store, def, bad, release := quietNode(t)
		store.saga.Store(&bad)
		release()
		time.Sleep(10 * time.Second)
		if !n.Ready() {
			t.Fatal("the node is not ready, although the store takes other writes")
		}
		for began := time.Now(); ; time.Sleep(time.Minute) {
			n.ended(def, n.start(def, "null", nil), saga.Succeeded)
			h, err := store.Saga(t.Context(), bad)
			if err != nil {
				t.Fatal(err)
			}
			if h.Owner == "" {
				return
			}
			if time.Since(began) > time.Hour {
				t.Fatal("the saga is not given up")
			}
		}
	})
}

// A node whose store refuses all writes is never ready, although it has only one append to try
// again, and claims nothing. When the store has recovered, so has the node.
func TestRefusedWritesOnAQuietNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, store, def, id, release := quietNode(t)
		store.all.Store(true)
		release()
		synctest.Wait()
		claims := store.claims.Load()
		for range 10 * 60 * 10 {
			if n.Ready() {
				t.Fatal("the node is ready")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := store.claims.Load() - claims; got > 0 {
			t.Errorf("%d claims", got)
		}
		store.all.Store(false)
		time.Sleep(5 * time.Second)
		if !n.Ready() {
			t.Error("the node is not ready again")
		}
		n.ended(def, id, saga.Succeeded)
		if got := n.Stats().GivenUp; got > 0 {
			t.Error("the saga was given up")
		}
	})
}
