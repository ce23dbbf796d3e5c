package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// Whatever may begin a wait reaches its lane with the latest time that the store's clock may show:
// responses, sagas that were loaded, and messages.
func TestEventsHaveTheLatestTime(t *testing.T) {
	store := memory.New(memory.Config{})
	e := New(Config{Store: store, Lanes: 1, Callers: map[string]Caller{"http": new(sends)}, Log: slog.New(slog.DiscardHandler)})
	granted, err := store.Register(t.Context(), "n1", 8*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e.identity.Store("n1")
	arrived := time.Now()
	// The response to the registration took an hour, so the store's clock may be an hour later than
	// its earliest estimate.
	e.lease.renewed(granted, arrived.Add(-time.Hour), arrived)
	id := uuid.Must(uuid.NewV7())
	r := journal.Record{Seq: 1, At: granted.Now, Kind: journal.Started, Node: "n1"}
	journal.Seal(id, nil, &r)
	out, err := store.Append(t.Context(), "n1", []journal.Append{{Saga: id, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: r.At}, Records: []journal.Record{r}}})
	if err := errors.Join(err, out[0].Err, store.Send(t.Context(), journal.Message{ID: id, Saga: id, Kind: "signal"})); err != nil {
		t.Fatal(err)
	}
	l := e.lanes[0]
	l.perform(Perform{ID: id, Node: "n1", Permit: &Permit{}, Send: machine.Send{Path: "pay", Way: journal.Do, Attempt: 1, Kind: "http", Timeout: time.Minute}})
	claimed := journal.Claimed{Saga: id}
	e.loading.begin(claimed)
	e.loaded(l.quit, Loaded{Claimed: claimed})
	if err := e.readMessages(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(l.events)
	events := 0
	for ev := range l.events {
		var at time.Time
		switch ev := ev.(type) {
		case Answered:
			at = ev.At
		case Loaded:
			at = ev.At
		case Received:
			at = ev.At
		default:
			continue
		}
		events++
		if late := at.Sub(e.lease.now()); late < time.Minute {
			t.Errorf("%T comes with a time %v after the earliest one, want about an hour", ev, late)
		}
	}
	if events != 3 {
		t.Errorf("%d events, want a response, a saga and a message", events)
	}
}

// sends counts the requests that are sent.
type sends int

func (n *sends) Call(context.Context, saga.Request) saga.Answer {
	*n++
	return saga.Answer{Sent: true, Status: 200}
}

// No request is sent without the lease under which its intent was written, or when the remote
// service may have forgotten the key of an attempt in doubt. A request that is not sent is answered
// as surely not sent, or is left to the next owner.
func TestNothingLeavesTooLate(t *testing.T) {
	now := time.Now()
	lease := func(node string, from time.Time) Lease {
		var l Lease
		l.Renewed(journal.Lease{Node: node, Now: from, TTL: time.Hour}, from, from)
		return l
	}
	for _, tt := range []struct {
		name    string
		lease   Lease
		stopped bool // the node stops, so it does not wait for a renewal
		revoked bool
		until   time.Time
		leaves  int
		answers int
	}{
		{"all is well", lease("n1", now), false, false, time.Time{}, 1, 1},
		{"the window is open", lease("n1", now), false, false, now.Add(time.Hour), 1, 1},
		{"the window is over", lease("n1", now), false, false, now.Add(-time.Second), 0, 1},
		{"the lease is over, and the node stops", lease("n1", now.Add(-2*time.Hour)), true, false, time.Time{}, 0, 1},
		{"another lease", lease("n2", now), false, false, time.Time{}, 0, 0},
		{"no lease", Lease{}, false, false, time.Time{}, 0, 0},
		{"the lane has dropped the saga", lease("n1", now), false, true, time.Time{}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var left sends
			e := New(Config{Store: memory.New(memory.Config{}), Callers: map[string]Caller{"http": &left}, Log: slog.New(slog.DiscardHandler)})
			e.lease.l = tt.lease
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if e.callCtx = ctx; tt.stopped {
				stop()
			}
			permit := &Permit{}
			if tt.revoked {
				permit.revoke()
			}
			l := e.lanes[0]
			events := make(chan Event, 16)
			l.events = events
			l.perform(Perform{ID: uuid.Must(uuid.NewV7()), Node: "n1", Permit: permit,
				Send: machine.Send{Path: "pay", Way: journal.Do, Attempt: 2, Kind: "http", Timeout: time.Second, Until: tt.until}})
			close(events)
			answers := 0
			for ev := range events {
				if a, ok := ev.(Answered); ok {
					if answers++; a.Answer.Sent != (tt.leaves > 0) {
						t.Errorf("answer %+v", a.Answer)
					}
				}
			}
			if int(left) != tt.leaves || answers != tt.answers {
				t.Errorf("%d requests were sent, %d answers came; want %d and %d", left, answers, tt.leaves, tt.answers)
			}
		})
	}
}
