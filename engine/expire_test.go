package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// The row of a saga that has ended says when it may be deleted: as its definition says, or else as
// the node is configured.
func TestRetentionOfARow(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct{ definition, node, want time.Duration }{
		{0, 0, 0}, {0, 30 * day, 30 * day}, {0, saga.Forever, 0},
		{time.Minute, 0, time.Minute}, {90 * day, 30 * day, 90 * day}, {90 * day, saga.Forever, 90 * day},
		{saga.Forever, 30 * day, 0}, {saga.Forever, saga.Forever, 0},
	} {
		b := newBench(t, "saga: x\nsteps: [{id: nap, sleep: 1h}]\n")
		b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, Retention: tt.node, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
		b.def.Retention = tt.definition
		head := func(id uuid.UUID) journal.Head {
			h, err := b.store.Saga(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		b.lease("n1")
		id := b.start()
		b.handle(b.append())
		if h := head(id); !h.DeleteAt.IsZero() {
			t.Errorf("%+v: a live saga is to be deleted at %v", tt, h.DeleteAt)
		}
		b.now = b.now.Add(2 * time.Hour)
		b.handle(b.claim("n1"))
		b.handle(b.append())
		h := head(id)
		if !h.EndedAt.Equal(b.now) {
			t.Fatalf("it ended at %v, not %v", h.EndedAt, b.now)
		}
		if got := h.DeleteAt; tt.want == 0 && !got.IsZero() || tt.want != 0 && !got.Equal(b.now.Add(tt.want)) {
			t.Errorf("%+v: it ended at %v and is to be deleted at %v", tt, b.now, got)
		}
	}
}

// Sagas whose retention has ended are deleted, with their keys; others stay. Several nodes may
// delete at once.
func TestExpire(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { store.Close() })
			src := map[string]time.Duration{"brief": 150 * time.Millisecond, "kept": saga.Forever, "plain": 0}
			defs := definitions{"naps": compile(t, "saga: naps\nsteps: [{id: nap, sleep: 1h}]\n")}
			defs["naps"].Retention = time.Millisecond // it does not end
			for name, keep := range src {
				defs[name] = compile(t, "saga: "+name+"\nsteps: [{id: a, set: 1}]\n")
				defs[name].Retention = keep
			}
			quick := func(c *engine.Config) { c.Expire, c.Retention = 10*time.Millisecond, time.Hour }
			n := startNode(t, store, defs, quick)
			if name == "postgres" {
				startNode(t, store, defs, quick)
			}
			var stay, brief []uuid.UUID
			for _, name := range []string{"kept", "plain", "naps"} {
				stay = append(stay, n.start(defs[name], "", nil))
			}
			first := n.keyed(defs["brief"], "k")
			for range 20 {
				brief = append(brief, n.start(defs["brief"], "", nil))
			}
			if h, err := store.Saga(t.Context(), stay[1]); err != nil || h.DeleteAt.Sub(h.EndedAt) != time.Hour {
				t.Errorf("a saga whose definition sets no retention: %+v, %v; want it kept for the node's hour", h.Row, err)
			}
			for _, id := range append(brief, first) {
				n.gone(id)
			}
			for _, id := range stay {
				if _, err := store.Records(t.Context(), id, 0, 1); err != nil {
					t.Errorf("a saga that was to stay: %v", err)
				}
			}
			if again := n.keyed(defs["brief"], "k"); again == first {
				t.Error("the key of a deleted saga was not free")
			}
			if got := n.Stats().Expired; name != "postgres" && got < 21 {
				t.Errorf("%d were counted, not 21", got)
			}
		})
	}
}

// gone waits until a saga is deleted.
func (n *node) gone(id uuid.UUID) {
	n.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		_, err := n.store.Saga(context.Background(), id)
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			n.t.Fatalf("saga %s was not deleted: %v", id, err)
		}
	}
	if _, err := n.store.Records(context.Background(), id, 0, 1); !errors.Is(err, journal.ErrNotFound) {
		n.t.Errorf("records of a deleted saga: %v", err)
	}
}

// keyed starts a saga under a client's key.
func (n *node) keyed(def *saga.Definition, key string) uuid.UUID {
	n.t.Helper()
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
	if wrong != nil {
		n.t.Fatal(wrong)
	}
	begun, err := n.Start(n.t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, Key: key}, data, false)
	if err != nil {
		n.t.Fatal(err)
	}
	return begun.ID
}
