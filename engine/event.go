package engine

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// Event is something that a lane is told.
type Event interface{ event() }

// The events.
type (
	// StartSaga asks for a new saga. Reply names the caller in the lane's Replied.
	StartSaga struct {
		ID    uuid.UUID
		Def   *saga.Definition
		Start journal.Start
		Data  saga.StartedData
		Reply any
		View  bool // whether the reply is to have one
	}
	// Loaded brings a saga that this node has claimed, under the lease of Node. With
	// Err it could not be read: the lane gives it up without touching it.
	Loaded struct {
		Claimed  journal.Claimed
		Node     string
		Def      *saga.Definition
		Records  []journal.Record
		Messages []journal.Message // that waits for it, in order
		Memory   any               // as Mailed's; nil: there is no mail
		Err      error
		At       time.Time // as Answered's, for what the mail brings
	}
	// Answered brings the answer to a request that Perform asked for.
	Answered struct {
		ID      uuid.UUID
		Path    string
		Way     journal.Way
		Attempt int
		Answer  saga.Answer
		At      time.Time // when it came, at the latest (Lease.Latest): what is to follow after a while waits from then on; zero: now
		Memory  any       // names the memory that the answer takes, for Freed; nil: too little to be counted
	}
	// Mailed brings messages for a saga of this node, in order. Bringing one twice does no harm.
	Received struct {
		ID       uuid.UUID
		Messages []journal.Message
		At       time.Time // as Answered's
		Memory   any       // names the memory that the messages take, for Freed; nil: it is not counted
	}
	// Committed answers the Commit of that number: with a result for each append, or
	// with an error for all.
	Committed struct {
		Number  int
		Results []journal.Result
		Err     error
	}
	// LeaseLost says that the node's lease is gone. The lane drops everything.
	LeaseLost struct{}
	// Leased gives the lane an identity to write under.
	Leased struct{ Node string }
	// Tick says that the time has come that Lane.Alarm gave.
	Tick struct{}
	// Waits says that a request that Perform asked for has not left yet, or that its answer is
	// coming in: its time-out begins anew.
	Waits struct {
		ID      uuid.UUID
		Path    string
		Way     journal.Way
		Attempt int
		For     string // what it waits for, as a kind of stall; "": it has left, or is about to
	}
	// Watch asks the lane to look for sagas that are stalled. One that twelve Watches in a row,
	// seconds apart, have found so is given up.
	Watch struct{}
	// Owned lists those of the lane's sagas that the store said are Node's, but for those that are
	// being loaded. One that the lane does not hold, two times in a row, is a stranger.
	Owned struct {
		Node string
		IDs  []uuid.UUID
	}
	// Stranger says how far the journal of a saga goes that the lane called a stranger, and that
	// the store still said was Node's. The lane gives it up unless it has it by now.
	Stranger struct {
		ID   uuid.UUID
		Node string
		Seq  int64 // of the last record
	}
	// Drain asks the lane to begin nothing more and to give its sagas up as their attempts end.
	Drain struct{}
)

func (StartSaga) event() {}
func (Loaded) event()    {}
func (Owned) event()     {}
func (Stranger) event()  {}
func (Answered) event()  {}
func (Received) event()  {}
func (Committed) event() {}
func (LeaseLost) event() {}
func (Leased) event()    {}
func (Tick) event()      {}
func (Waits) event()     {}
func (Watch) event()     {}
func (Drain) event()     {}

// Effect is something that a lane wants done.
type Effect interface{ effect() }

// The effects.
type (
	// Commit wants the batch appended, and Committed in return. There is one at a time.
	// After says how long to wait before: it is a repetition.
	Commit struct {
		Number int
		Node   string
		Batch  []journal.Append
		After  time.Duration
	}
	// Perform wants a request sent, and Answered in return. Its intent is committed.
	Perform struct {
		ID     uuid.UUID
		Node   string  // whose lease must hold when it leaves
		Permit *Permit // which must hold, too
		Send   saga.Send
	}
	// Freed gives back the memory of an Answered, a Mailed or a Loaded: what came of the answer, or
	// of the messages, is durable, or thrown away. It comes once.
	Freed struct{ Memory any }
	// Replied answers a StartSaga.
	Replied struct {
		Reply any
		ID    uuid.UUID  // with ErrStartKey and ErrUnique: the saga that has it
		View  *saga.View // as it is durable; nil if more than that has happened, or none was asked for
		Err   error
	}
	// Advanced says that a saga's journal has grown, durably, by Records. Machine may be ahead of
	// them. Final is the machine of one that has ended and been let go: the lane does not touch it
	// any more.
	Advanced struct {
		ID      uuid.UUID
		Seq     int64
		Records []journal.Record
		Machine *saga.Machine
		Final   *saga.Machine
	}
	// Acquired says that the lane holds a saga that it has read, or been given; Records are its
	// journal so far, Cost what it has cost by them. Machine may be ahead of them.
	Acquired struct {
		ID      uuid.UUID
		Records []journal.Record
		Machine *saga.Machine
		Cost    saga.CostView
	}
	// Dropped says that the lane has forgotten a saga, and why; nil: it is parked or has ended.
	// Requests of it that are under way are of no use any more.
	Dropped struct {
		ID    uuid.UUID
		Err   error
		Trace *saga.Trace // nil: not known
	}
	// Reload wants a claimed saga read again, and Loaded in return.
	Reload struct {
		Claimed journal.Claimed
		Node    string
	}
	// Estranged says that a saga is a stranger: it is Node's by its row, and the lane does not hold
	// it. It wants Stranger in return.
	Estranged struct {
		ID   uuid.UUID
		Node string
	}
	// Stalled says that nothing would ever have moved a saga again, which is a bug, and that the
	// lane sees to it: it gives the saga up, to be read again, or commits what was forgotten. It
	// has not moved since Since.
	Stalled struct {
		ID    uuid.UUID
		Path  string // the step, "" for the saga itself
		Since time.Time
		Why   string
		Stall *journal.Stall // the same, for others than the node's log; nil: the saga could not be read
		Trace *saga.Trace
	}
	// Delayed says that a request of a step waits to leave for so long that the step is stalled.
	Delayed struct{ Stall journal.Stall }
	// Fenced says that a commit found this node's lease gone and that the lane has dropped
	// everything.
	Fenced struct{ Node string }
)

func (Commit) effect()    {}
func (Perform) effect()   {}
func (Freed) effect()     {}
func (Replied) effect()   {}
func (Advanced) effect()  {}
func (Acquired) effect()  {}
func (Dropped) effect()   {}
func (Reload) effect()    {}
func (Estranged) effect() {}
func (Stalled) effect()   {}
func (Delayed) effect()   {}
func (Fenced) effect()    {}
