package engine

import (
	"container/heap"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/notify"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// run is a saga in a lane's memory.
type run struct {
	id uuid.UUID
	m  *machine.Machine

	alike  *journal.Alike // see like
	next   journal.Append // the append that the next commit takes
	sends  []machine.Send // requests to send when next is durable
	memory []any          // of the responses and messages that next depends on, for Freed

	sent       journal.Append // the append that is being committed
	sending    []machine.Send // requests to send when sent is durable
	committing []any          // like memory, for sent

	queued, flying bool
	ambiguous      bool      // a try of sent had an unknown result
	tries          int       // of sent that failed by themselves
	refused        bool      // others were committed between two of these tries
	commits        int       // Lane.commits at the last of them
	due            time.Time // when sent is tried again, if it is deferred
	more           bool      // it can continue as soon as sent is durable
	rewrite        bool      // its row is out of date
	yielded        bool      // it could send, but the lane drains or has no memory
	broken         error
	again          *journal.Claimed   // set if the saga was claimed again while its release was in flight
	size           int                // bytes of data of its records
	steps          bool               // an attempt has ended since the saga was loaded
	inFlight       int                // attempts whose Answered will come to this lane
	calls          []call             // those of them that were sent, or are about to be
	contents       map[string]*[]byte // what its asks that were not sent yet send and no store has, by path
	moved          time.Time          // when its journal last grew, or was read
	permit         Permit             // for its requests to be sent
	watches        int                // how many Watches in a row found it stalled
	shown          saga.Status
	inboxRevision  machine.Revision // Machine.InboxRevision, as the row has it
	withdrawn      []uuid.UUID      // tasks that were withdrawn, and messages that cancel children
	alarm          time.Time
	announced      notify.Announced // the notifications that sent and earlier appends contain
	announcing     notify.Announced // the same, with those of next
	news           []journal.Event  // the notifications about next
	reply          any              // StartSaga.Reply, until Replied
	view           bool             // StartSaga.View
}

// empty reports whether there is nothing to append.
func (r *run) empty() bool {
	return len(r.next.Records) == 0 && r.next.Row == nil && len(r.next.Applied) == 0 && len(r.next.Withdraw) == 0 && len(r.next.Messages) == 0 && !r.next.Release
}

// keep holds the memory of a response or of messages until the records that depend on them are
// durable; nil: none.
func (r *run) keep(memory any) {
	if memory != nil {
		r.memory = append(r.memory, memory)
	}
}

// trace returns the trace of the saga's spans; nil if the saga could not be read.
func (r *run) trace() *saga.Trace {
	if r.m == nil {
		return nil
	}
	return r.m.Trace()
}

// parking reports whether the saga is being released.
func (r *run) parking() bool { return r.next.Release || r.sent.Release }

// starting reports whether the saga's start is not yet durable.
func (r *run) starting() bool { return r.next.Start != nil || r.sent.Start != nil }

// applies reports whether a message is in an append that is not durable yet.
func (r *run) applies(id uuid.UUID) bool {
	return slices.Contains(r.next.Applied, id) || slices.Contains(r.sent.Applied, id)
}

// sorted lists runs in a fixed order, so that the same events have the same effects.
func sorted(runs map[uuid.UUID]*run) []*run {
	return slices.SortedFunc(maps.Values(runs), func(a, b *run) int { return journal.CompareID(a.id, b.id) })
}

// alarms is a heap of times at which sagas must be continued. An outdated alarm is harmless: to
// advance a saga that has nothing due has no effect.
type alarms []alarm

type alarm struct {
	at time.Time
	id uuid.UUID
}

func (a *alarms) add(at time.Time, id uuid.UUID) { heap.Push(a, alarm{at, id}) }

func (a alarms) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].at
}

func (a *alarms) due(now time.Time) []uuid.UUID {
	var ids []uuid.UUID
	for len(*a) > 0 && !(*a)[0].at.After(now) {
		ids = append(ids, heap.Pop(a).(alarm).id)
	}
	return ids
}

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return journal.CompareID(a[i].id, a[j].id) < 0
}
func (a alarms) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *alarms) Push(x any) { *a = append(*a, x.(alarm)) }

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// Permit says whether a saga's requests may still be sent. The lane revokes it when it gives the
// saga up: requests that have not left by then must not be sent, because another node may run the
// saga.
type Permit struct{ revoked atomic.Bool }

// Valid reports whether a request may be sent.
func (p *Permit) Valid() bool { return !p.revoked.Load() }

func (p *Permit) revoke() { p.revoked.Store(true) }
