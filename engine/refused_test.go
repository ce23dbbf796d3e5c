package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
)

const oneRequest = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n"

var errRow = errors.New("append: ERROR: index row size 3072 exceeds btree version 4 maximum 2704 (SQLSTATE 54000)")

// try carries out a commit, if there is one. refuses says which appends make the store refuse their
// whole batch.
func (b *bench) try(refuses func(journal.Append) bool) (tried, refused bool) {
	b.t.Helper()
	cs := take[engine.Commit](b)
	if len(cs) == 0 {
		return false, false
	}
	c := cs[0]
	b.now = b.now.Add(c.After)
	ev := engine.Committed{Number: c.Number, Err: errRow}
	if refused = slices.ContainsFunc(c.Batch, refuses); !refused {
		ev.Results, ev.Err = b.store.Append(b.t.Context(), c.Node, c.Batch)
	}
	b.handle(ev)
	return true, refused
}

// commits carries out commits until there is none, and returns how many were refused.
func (b *bench) commits(refuses func(journal.Append) bool) (refused int) {
	b.t.Helper()
	for range 100 {
		tried, no := b.try(refuses)
		if !tried {
			return refused
		}
		if no {
			refused++
		}
	}
	b.t.Fatal("the same appends are tried forever")
	return 0
}

// refuse lets the time pass, with other starts that the store takes, until the lane has given up
// the saga whose append is refused.
func (b *bench) refuse(bad uuid.UUID, most time.Duration) (took time.Duration, refused int) {
	b.t.Helper()
	for began := b.now; b.lane.Len() > 0 && took < most; took = b.now.Sub(began) {
		id := b.start()
		refused += b.commits(of(bad))
		if _, err := b.store.Saga(b.t.Context(), id); err != nil {
			b.t.Fatalf("a start while an append is refused: %v", err)
		}
		for _, p := range take[engine.Perform](b) {
			b.handle(answerTo(p, nil, "1"))
		}
		refused += b.commits(of(bad))
		if b.lane.Len() > 0 {
			b.tick()
		}
	}
	return took, refused
}

func none(journal.Append) bool { return false }

func all(journal.Append) bool { return true }

func of(id uuid.UUID) func(journal.Append) bool {
	return func(a journal.Append) bool { return a.Saga == id && len(a.Records) > 0 }
}

// A start that the store refuses is refused, whatever it was committed with; and if an earlier try
// of it had an unknown result, it is tried again without the others.
func TestRefusedStart(t *testing.T) {
	for _, first := range []error{errRow, fmt.Errorf("%w: the connection broke", journal.ErrUnknown)} {
		b := newBench(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
		b.lease("n1")
		b.start() // the next starts wait for its commit, and form one batch
		one := b.append()
		good := []uuid.UUID{b.start()}
		bad := b.start()
		good = append(good, b.start(), b.start())
		b.handle(one)
		take[engine.Replied](b)
		b.handle(engine.Committed{Number: take[engine.Commit](b)[0].Number, Err: first})
		b.commits(of(bad))
		for _, id := range good {
			if _, err := b.store.Saga(t.Context(), id); err != nil {
				t.Errorf("first %v: %v", first, err)
			}
		}
		failed := 0
		for _, r := range take[engine.Replied](b) {
			if r.Err != nil {
				failed++
			}
		}
		if sure := errors.Is(first, errRow); sure && (failed != 1 || b.lane.Len() != 0) || !sure && (failed != 0 || b.lane.Len() != 1) {
			t.Errorf("first %v: %d starts were refused, and %d sagas are in the lane", first, failed, b.lane.Len())
		}
		b.refuse(bad, 10*time.Minute)
		if b.lane.Len() != 0 {
			t.Errorf("first %v: the start is tried forever", first)
		}
		for _, r := range take[engine.Replied](b) {
			if r.Err != nil && (r.ID != bad || !errors.Is(r.Err, saga.ErrUnavailable) || !errors.Is(r.Err, journal.ErrUnknown)) {
				t.Errorf("first %v: the start that may be durable got %+v", first, r)
			}
		}
	}
}

// If the store refuses the append of a saga that runs, the other sagas of the lane are committed.
// The saga's appends keep their order. It is tried again after longer and longer times; if the
// store does not take it in the end, the saga is given up and may be claimed again later.
func TestRefusedAppend(t *testing.T) {
	for name, ends := range map[string]bool{"for a time": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, oneRequest)
			b.lease("n1")
			bad, p := b.sent()
			others := []engine.Perform{}
			for range 5 {
				_, p := b.sent()
				others = append(others, p)
			}
			b.handle(answerTo(others[0], nil, "1")) // the next answers wait for its commit
			first := b.append()
			for _, o := range others[1:] {
				b.handle(answerTo(o, nil, "1"))
			}
			patch := saga.Encode(saga.Command{Do: saga.Patch{Labels: map[string]string{"k": "v"}}})
			b.handle(engine.Received{ID: bad, Messages: []journal.Message{{ID: uuid.Must(uuid.NewV7()), Saga: bad, Kind: saga.CommandMessage, Data: patch}}})
			b.handle(first)
			b.commits(of(bad))
			b.handle(answerTo(p, nil, "1")) // its outcome comes after the refused record
			if got := b.lane.Len(); got != 1 {
				t.Fatalf("%d sagas are in the lane, want only the one that is refused", got)
			}
			if ends {
				b.refuse(bad, 10*time.Second)
				b.commits(none)
				if h, err := b.store.Saga(t.Context(), bad); err != nil || h.Status != string(saga.Succeeded) || h.Labels["k"] != "v" {
					t.Errorf("it is %s, with the labels %v, %v; want succeeded", h.Status, h.Labels, err)
				}
				return
			}
			took, refused := b.refuse(bad, time.Hour)
			h, err := b.store.Saga(t.Context(), bad)
			if err != nil || h.Owner != "" || h.WakeAt.IsZero() || refused > 20 || took < 4*time.Minute || took > 10*time.Minute {
				t.Errorf("after %d tries in %v: owner %q, wakes at %v, %v; want it released", refused, took, h.Owner, h.WakeAt, err)
			}
		})
	}
}

// When an outage is over, the appends that failed by themselves meanwhile are committed soon, and
// together. One that the store still refuses does not prevent that.
func TestRecoveryOfManyAppends(t *testing.T) {
	for _, slow := range []time.Duration{0, 30 * time.Second} { // each try takes so long
		b := newBench(t, oneRequest)
		b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 64, MaxRecords: 16, Random: func() uint64 { return 0 }})
		b.lease("n1")
		for range 500 {
			b.start()
		}
		b.commits(none)
		sent := take[engine.Perform](b)
		for _, p := range sent {
			b.handle(answerTo(p, nil, "1"))
		}
		for range 1000 {
			b.now = b.now.Add(slow)
			if tried, _ := b.try(all); !tried {
				b.tick()
			}
		}
		began, commits, bad := b.now, 0, sent[100].ID
		for b.lane.Len() > 1 && commits < 1000 {
			if tried, _ := b.try(of(bad)); tried {
				commits++
			} else {
				b.tick()
			}
		}
		if took := b.now.Sub(began); commits > 120 || took > 10*time.Second {
			t.Errorf("tries of %v: %d commits in %v, and %d sagas are in the lane", slow, commits, took, b.lane.Len())
		}
	}
}

// While the store refuses everything, starts are refused at once, and nothing is lost.
func TestStoreRefusesEverything(t *testing.T) {
	b := newBench(t, oneRequest)
	b.lease("n1")
	var running []engine.Perform
	for range 6 {
		_, p := b.sent()
		running = append(running, p)
	}
	b.handle(answerTo(running[0], nil, "1"))
	first := b.append()
	for _, p := range running[1:] {
		b.handle(answerTo(p, nil, "1"))
	}
	for range 3 {
		b.start()
	}
	b.handle(first)
	take[engine.Replied](b)
	for range 50 {
		if tried, _ := b.try(all); !tried {
			b.tick()
		}
	}
	b.start()
	for range 50 {
		if tried, _ := b.try(all); !tried {
			b.tick()
		}
	}
	replies := take[engine.Replied](b)
	for _, r := range replies {
		if !errors.Is(r.Err, saga.ErrUnavailable) {
			t.Errorf("the reply to a start is %v", r.Err)
		}
	}
	if len(replies) != 4 {
		t.Errorf("%d replies, want 4", len(replies))
	}
	b.commits(none)
	for began := b.now; b.lane.Len() > 0 && b.now.Sub(began) < time.Minute; b.commits(none) {
		b.tick()
	}
	for _, p := range running {
		if h, err := b.store.Saga(t.Context(), p.ID); err != nil || h.Status != string(saga.Succeeded) {
			t.Errorf("saga %s is %s, %v; want succeeded", p.ID, h.Status, err)
		}
	}
}
