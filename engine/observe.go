package engine

import (
	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// Growth is what an Observer is told of a saga.
type Growth struct {
	Saga    uuid.UUID
	Machine *saga.Machine    // to be read during the call only; it may be ahead of Records by what is not durable yet
	Records []journal.Record // durable, in order; not to be changed, but they may be kept
	Cost    saga.CostView    // as of Records; only with Acquired
}

// Observer sees what this node's sagas do, as it becomes durable: the source of metrics, traces and
// whatever else is told of sagas that need not be told exactly once. Its calls follow the journal:
// a saga that another node takes on is seen by that node's observers from there on, so a fact is
// seen by one node, mostly; a record whose commit's answer was lost with its node is seen by none.
//
// Its methods are called by the lanes' own goroutines, at the same time for different sagas, in
// order for one. They take what they want and return: whatever blocks here holds up every saga of
// the lane. They must not panic.
type Observer interface {
	// Acquired says that this node goes on with a saga, and gives its journal so far, which others
	// may have seen already. Later records come by Grew. Sagas that start here come by Grew alone.
	Acquired(Growth)
	// Grew says what one commit has added to a saga's journal.
	Appended(Growth)
	// Gone says that this node holds the saga no more: it has ended, is parked, or another's.
	Released(saga uuid.UUID)
}
