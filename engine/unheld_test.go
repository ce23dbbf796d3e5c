package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
)

// forgetful is a store whose first claims do not reach the node.
type forgetful struct {
	journal.Store
	times atomic.Int64
}

func (s *forgetful) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, node, limit)
	if len(claimed) > 0 && s.times.Add(-1) >= 0 {
		return nil, nil
	}
	return claimed, err
}

// A saga that a node owns according to its row, but does not run, is released and continues.
func TestUnheld(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := &forgetful{Store: open(t)}
			store.times.Store(2)
			t.Cleanup(func() { _ = store.Close() })
			def := compile(t, "saga: nap\nsteps:\n  - {id: a, sleep: 50ms}\n")
			n := startNode(t, store, definitions{"nap": def}, func(c *engine.Config) { c.StallScan, c.ParkAfter = 20*time.Millisecond, time.Millisecond })
			id := n.start(def, "null", nil)
			n.ended(def, id, saga.Succeeded)
			if got := n.Stats(); got.Unheld != 2 || got.GivenUp != 0 {
				t.Errorf("%d unheld, %d given up; want two, and none", got.Unheld, got.GivenUp)
			}
		})
	}
}

func owner(t *testing.T, store journal.Store, id uuid.UUID) string {
	t.Helper()
	h, err := store.Saga(context.WithoutCancel(t.Context()), id)
	if err != nil {
		t.Fatal(err)
	}
	return h.Owner
}

// An unheld saga is released at the second Owned in a row. A saga that the lane loaded in the
// meantime, or is parking, is not. A saga that is claimed while it is being released is read again.
func TestReconcile(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
	b.lease("n1")
	id := b.start()
	owned := func(node string, ids ...uuid.UUID) {
		b.handle(engine.Owned{Node: node, IDs: ids})
		for _, eff := range take[engine.FoundUnheld](b) {
			seq, err := engine.LastSeq(t.Context(), b.store, eff.ID, eff.Node)
			if err != nil {
				t.Fatal(err)
			}
			b.handle(engine.Unheld{ID: eff.ID, Node: eff.Node, Seq: seq})
		}
	}
	none := func(what string) {
		t.Helper()
		if got := take[engine.Commit](b); len(got) > 0 {
			t.Fatalf("%s: %+v", what, got[0].Batch)
		}
	}
	parking := b.append()
	owned("n1", id)
	owned("n1", id)
	b.handle(parking)
	none("while it was being parked")

	owned("n1", id)
	owned("n1")
	owned("n1", id)
	none("not twice in a row")
	owned("another", id)
	none("of another lease")

	b.now = b.now.Add(2 * time.Hour)
	again := b.claim("n1") // it has not reached the lane yet
	owned("n1", id)
	released := b.append()
	b.handle(again)
	b.handle(released)
	if got := take[engine.Reload](b); len(got) != 1 {
		t.Errorf("%d reloads, want one, because it was claimed while it was being released", len(got))
	}
	if h := owner(t, b.store, id); h != "" {
		t.Errorf("it still belongs to %s", h)
	}
}
