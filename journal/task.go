package journal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"
)

// ErrTaskLost: the task is not, or not any more, the caller's under that lease: its
// lease ran out, it ended otherwise, or there is no such task.
var ErrTaskLost = errors.New("the task's lease is lost")

// Task is work for an outside worker: one attempt of a step. It can be claimed
// once the append that brings it is durable.
type Task struct {
	ID      uuid.UUID
	Saga    uuid.UUID
	Path    string
	Way     Way
	Attempt int
	Key     string // the idempotency key that the worker sends on
	Type    string // what workers ask for
	Input   json.RawMessage
	Lease   time.Duration // how long a claim, or a heartbeat, lasts, unless the claim says otherwise. Above 0, in whole milliseconds, as the next
	Timeout time.Duration // the most that the work may take, from its claim on
	// Traceparent is where in a trace the task comes from, as W3C Trace Context writes it; "": it
	// is not known.
	Traceparent string
}

// TaskClaim is a worker's wish for work.
type TaskClaim struct {
	Worker string        // a name, for people
	Types  []string      // at least one
	Max    int           // at least 1
	Token  uuid.UUID     // fresh for each claim: the lease of all that it gets
	Lease  time.Duration // how long heartbeats may be apart; 0: each task's own
}

// ClaimedTask is a task with the claim that it is under.
type ClaimedTask struct {
	Task
	Worker   string
	Until    time.Time // when the lease runs out, by the store's clock
	Deadline time.Time // when the task's Timeout is over
}

// TaskLease is what a heartbeat has got.
type TaskLease struct {
	Until  time.Time
	Cancel bool // the saga does not want the work any more: stop if that can be done cleanly
}

// TaskEnd is how a task ended that no worker has ended.
type TaskEnd string

// The fates.
const (
	TaskExpired   TaskEnd = "expired"   // claimed, and its lease or its Timeout ran out: it may have happened
	TaskWithdrawn TaskEnd = "withdrawn" // withdrawn before anybody had claimed it: surely nothing happened
)

// TaskKept is how long a task that has ended is remembered.
const TaskKept = 24 * time.Hour

// Tasks is the workers' side of a store. All times are the store's.
type Tasks interface {
	// ClaimTasks gives the caller up to Max tasks of the types, the oldest first, that nobody has
	// claimed and that are not withdrawn. No task is given twice. Called again with the same Token,
	// as after ErrUnknown, it returns what that token holds of what it got, and no more.
	ClaimTasks(ctx context.Context, c TaskClaim) ([]ClaimedTask, error)

	// Heartbeat lets the lease run anew, though never beyond the task's Deadline.
	// ErrTaskLost, also when the lease has run out and nobody has reaped the task yet.
	Heartbeat(ctx context.Context, task, token uuid.UUID) (TaskLease, error)

	// EndTask ends a task that the lease holds and posts m to its saga, whatever m.Saga says, in
	// one transaction. how is a fingerprint of what is said of the task: the same lease with the
	// same how may end it again, for a day, which does nothing; anything else is ErrTaskLost. A
	// saga that is deleted takes its tasks along.
	EndTask(ctx context.Context, task, token uuid.UUID, how string, m Message) error

	// ReapTasks ends up to limit tasks that have met a Fate, the longest ago first, and posts the
	// message that mail makes of each to its saga, in one transaction. mail must not call the
	// store, and may be called anew for the same task, if the transaction is tried again. It also
	// forgets up to limit tasks that ended more than TaskKept ago. It returns how many met a fate.
	ReapTasks(ctx context.Context, limit int, mail func(Task, TaskEnd) Message) (int, error)

	// TaskStats counts tasks that have not ended by type, for metrics: the type first whose task
	// waits longest.
	TaskStats(ctx context.Context) ([]TaskStat, error)
}

// TaskStat is how many tasks of a type wait and are under way.
type TaskStat struct {
	Type    string
	Waiting int // for a claim
	Claimed int
	Oldest  time.Time // when the one that waits longest was made; zero: none waits
}
