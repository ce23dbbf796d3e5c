package journal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"
)

// ErrTaskLost says that the caller has no lease on the task: the lease has expired, the task has
// ended, or there is no such task.
var ErrTaskLost = errors.New("the task's lease is lost")

// Task is work for an outside worker: one attempt of a step. It can be claimed once the append that
// creates it is committed.
type Task struct {
	ID      uuid.UUID
	Saga    uuid.UUID
	Path    string
	Way     Way
	Attempt int
	Key     string // the idempotency key, which the worker passes on
	Type    string // workers claim tasks by type
	Input   json.RawMessage
	// Lease is the duration of the lease from a claim or heartbeat on, unless the claim sets it. It
	// is more than 0, in whole milliseconds.
	Lease   time.Duration
	Timeout time.Duration // the longest time from the claim to the end, in whole milliseconds
	// Traceparent is the W3C trace context of the attempt; "" if there is none.
	Traceparent string
	// Claimant, unless it is nil, has claimed the task from its creation: the lease and the timeout
	// begin with the append. The tasks that a store returns do not have it.
	Claimant *Claimant
}

// Claimant is a worker that has claimed a task.
type Claimant struct {
	Worker string    // see TaskClaim
	Token  uuid.UUID // not Nil; see TaskClaim. Several tasks may have the same
}

// TaskClaim is a worker's request for tasks.
type TaskClaim struct {
	Worker string        // the worker's name, shown to people
	Types  []string      // at least one
	Max    int           // at least 1
	Token  uuid.UUID     // a new id for each claim: it proves the lease on the claimed tasks
	Lease  time.Duration // the longest time between heartbeats; 0: Task.Lease of each task
}

// ClaimedTask is a task and its claim.
type ClaimedTask struct {
	Task
	Worker   string
	Until    time.Time // when the lease expires, by the store's clock
	Deadline time.Time // the time of the claim plus Timeout
}

// TaskLease is the result of a heartbeat.
type TaskLease struct {
	Until  time.Time
	Cancel bool // the saga no longer needs the work: the worker should stop if it can do so cleanly
}

// TaskEnd says how a task ended that no worker ended.
type TaskEnd string

// The ends of tasks.
const (
	TaskExpired   TaskEnd = "expired"   // it was claimed, and its lease or Timeout expired: the work may have been done
	TaskWithdrawn TaskEnd = "withdrawn" // it was withdrawn before it was claimed: the work was surely not done
)

// TaskKept is how long an ended task is known, so that a worker may repeat EndTask.
const TaskKept = 24 * time.Hour

// Tasks is the workers' port. All times are the store's.
type Tasks interface {
	// ClaimTasks gives the caller a lease on up to Max tasks of the types that are neither claimed
	// nor withdrawn, the oldest first. Each task is claimed at most once. If the Token was used
	// before, for example in a call that returned ErrUnknown, ClaimTasks returns those tasks of
	// that claim whose lease has not ended, and claims no others. Errors: ErrUnknown.
	ClaimTasks(ctx context.Context, c TaskClaim) ([]ClaimedTask, error)

	// Heartbeat extends the lease by its full duration, but never beyond the task's Deadline.
	// Errors: ErrTaskLost, also if the lease has expired and the task was not reaped yet;
	// ErrUnknown.
	Heartbeat(ctx context.Context, task, token uuid.UUID) (TaskLease, error)

	// EndTask ends a task under the caller's lease and sends m to the task's saga, whatever m.Saga
	// says, in one transaction. how is a fingerprint of the reported result: for TaskKept, a
	// repetition with the same token and the same how succeeds and does nothing. Errors:
	// ErrTaskLost in all other cases, also if the saga, and so its tasks, were deleted; ErrUnknown.
	EndTask(ctx context.Context, task, token uuid.UUID, how string, m Message) error

	// ReapTasks ends up to limit tasks that have expired, or were withdrawn unclaimed, those with
	// the earliest end first. In the same transaction it sends the message that message returns for
	// each task to its saga. message must not call the store; if the transaction is retried, it is
	// called again for the same tasks. ReapTasks also deletes up to limit tasks that ended more
	// than TaskKept ago. It returns how many tasks it ended, and whether there may be more to end
	// or to delete, because it has reached the limit. Errors: ErrUnknown.
	ReapTasks(ctx context.Context, limit int, message func(Task, TaskEnd) Message) (n int, more bool, err error)

	// TaskStats counts the tasks that have not ended, by type. The type whose task has waited for
	// longest comes first.
	TaskStats(ctx context.Context) ([]TaskStat, error)
}

// TaskStat counts the tasks of one type that have not ended.
type TaskStat struct {
	Type    string
	Waiting int // neither claimed nor withdrawn
	Claimed int
	Oldest  time.Time // when the oldest waiting task was created; zero: none waits
}
