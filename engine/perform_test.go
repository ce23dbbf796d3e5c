package engine

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

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
