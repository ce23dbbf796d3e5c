package engine

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Growth is the argument of an Observer: what was appended to a saga's journal.
type Growth struct {
	Saga    uuid.UUID
	Machine *machine.Machine // to be read during the call only; it may have later records that are not durable yet
	Records []journal.Record // durable, in order; must not be changed, but may be kept
	Cost    saga.CostView    // as of Records; only with Acquired
	// DeleteAt is from when retention may delete the saga, if it ended with Records; zero: never,
	// or it has not ended. Only with Appended.
	DeleteAt time.Time
}

// Observer sees the records of this node's sagas as they become durable. Metrics and traces use it,
// and everything else that need not be exactly once. Its calls follow the journal: if another node
// takes over a saga, that node's observers see the later records. So one node sees each record,
// with one exception: if a node dies before it learns that a commit succeeded, no node sees its
// records.
//
// The lanes' goroutines call the methods: concurrently for different sagas, in order for one. A
// method must copy what it needs and return, because while it blocks, all sagas of the lane wait.
// It must not panic.
type Observer interface {
	// Acquired reports that this node continues a saga. The Growth has the saga's journal so far,
	// which observers of other nodes may have seen. Later records arrive with Appended. For a saga
	// that starts here, there is no Acquired.
	Acquired(Growth)
	// Appended reports the records that one commit added to a saga's journal.
	Appended(Growth)
	// Released reports that this node no longer runs the saga: it has ended, is parked, or belongs
	// to another node.
	Released(saga uuid.UUID)
}
