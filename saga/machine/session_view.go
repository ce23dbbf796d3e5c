package machine

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// CallStatus is the status of a session's call.
type CallStatus string

// The statuses of a call. The last four are ends: later it can only be undone.
const (
	CallRunning   CallStatus = "running"
	CallWaiting   CallStatus = "waiting" // for a later time, or for a person
	CallSucceeded CallStatus = "succeeded"
	CallFailed    CallStatus = "failed"   // certainly without an effect
	CallInDoubt   CallStatus = "in_doubt" // it may have had an effect
	CallUndone    CallStatus = "undone"
)

// Ended reports whether the call has ended.
func (s CallStatus) Ended() bool { return s != CallRunning && s != CallWaiting }

// CallUndo says whether a call can be undone.
type CallUndo string

// The values of CallUndo.
const (
	UndoAvailable CallUndo = "available"
	UndoNone      CallUndo = "none" // it has no compensation, or no effect
	UndoRunning   CallUndo = "running"
	UndoDone      CallUndo = "done"
)

// CallView is a session's call as its agent sees it.
type CallView struct {
	Path     string          `json:"path"`
	Action   string          `json:"action"` // with its version
	Status   CallStatus      `json:"status"`
	Replayed bool            `json:"replayed"` // the call was made before
	Key      string          `json:"key"`      // the idempotency key of its requests
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *saga.Failure   `json:"error,omitempty"`
	Cost     string          `json:"cost"`
	WaitsFor string          `json:"waits_for,omitempty"` // approval, repeat, doubt, budget or credentials
	Inbox    string          `json:"inbox,omitempty"`     // the id of the entry that a person decides
	Undo     CallUndo        `json:"undo"`
	Unread   bool            `json:"unread,omitempty"` // in a list: the life that reads it has not got its end
}

// Calls returns the calls of a session, in the order in which they were made. log has the records
// that were applied to the machine.
func Calls(m *Machine, log *history.Steps) []CallView {
	if m.session == nil {
		return nil
	}
	entries := m.Inbox()
	list := make([]CallView, 0, len(m.session.calls))
	for _, n := range m.session.calls {
		list = append(list, m.callView(n, log, entries))
	}
	return list
}

// CallOf returns one call as Calls does; ok is false if there is no such call.
func CallOf(m *Machine, log *history.Steps, path string) (_ CallView, ok bool) {
	n := m.call(path)
	if n == nil {
		return CallView{}, false
	}
	return m.callView(n, log, m.Inbox()), true
}

// waitsFor says what a call waits for, by the kind of its inbox entry.
var waitsFor = map[string]string{
	saga.InboxApproval: "approval", saga.InboxRepeat: "repeat", saga.InboxInDoubt: "doubt", saga.InboxStuck: "doubt", saga.InboxBudget: "budget", saga.InboxHeld: "credentials",
}

// CallStatus returns the status of a session's call; "" if there is no such call.
func (m *Machine) CallStatus(path string) CallStatus {
	n := m.call(path)
	if n == nil {
		return ""
	}
	return m.callStatus(n)
}

// MadeIn returns the life that has made the call with this path; 0: there is no such call.
func (m *Machine) MadeIn(path string) int {
	n := m.call(path)
	if n == nil {
		return 0
	}
	return n.life
}

// call returns the call with this path; nil if there is none.
func (m *Machine) call(path string) *node {
	if n := m.sessionStep(path); n != nil && n.isCall() {
		return n
	}
	return nil
}

// sessionStep returns the step of a session with this path; nil if there is none.
func (m *Machine) sessionStep(path string) *node {
	if m.session == nil {
		return nil
	}
	if n := m.steps[path]; n != nil {
		return n
	}
	return m.due[path] // it has no record of its own yet
}

func (m *Machine) callStatus(n *node) CallStatus {
	n = n.answerer()
	if n.compensation.state == done {
		return CallUndone
	}
	switch n.forward.state {
	case done:
		return CallSucceeded
	case failed, skipped:
		if n.forward.doubt {
			return CallInDoubt // a person has skipped it
		}
		return CallFailed
	case doubted:
		return CallInDoubt
	case ready:
		switch {
		case m.finished != nil && n.forward.attempts == 0:
			return CallFailed // it was never sent
		case n.own != nil && !n.own.begun:
			return CallInDoubt // the agent may begin it again
		}
		return CallRunning
	case inFlight, woken, entered, expired:
		return CallRunning
	}
	return CallWaiting
}

func (m *Machine) callView(n *node, log *history.Steps, entries []saga.Entry) CallView {
	v := CallView{Path: n.path, Action: n.step.Use.String(), Status: m.callStatus(n), Input: n.forward.actionInput, Cost: "0", Undo: m.callUndo(n)}
	if said := log.Step(n.path); said != nil {
		v.Cost = said.Cost()
	}
	n = n.answerer()
	v.WaitsFor, v.Inbox = n.person(entries)
	if v.Key = n.forward.key; v.Key == "" {
		v.Key = idempotency.Key(m.effectsOf(n), n.path, journal.Do, 0)
	}
	switch v.Status {
	case CallSucceeded, CallUndone:
		v.Output = n.output
	default:
		v.Error = n.forward.failure
	}
	return v
}

// person returns what a step waits for that needs a person, and the id of its inbox entry.
func (n *node) person(entries []saga.Entry) (what, id string) {
	for _, e := range entries {
		if e.Path == n.path {
			what, id = waitsFor[e.Kind], e.ID.String()
		}
	}
	return what, id
}

func (m *Machine) callUndo(n *node) CallUndo {
	switch {
	case n.compensation.state == done:
		return UndoDone
	case n.compensation.state == skipped: // by a person
	case n.compensation.state != ready || m.undoes(n):
		return UndoRunning
	case n.forward.state == done && n.canUndo() && m.open() == nil:
		return UndoAvailable
	}
	return UndoNone
}

// Ask reports how a command to a session stands by the journal so far: pending says that the
// command still has to be sent, or that its effect is not in the journal yet. path is the call that
// answers a [saga.CallAction]. A refusal may be that of a later state than the one in which the
// command arrived.
func (m *Machine) Ask(message uuid.UUID, c saga.Command) (path string, pending bool, _ *Refusal) {
	switch o := c.Do.(type) {
	case saga.Attach:
		d, no := m.Attach(message, o)
		return "", no == nil && d.Kind != "", no
	case saga.CallAction:
		path, d, no := m.Call(message, o)
		return path, d != nil, no
	case saga.BeginStep:
		d, no := m.Begin(message, o)
		return "", d != nil, no
	case saga.FinishStep:
		d, no := m.Finish(o)
		return "", no == nil && d.Kind != "", no
	case saga.AskModel:
		path, d, no := m.AskModel(message, o)
		return path, d != nil, no
	case saga.CommitSession:
		if m.session != nil && m.session.committed {
			return "", false, nil
		}
		_, no := m.Commit(message, o)
		return "", no == nil, no
	case saga.Cancel:
		if m.reason != nil || m.undoing || m.finished != nil {
			return "", false, nil
		}
		no := m.validateLife(o.Life)
		if no == nil {
			no = m.validateCancel(o)
		}
		return "", no == nil, no
	case saga.UndoCall:
		if m.Applied(message) {
			return "", false, nil
		}
		no := m.validateLife(o.Life)
		if no == nil {
			no = m.validateUndoCall(c.Path)
		}
		return "", no == nil, no
	}
	return "", false, refusal("unknown_command", "there is no command "+c.Do.Verb()+" of a session", "")
}

// Life returns the number of the session's last life, and whether it goes on. token is the SHA-256,
// in hex, of its process's secret.
func (m *Machine) Life() (life int, token string, live bool) {
	if m.session == nil {
		return 0, "", false
	}
	return m.session.life, m.session.token, m.Live()
}

// Closed reports whether the session is over for its agent: it is committed, is being undone, or
// has ended.
func (m *Machine) Closed() bool { return m.open() != nil }

// Committed reports whether the session is committed.
func (m *Machine) Committed() bool { return m.session != nil && m.session.committed }

// Superseded reports whether another process has followed the one with this token.
func (m *Machine) Superseded(token string) bool { return m.session != nil && m.session.ended[token] }

// Gone reports whether a session for whose agent there is more to do has lost its process: the
// number of the lease that has ended, and when. A session that no process has attached to has lost
// none.
func (m *Machine) Gone() (lease int, since time.Time, ok bool) {
	if m.open() != nil || m.session.live || m.session.leases == 0 {
		return 0, time.Time{}, false
	}
	return m.session.leases, m.session.since, true
}

// CallCount returns how many calls the session has made.
func (m *Machine) CallCount() int {
	if m.session == nil {
		return 0
	}
	return len(m.session.calls)
}

// CallIndex returns the number of calls that the session made before the one with this path; -1 if
// there is no such call.
func (m *Machine) CallIndex(path string) int {
	if n := m.call(path); n != nil {
		return n.in.index
	}
	return -1
}
