package saga

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Anonymous is the actor of requests without an API key.
const Anonymous = "anonymous"

// Command is a command to a saga: from a person, from a worker, or from another saga. Its JSON is
// one object, with the operation's verb as `command` and the operation's fields next to the others.
type Command struct {
	Do     Operation `json:"-"`                // what to do
	Path   string    `json:"path,omitempty"`   // the step that it is about; "": the saga
	Reason string    `json:"reason,omitempty"` // the comment of an Approve or Reject
	Actor  string    `json:"actor,omitempty"`
	Role   string    `json:"role,omitempty"` // the actor's role, for Approve and Reject
	// Trusted says that the server has no API keys, so it cannot know who the actor is.
	Trusted bool  `json:"trusted,omitempty"`
	IfSeq   int64 `json:"if_seq,omitempty"` // the command applies only to a journal of this length; 0: to any
	// At is the time at which the saga's node reads the command.
	At time.Time `json:"-"`
}

// Operation is what a command does. Its types are listed here, with the names that messages and
// records have for them.
type Operation interface {
	// Verb returns the operation's name: cancel, pause, …
	Verb() string
	// record adds the operation's fields to the data of its record.
	record(d *CommandData)
}

type (
	// Cancel ends the saga: it is undone, or left as it is if Mode is "stop".
	Cancel struct {
		Mode string `json:"mode,omitempty"` // compensate (default) or stop
		Life int    `json:"life,omitempty"` // of the session's process that asks for it; 0: another caller does
	}
	// Pause lets the saga send no further requests.
	Pause struct{}
	// Resume ends a pause.
	Resume struct{}
	// Compensate undoes the saga, even after its pivot.
	Compensate struct{}
	// Attach begins a life of a session for a process of its agent.
	Attach struct {
		Holder   string `json:"holder,omitempty"`   // the process's name, for people
		Token    string `json:"token"`              // the SHA-256, in hex, of the secret of the process
		Previous string `json:"previous,omitempty"` // the same of the process that it replaces; "": unknown
	}
	// CallAction calls an action in a session.
	CallAction struct {
		Life   int             `json:"life"`
		Action string          `json:"action"`
		ID     string          `json:"id,omitempty"` // the identity that the caller chooses; "": none
		Again  int             `json:"again,omitempty"`
		Input  json.RawMessage `json:"input,omitempty"` // nil: null
		// Before is how many calls with the same identity this life has made before. The caller
		// counts them. After a crash it begins at 0 again, which repeats a response and never an
		// effect.
		Before int `json:"before,omitempty"`
		// Resembles is the path of the oldest call of an earlier life that this one may repeat, as
		// [recourse/saga/machine.Machine.Resembles] finds it; "": none. The caller does not know
		// whether it matters.
		Resembles string `json:"resembles,omitempty"`
	}
	// BeginStep begins an attempt of a step that the agent of a session does itself.
	BeginStep struct {
		Life  int             `json:"life"`
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input,omitempty"` // nil: null
		// Request is the request's Idempotency-Key, with which a repetition is known; "": none.
		Request string `json:"request,omitempty"`
		OwnData
	}
	// FinishStep says how an attempt of such a step has ended.
	FinishStep struct {
		Life       int             `json:"life"`
		ID         string          `json:"id"`
		Attempt    int             `json:"attempt"`
		Status     OwnStatus       `json:"status"`
		Output     json.RawMessage `json:"output,omitempty"`
		Error      *Failure        `json:"error,omitempty"`
		Cost       string          `json:"cost,omitempty"`       // "": unknown, so the reservation stays
		Compensate *OwnUndo        `json:"compensate,omitempty"` // replaces that of the BeginStep
	}
	// AskModel asks a language model in a session.
	AskModel struct {
		Life     int             `json:"life"`
		Identity string          `json:"identity"`
		Input    json.RawMessage `json:"input"`
		Diverged *Divergence     `json:"diverged,omitempty"`
		// Body is what to send, if the session does not store it: no record has it. The saga's node
		// has it in memory until it is sent. nil: it is stored.
		Body []byte `json:"body,omitempty"`
		// Blobs are stored with the record. A caller that sends a message stores them before, and
		// leaves them out.
		Blobs []journal.Blob `json:"-"`
	}
	// CommitSession ends a session's forward work: the session itself will undo nothing.
	CommitSession struct {
		Life   int             `json:"life"`
		Output json.RawMessage `json:"output,omitempty"`
	}
	// UndoCall undoes one call of a session, which continues.
	UndoCall struct {
		Life int `json:"life,omitempty"` // see Cancel
	}
	// Retry continues a step that needs a person. Without a path there must be only one such step.
	Retry struct {
		NewKey bool `json:"new_key,omitempty"`
	}
	// Resolve settles a step that needs a person.
	Resolve struct {
		Outcome string          `json:"outcome"` // succeeded, failed, retry, skip, compensated, SameEffect or NewEffect
		Output  json.RawMessage `json:"output,omitempty"`
		NewKey  bool            `json:"new_key,omitempty"`
	}
	// Patch changes the saga's budget or its labels.
	Patch struct {
		Budget *BudgetData       `json:"budget,omitempty"` // nil: unchanged
		Labels map[string]string `json:"labels,omitempty"` // to set; "" removes a label
	}
	// Approve decides an approval: its step succeeds.
	Approve struct {
		Shown string          `json:"shown,omitempty"` // the hash of what the person was shown
		Data  json.RawMessage `json:"data,omitempty"`
	}
	// Reject decides an approval: its step fails.
	Reject struct {
		Shown string          `json:"shown,omitempty"`
		Data  json.RawMessage `json:"data,omitempty"`
	}
	// Signal delivers a signal.
	Signal struct {
		Name string          `json:"name"`
		Data json.RawMessage `json:"data,omitempty"` // the payload
	}
	// Release is a parent's decision that a child's result stays.
	Release struct{}
	// Revert is a parent's decision that a child that has reached its goal is undone.
	Revert struct{}
	// Reserve reserves a part of the saga's budget for a session that belongs to the saga.
	Reserve struct {
		Key string `json:"key"` // of the session's start
		// Part is the most that the session may cost. Without it, or without one of its parts, that
		// is all that is left. The record has what was reserved.
		Part *BudgetData `json:"part,omitempty"`
		// Most bounds what is reserved where Part says nothing; nil: what is left is the bound.
		Most *BudgetData `json:"most,omitempty"`
		// Session is the id that the session will have. The saga chooses it.
		Session string `json:"session,omitempty"`
	}
	// Settle reports what such a session has cost. It has ended.
	Settle struct {
		Key     string    `json:"key"` // that of the Reserve
		Session string    `json:"session"`
		Cost    ChildCost `json:"cost"`
	}
	// EndTask reports how an attempt ended that a worker or a child saga made.
	EndTask struct {
		Way     journal.Way `json:"way,omitempty"`
		Attempt int         `json:"attempt,omitempty"` // 0: the attempt in flight
		Result  TaskResult  `json:"task"`
	}
)

// Verb implements Operation.
func (Cancel) Verb() string        { return "cancel" }
func (Pause) Verb() string         { return "pause" }
func (Resume) Verb() string        { return "resume" }
func (Compensate) Verb() string    { return "compensate" }
func (Attach) Verb() string        { return "attach" }
func (CallAction) Verb() string    { return "call" }
func (BeginStep) Verb() string     { return "begin" }
func (FinishStep) Verb() string    { return "finish" }
func (AskModel) Verb() string      { return "ask" }
func (CommitSession) Verb() string { return "commit" }
func (UndoCall) Verb() string      { return "undo" }
func (Retry) Verb() string         { return "retry" }
func (Resolve) Verb() string       { return "resolve" }
func (Patch) Verb() string         { return "patch" }
func (Approve) Verb() string       { return "approve" }
func (Reject) Verb() string        { return "reject" }
func (Signal) Verb() string        { return "signal" }
func (Release) Verb() string       { return "release" }
func (Revert) Verb() string        { return "revert" }
func (EndTask) Verb() string       { return "task" }
func (Reserve) Verb() string       { return "reserve" }
func (Settle) Verb() string        { return "settle" }

func (o Cancel) record(d *CommandData)    { d.Mode = o.Mode }
func (Pause) record(*CommandData)         {}
func (Resume) record(*CommandData)        {}
func (Compensate) record(*CommandData)    {}
func (UndoCall) record(*CommandData)      {}
func (Attach) record(*CommandData)        {}
func (CallAction) record(*CommandData)    {}
func (BeginStep) record(*CommandData)     {}
func (FinishStep) record(*CommandData)    {}
func (AskModel) record(*CommandData)      {}
func (CommitSession) record(*CommandData) {}
func (o Retry) record(d *CommandData)     { d.NewKey = o.NewKey }
func (o Resolve) record(d *CommandData) {
	d.Outcome, d.Output, d.NewKey = o.Outcome, o.Output, o.NewKey
}
func (o Patch) record(d *CommandData)   { d.Budget, d.Labels = o.Budget, o.Labels }
func (o Approve) record(d *CommandData) { d.Shown, d.Output = o.Shown, o.Data }
func (o Reject) record(d *CommandData)  { d.Shown, d.Output = o.Shown, o.Data }
func (Signal) record(*CommandData)      {}
func (Release) record(*CommandData)     {}
func (Revert) record(*CommandData)      {}
func (EndTask) record(*CommandData)     {}
func (o Reserve) record(d *CommandData) {
	d.Session = &SessionPart{ID: o.Session, Key: o.Key, Part: o.Part}
}
func (o Settle) record(d *CommandData) {
	d.Session = &SessionPart{ID: o.Session, Key: o.Key, Cost: &o.Cost}
}

// operations decode operations, by name.
var operations = map[string]func(doc []byte) (Operation, error){
	Cancel{}.Verb():        decodeOperation[Cancel],
	Pause{}.Verb():         decodeOperation[Pause],
	Resume{}.Verb():        decodeOperation[Resume],
	Compensate{}.Verb():    decodeOperation[Compensate],
	Attach{}.Verb():        decodeOperation[Attach],
	CallAction{}.Verb():    decodeOperation[CallAction],
	BeginStep{}.Verb():     decodeOperation[BeginStep],
	FinishStep{}.Verb():    decodeOperation[FinishStep],
	AskModel{}.Verb():      decodeOperation[AskModel],
	CommitSession{}.Verb(): decodeOperation[CommitSession],
	UndoCall{}.Verb():      decodeOperation[UndoCall],
	Retry{}.Verb():         decodeOperation[Retry],
	Resolve{}.Verb():       decodeOperation[Resolve],
	Patch{}.Verb():         decodeOperation[Patch],
	Approve{}.Verb():       decodeOperation[Approve],
	Reject{}.Verb():        decodeOperation[Reject],
	Signal{}.Verb():        decodeOperation[Signal],
	Release{}.Verb():       decodeOperation[Release],
	Revert{}.Verb():        decodeOperation[Revert],
	EndTask{}.Verb():       decodeOperation[EndTask],
	Reserve{}.Verb():       decodeOperation[Reserve],
	Settle{}.Verb():        decodeOperation[Settle],
}

func decodeOperation[T Operation](doc []byte) (Operation, error) {
	var o T
	err := json.Unmarshal(doc, &o)
	return o, err
}

// MarshalJSON implements json.Marshaler.
func (c Command) MarshalJSON() ([]byte, error) {
	type envelope Command
	head, err := journal.Encode(struct {
		Name string `json:"command"`
		envelope
	}{c.Do.Verb(), envelope(c)})
	if err != nil {
		return nil, err
	}
	fields, err := journal.Encode(c.Do)
	if err != nil || string(fields) == "{}" {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), fields[1:]...), nil
}

// UnmarshalJSON implements json.Unmarshaler. It refuses operations that this program does not know.
func (c *Command) UnmarshalJSON(doc []byte) error {
	type envelope Command
	head := struct {
		Name string `json:"command"`
		*envelope
	}{envelope: (*envelope)(c)}
	if err := json.Unmarshal(doc, &head); err != nil {
		return err
	}
	decode, ok := operations[head.Name]
	if !ok {
		return fmt.Errorf("there is no command %q", head.Name)
	}
	var err error
	c.Do, err = decode(doc)
	return err
}

// Record returns the data of the record of a command that came as the message with this id.
// rejected is why it was refused; nil: it was not.
func (c Command) Record(message uuid.UUID, rejected *Failure) CommandData {
	d := CommandData{Message: message.String(), Kind: c.Do.Verb(), Actor: c.Actor, Reason: c.Reason, Rejected: rejected}
	c.Do.record(&d)
	if d.Kind == (Approve{}).Verb() || d.Kind == (Reject{}).Verb() {
		d.Role = c.Role
	}
	return d
}

// CommandMessage is the kind of a message that carries a Command.
const CommandMessage = "command"

// Message returns the message that brings the command to a saga. An error means that some of its
// data is not JSON.
func (c Command) Message(id, to uuid.UUID) (journal.Message, error) {
	data, err := journal.Encode(c)
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
	// Child is what that saga has cost.
	Child *ChildCost `json:"child,omitempty"`
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
	a := Answer{Sent: true, Report: &Report{Cost: t.Cost, Child: t.Child}}
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
