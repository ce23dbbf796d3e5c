package engine

import (
	"container/heap"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// run is a saga in a lane's memory.
type run struct {
	id uuid.UUID
	m  *saga.Machine

	next   journal.Append // what it has added and is not being committed yet
	sends  []saga.Send    // to leave when next is durable
	memory []any          // of the answers and messages that next is made of, for Freed

	sent       journal.Append // what is being committed
	sending    []saga.Send    // to leave when sent is durable
	committing []any          // as memory, of sent

	queued, flying bool
	more           bool // it has more to do at once
	rewrite        bool // its row is out of date
	yielded        bool // it would send, but the lane is draining
	broken         error
	again          *journal.Claimed // the store has given it to us once more while it was being given up
	size           int              // bytes of the data of its records
	steps          bool             // an attempt of its has ended since it was taken in
	inFlight       int              // attempts whose answers this process will get
	calls          []call           // those of them that have left, or are about to
	moved          time.Time        // when its journal grew, or was read, last
	permit         Permit           // of its requests to leave
	watches        int              // in a row that found it stalled
	shown          saga.Status
	inboxRevision  int         // Machine.Asks, as the row has it
	withdrawn      []uuid.UUID // tasks that were said to be unwanted, and messages that cancel children
	alarm          time.Time
	announced      saga.Announced  // with what was committed, or is being committed
	announcing     saga.Announced  // with next
	news           []journal.Event // that tell what next brings about
	reply          any             // of its start
	view           bool            // and it is to have a view
}

// empty reports whether there is nothing to append.
func (r *run) empty() bool {
	return len(r.next.Records) == 0 && r.next.Row == nil && len(r.next.Applied) == 0 && len(r.next.Withdraw) == 0 && len(r.next.Messages) == 0 && !r.next.Release
}

// keep holds the memory of an answer or of messages until what comes of it is durable; nil: none.
func (r *run) keep(memory any) {
	if memory != nil {
		r.memory = append(r.memory, memory)
	}
}

// trace is where the saga's spans belong; nil if it could not be read.
func (r *run) trace() *saga.Trace {
	if r.m == nil {
		return nil
	}
	return r.m.Trace()
}

// parking reports whether the saga is being given up.
func (r *run) parking() bool { return r.next.Release || r.sent.Release }

// starting reports whether the saga's start is not known to be durable.
func (r *run) starting() bool { return r.next.Start != nil || r.sent.Start != nil }

// applies reports whether a message is being folded in already.
func (r *run) applies(id uuid.UUID) bool {
	return slices.Contains(r.next.Applied, id) || slices.Contains(r.sent.Applied, id)
}

// sorted lists runs in a fixed order, so that the same events have the same effects.
func sorted(runs map[uuid.UUID]*run) []*run {
	return slices.SortedFunc(maps.Values(runs), func(a, b *run) int { return journal.CompareID(a.id, b.id) })
}

// alarms is a heap of times at which sagas want to be looked at. An alarm that
// is out of date does no harm: looking is free of effects when nothing is due.
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

// Permit says whether a saga's requests may still leave. The lane takes it back
// when it gives the saga up: what has not left by then is another's affair.
type Permit struct{ revoked atomic.Bool }

// Valid reports whether a request may leave.
func (p *Permit) Valid() bool { return !p.revoked.Load() }

func (p *Permit) revoke() { p.revoked.Store(true) }
