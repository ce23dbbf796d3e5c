package journal

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// The kinds of stalls. Of a saga:
const (
	StallUnclaimed   = "unclaimed"   // it is due, and no node takes it
	StallNoProgress  = "no_progress" // nodes take it again and again, and write nothing
	StallQuarantined = "quarantined" // nodes take it no more: see Halted
	StallForgotten   = "forgotten"   // its node found that nothing would ever have moved it
)

// Of a step:
const (
	StallNoWorker     = "no_worker"     // its task was not claimed
	StallWorkerSilent = "worker_silent" // its task's worker let the lease run out. It is told, and not listed: the step goes on
	StallNoSlot       = "no_slot"       // its request waits until one more may be under way
	StallNoLease      = "no_lease"      // its request waits for its node's lease to be renewed
	StallNoMemory     = "no_memory"     // its answer waits for memory to be read
	StallUnanswered   = "unanswered"    // its request is unanswered long after its time-out
)

// StallKept is how long a stall is remembered that is not found any more, so that it is told once.
const StallKept = 24 * time.Hour

// Stall is a saga, or a step of one, that does not move and waits neither for a person nor for a
// time to come.
type Stall struct {
	ID         uuid.UUID // see StallID
	Saga       uuid.UUID
	Definition string
	Version    int
	Labels     map[string]string // nil in lists
	Kind       string
	Path       string    // "" for the saga itself
	Since      time.Time // in whole milliseconds
	Why        string    // for people, with what to do
	Entry      uuid.UUID // of one in quarantine, and not in lists: its inbox entry
}

// StallID names a stall: the same for all who find it, until the saga has moved.
func StallID(saga uuid.UUID, kind, path string, since time.Time) uuid.UUID {
	return uuid.NewV5(saga, "stalled:"+kind+":"+path+":"+strconv.FormatInt(since.UnixMilli(), 10))
}

// Found completes a stall that a store has found: its ID, and Why. more is, of one that makes no
// progress, how often it was claimed; of a task, its type; of one in quarantine, the id of its
// inbox entry. An error means that this is no id.
func (s Stall) Found(more string) (Stall, error) {
	s.ID = StallID(s.Saga, s.Kind, s.Path, s.Since)
	switch s.Kind {
	case StallUnclaimed:
		s.Why = "It is due, and no node takes it: they may hold as many sagas as they can, or not get to the database. Look at their logs, or add a node."
	case StallNoProgress:
		s.Why = "Nodes have taken it on " + more + " times, and gave it up, or died, without writing a record. Look for its id in their logs."
	case StallNoWorker:
		s.Why = fmt.Sprintf("No worker has claimed its task: start one that takes tasks of type %q, or see why those that run claim none.", more)
	case StallQuarantined:
		s.Why = "Nodes took it on again and again and could not go on with it. It is in the inbox, which says what to do."
		entry, err := uuid.FromString(more)
		s.Entry = entry
		return s, err
	}
	return s, nil
}

// StallNotice is a stall with the events that tell of it.
type StallNotice struct {
	Stall
	Events []Event // for the outbox, if the stall was not known; they are of its saga, whatever they say
}

// StallFilter selects stalls; zero fields select all.
type StallFilter struct {
	Kind  string
	Saga  uuid.UUID
	After Stall // the cursor: stalls after this one by (Since, ID). Zero: from the oldest
	Limit int
}

// Stalls is where nodes write down what does not move. All times are the store's.
type Stalls interface {
	// FindStalls looks for live sagas that are due for longer than after, or were claimed
	// repeatedly and wrote nothing for longer, or are in quarantine, and for tasks that nobody has
	// claimed for longer than after, but for those of paused sagas: up to limit of each kind, the
	// oldest first.
	FindStalls(ctx context.Context, after time.Duration, limit int) ([]Stall, error)

	// NoteStalls lists stalls for as long as show, and puts the events of those into the outbox
	// that were not known, in one transaction. A stall is known for StallKept after it was last
	// noted, and as long as its saga is there. It returns how many were not known.
	NoteStalls(ctx context.Context, list []StallNotice, show time.Duration) (fresh int, err error)

	// ListStalls lists those that are shown now and whose sagas live, the oldest first.
	ListStalls(ctx context.Context, f StallFilter) ([]Stall, error)
}
