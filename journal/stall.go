package journal

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// The kinds of stalls of a saga.
const (
	StallUnclaimed   = "unclaimed"   // it is due, and no node claims it
	StallNoProgress  = "no_progress" // nodes claim it repeatedly and write nothing
	StallQuarantined = "quarantined" // it is quarantined: see Halted
	StallForgotten   = "forgotten"   // its node had nothing scheduled that would continue it, and has reloaded it
)

// The kinds of stalls of a step.
const (
	StallNoWorker = "no_worker" // no worker claims its task
	// StallWorkerSilent says that the lease of its task expired. It is reported but not listed,
	// because the step continues.
	StallWorkerSilent = "worker_silent"
	StallNoSlot       = "no_slot"    // its request waits because too many are in flight
	StallNoLease      = "no_lease"   // its request waits until its node's lease is renewed
	StallNoMemory     = "no_memory"  // its response waits for memory to be read
	StallUnanswered   = "unanswered" // its request has no response long after its timeout
)

// The kinds that Stalls lists.
var (
	SagaStalls = []string{StallUnclaimed, StallNoProgress, StallQuarantined, StallForgotten}
	StepStalls = []string{StallNoWorker, StallNoSlot, StallNoLease, StallNoMemory, StallUnanswered}
)

// StallKept is how long a stall is known after it was last noted, so that it is reported only once.
const StallKept = 24 * time.Hour

// Stall is a saga or a step that makes no progress, although it waits neither for a person nor for
// a time.
type Stall struct {
	ID         uuid.UUID // see StallID
	Saga       uuid.UUID
	Definition string
	Version    int
	Labels     map[string]string // nil in lists
	Kind       string
	Path       string    // "" for the saga itself
	Since      time.Time // in whole milliseconds
	Why        string    // explanation for people, with a remedy
	Entry      uuid.UUID // of a quarantined saga: its inbox entry. Nil in lists
}

// StallID returns the id of a stall. All nodes that find the same stall derive the same id.
func StallID(saga uuid.UUID, kind, path string, since time.Time) uuid.UUID {
	return uuid.NewV5(saga, "stalled:"+kind+":"+path+":"+strconv.FormatInt(since.UnixMilli(), 10))
}

// Found returns a stall that a store has found, with its ID and Why. more depends on the kind: for
// StallNoProgress the number of claims, for StallNoWorker the task's type, for StallQuarantined the
// id of the inbox entry. The error means that this id is not valid.
func (s Stall) Found(more string) (Stall, error) {
	s.ID = StallID(s.Saga, s.Kind, s.Path, s.Since)
	switch s.Kind {
	case StallUnclaimed:
		s.Why = "The saga is due, and no node claims it. The nodes may have as many sagas as they can, or no connection to the database. Check their logs, or add a node."
	case StallNoProgress:
		s.Why = "Nodes have claimed the saga " + more + " times, and each released it or died without writing a record. Search their logs for its id."
	case StallNoWorker:
		s.Why = fmt.Sprintf("No worker has claimed the step's task. Start a worker for tasks of type %q, or check why the running ones do not claim it.", more)
	case StallQuarantined:
		s.Why = "Nodes have claimed the saga repeatedly and could not continue it. Its inbox entry says what to do."
		entry, err := uuid.FromString(more)
		s.Entry = entry
		return s, err
	}
	return s, nil
}

// StallNotice is a stall and the events that report it.
type StallNotice struct {
	Stall
	// Events go to the outbox if the stall was not known. They belong to its saga, whatever their
	// Saga field says.
	Events []Event
}

// StallFilter selects stalls. A zero field does not narrow the selection.
type StallFilter struct {
	Kind  string
	Saga  uuid.UUID
	After Stall // the cursor: stalls after this one by (Since, ID). Zero: from the oldest
	Limit int
}

// Stalls finds and lists sagas and steps that make no progress. All times are the store's.
type Stalls interface {
	// FindStalls returns live sagas that have been due for longer than after, that were claimed
	// SuspectAfter times or more and have written nothing for longer than after, or that are
	// quarantined; and tasks that have been unclaimed for longer than after, except those of paused
	// sagas. It returns up to limit of each kind, the oldest first.
	FindStalls(ctx context.Context, after time.Duration, limit int) ([]Stall, error)

	// NoteStalls makes ListStalls show the stalls for the duration of show, and puts the events of
	// stalls that were not known into the outbox, in one transaction. A stall is known for
	// StallKept after it was last noted, while its saga exists. NoteStalls returns how many were
	// not known. Errors: ErrUnknown.
	NoteStalls(ctx context.Context, list []StallNotice, show time.Duration) (fresh int, err error)

	// ListStalls lists the stalls that are shown now and whose sagas are live, the oldest first.
	ListStalls(ctx context.Context, f StallFilter) ([]Stall, error)
}
