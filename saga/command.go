package saga

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Anonymous is the actor of requests without an API key.
const Anonymous = "anonymous"

// Command is a command to a saga, as its message carries it: from a person, from a worker, or from
// another saga.
type Command struct {
	// Kind is cancel, pause, resume, retry, compensate, resolve, patch, approve, reject, signal,
	// release, revert or task.
	Kind    string            `json:"command"`
	Path    string            `json:"path,omitempty"`
	Mode    string            `json:"mode,omitempty"`    // for cancel: compensate (default) or stop
	Outcome string            `json:"outcome,omitempty"` // for resolve: succeeded, failed, retry, skip, compensated
	Output  json.RawMessage   `json:"output,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	NewKey  bool              `json:"new_key,omitempty"`
	Budget  *BudgetData       `json:"budget,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // for patch: labels to set; "" removes a label
	IfSeq   int64             `json:"if_seq,omitempty"` // 0: any seq
	// For approve and reject. Reason is the comment.
	Shown string          `json:"shown,omitempty"` // the hash of what the person was shown
	Role  string          `json:"role,omitempty"`  // the actor's role
	Data  json.RawMessage `json:"data,omitempty"`
	// Trusted says that the server has no API keys, so it cannot know who the actor is.
	Trusted bool `json:"trusted,omitempty"`
	// At is the time at which the saga's node reads the command.
	At time.Time `json:"-"`
	// For signal. Data is the payload.
	Name string `json:"name,omitempty"`
	// For task: how a worker's attempt ended.
	Way     journal.Way `json:"way,omitempty"`
	Attempt int         `json:"attempt,omitempty"`
	Task    *TaskResult `json:"task,omitempty"`
}

// CommandMessage is the kind of a message that carries a Command.
const CommandMessage = "command"

// Message returns the message that brings the command to a saga. An error means that some of its
// data is not JSON.
func (o Command) Message(id, to uuid.UUID) (journal.Message, error) {
	data, err := journal.Encode(o)
	return journal.Message{ID: id, Saga: to, Kind: CommandMessage, Data: data}, err
}

// TaskResult says how a worker's attempt ended.
type TaskResult struct {
	Outcome   string          `json:"outcome"` // completed, failed, expired, withdrawn
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *Failure        `json:"error,omitempty"`
	Retryable bool            `json:"retryable,omitempty"`
	InDoubt   bool            `json:"in_doubt,omitempty"`
	Cost      string          `json:"cost,omitempty"` // a decimal amount in the saga's currency
	Saga      string          `json:"saga,omitempty"` // for a `run`: the saga that has ended
}

// The results that a worker's attempt, or a child saga, may report; see also journal.TaskEnd.
const (
	TaskCompleted = "completed"
	TaskFailed    = "failed"
)

// Codes of the answer that is made from a TaskResult.
const (
	CodeTaskFailed    = "task_failed"    // the worker reported a failure without a code of its own
	CodeHeartbeatLost = "heartbeat_lost" // the worker stopped sending heartbeats, or took too long
	CodeWithdrawn     = "withdrawn"      // the task was withdrawn before a worker had claimed it
)

// Answer returns the result as the answer to the attempt's request.
func (t *TaskResult) Answer() Answer {
	a := Answer{Sent: true, Report: &Report{Cost: t.Cost}}
	switch t.Outcome {
	case TaskCompleted:
		a.Status, a.Body = 200, t.Output
	case string(journal.TaskExpired):
		a.Code, a.Detail = CodeHeartbeatLost, "the worker sent no heartbeat within its lease, or exceeded the timeout"
	case string(journal.TaskWithdrawn):
		a.Sent, a.Code, a.Detail = false, CodeWithdrawn, "the task was withdrawn before a worker had claimed it"
	default:
		a.Code, a.Detail = CodeTaskFailed, "the worker says that it has failed"
		if t.Error != nil {
			a.Code, a.Detail = t.Error.Code, t.Error.Error()
		}
		a.Report.Retryable, a.Report.InDoubt = t.Retryable, t.InDoubt
	}
	return a
}
