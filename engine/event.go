package engine

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Event is an input of a lane.
type Event interface{ event() }

// The events.
type (
	// StartSaga asks for a new saga. Reply comes back in the lane's Replied.
	StartSaga struct {
		ID    uuid.UUID
		Def   *saga.Definition
		Start journal.Start
		Data  saga.StartedData
		Reply any
		View  bool // whether Replied must have a View
	}
	// Loaded delivers a saga that this node claimed under the lease of Node. If Err is set, the
	// saga could not be read, and the lane gives it up without changing it.
	Loaded struct {
		Claimed  journal.Claimed
		Node     string
		Def      *saga.Definition
		Records  []journal.Record
		Messages []journal.Message // waiting for the saga, in order
		Memory   any               // see Received; nil: there are no messages
		Err      error
		At       time.Time // see Answered; for task results among the messages
	}
	// Answered delivers the response to a request that Perform asked for.
	Answered struct {
		ID      uuid.UUID
		Path    string
		Way     journal.Way
		Attempt int
		Answer  saga.Answer
		At      time.Time // the latest time at which it can have arrived (Lease.Latest): delays begin then; zero: now
		Memory  any       // stands for the memory of the response, for Freed; nil: too little to count
	}
	// Received delivers messages for a saga of this node, in order. Delivering one twice has no
	// effect.
	Received struct {
		ID       uuid.UUID
		Messages []journal.Message
		At       time.Time // see Answered
		Memory   any       // stands for the memory of the messages, for Freed; nil: not counted
	}
	// Asked brings a command to a saga without a message in the store. If the lane does not run the
	// saga, or the command comes again in a message, nothing is done twice. Took answers it.
	Asked struct {
		ID      uuid.UUID
		Message uuid.UUID
		Command saga.Command
		Reply   any
	}
	// Committed is the result of the Commit with that number: one result for each append, or an
	// error for all of them.
	Committed struct {
		Number  int
		Results []journal.Result
		Err     error
	}
	// LeaseLost reports that the node has lost its lease. The lane drops all sagas.
	LeaseLost struct{}
	// Leased gives the lane the node id to write under.
	Leased struct{ Node string }
	// Tick reports that the time of Lane.Alarm has come.
	Tick struct{}
	// Waits reports that a request of a Perform has not been sent yet, or that its response is
	// still arriving. The attempt's timeout starts again.
	Waits struct {
		ID      uuid.UUID
		Path    string
		Way     journal.Way
		Attempt int
		For     string // the kind of stall that it waits in; "": it has been sent, or is about to be
	}
	// Watch makes the lane check for stalled sagas. A saga that twelve Watches in a row, seconds
	// apart, find stalled is given up.
	Watch struct{}
	// Owned lists those of the lane's sagas that Node owns according to the store, without those
	// that are being loaded. A saga that two Owned in a row list, and that the lane does not run,
	// is unheld.
	Owned struct {
		Node string
		IDs  []uuid.UUID
	}
	// Unheld answers FoundUnheld, if the store still says that Node owns the saga: it gives the end
	// of the saga's journal. The lane releases the saga unless it runs it by now.
	Unheld struct {
		ID   uuid.UUID
		Node string
		Seq  int64 // of the last record
	}
	// Drain makes the lane start nothing more, and release its sagas as their attempts end.
	Drain struct{}
)

func (StartSaga) event() {}
func (Loaded) event()    {}
func (Owned) event()     {}
func (Unheld) event()    {}
func (Answered) event()  {}
func (Received) event()  {}
func (Asked) event()     {}
func (Committed) event() {}
func (LeaseLost) event() {}
func (Leased) event()    {}
func (Tick) event()      {}
func (Waits) event()     {}
func (Watch) event()     {}
func (Drain) event()     {}

// Effect is an output of a lane: something that the shell must do.
type Effect interface{ effect() }

// The effects.
type (
	// Commit asks for the batch to be appended, and for Committed in return. There is at most one
	// at a time. After is the delay before it: an earlier one has failed. Deferred says that each
	// append of the batch has failed by itself before: that it fails again says nothing about the
	// store.
	Commit struct {
		Number   int
		Node     string
		Batch    []journal.Append
		After    time.Duration
		Deferred bool
	}
	// Perform asks for a request to be sent, and for Answered in return. Its intent is committed,
	// or machine.Dispatch.Early was set.
	Perform struct {
		ID     uuid.UUID
		Node   string  // its lease must be valid when the request is sent
		Permit *Permit // must also be valid then
		Send   machine.Send
	}
	// Freed returns the Memory of an Answered, a Received or a Loaded, once: the outcome of the
	// response or of the messages is durable, or they were discarded.
	Freed struct{ Memory any }
	// Took answers an Asked: whether the lane has applied or refused the command. The records are
	// not durable yet, and are lost with the process: then the command must be sent again.
	Took struct {
		Reply any
		Took  bool
	}
	// Replied answers a StartSaga.
	Replied struct {
		Reply any
		// ID is, with ErrStartKey and ErrUnique, the saga that has the key or value. With
		// ErrUnavailable it is that of a start that may be durable, or Nil. In the first case, the
		// error wraps journal.ErrUnknown, too.
		ID   uuid.UUID
		View *machine.View // of the durable journal; nil if the machine has later records, or none was asked for
		Err  error
	}
	// Advanced reports that Records were durably appended to a saga's journal. Machine may have
	// later records. Final is the machine of a saga that has ended and was released: the lane no
	// longer uses it.
	Advanced struct {
		ID      uuid.UUID
		Seq     int64
		Records []journal.Record
		Machine *machine.Machine
		Final   *machine.Machine
		// DeleteAt is from when retention may delete a saga that has ended; zero: never.
		DeleteAt time.Time
	}
	// Acquired reports that the lane runs a saga that was loaded from the store. Records are its
	// journal so far, and Cost is the saga's cost as of Records. Machine may have later records.
	Acquired struct {
		ID      uuid.UUID
		Records []journal.Record
		Machine *machine.Machine
		Cost    saga.CostView
	}
	// Dropped reports that the lane no longer runs a saga. Err says why; nil: the saga is parked or
	// has ended. The results of its requests in flight are no longer needed.
	Dropped struct {
		ID    uuid.UUID
		Err   error
		Trace *saga.Trace // nil: unknown
	}
	// Reload asks for a claimed saga to be read again, and for Loaded in return.
	Reload struct {
		Claimed journal.Claimed
		Node    string
	}
	// FoundUnheld reports an unheld saga: Node owns the saga according to its row, but the lane
	// does not run it. It asks for Unheld in return.
	FoundUnheld struct {
		ID   uuid.UUID
		Node string
	}
	// Stalled reports that nothing would ever have continued a saga, which is a bug, and that the
	// lane repairs it: it releases the saga, to be read again, or commits what was forgotten. The
	// saga has made no progress since Since.
	Stalled struct {
		ID    uuid.UUID
		Path  string // the step, "" for the saga itself
		Since time.Time
		Why   string
		Stall *journal.Stall // the same for the list of stalls and for notifications; nil: the saga could not be read
		Trace *saga.Trace
	}
	// Delayed reports that a request has waited to be sent for so long that its step counts as
	// stalled.
	Delayed struct{ Stall journal.Stall }
	// Fenced reports that a commit found this node's lease gone, and that the lane has dropped all
	// sagas.
	Fenced struct{ Node string }
)

func (Commit) effect()      {}
func (Perform) effect()     {}
func (Freed) effect()       {}
func (Took) effect()        {}
func (Replied) effect()     {}
func (Advanced) effect()    {}
func (Acquired) effect()    {}
func (Dropped) effect()     {}
func (Reload) effect()      {}
func (FoundUnheld) effect() {}
func (Stalled) effect()     {}
func (Delayed) effect()     {}
func (Fenced) effect()      {}
