package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cloudevent"
	"recourse/journal"
	"recourse/saga"
)

// codeRejected is the failure of an approval that was rejected.
const codeRejected = "rejected"

// decideAwait begins a wait for a message.
func (m *Machine) decideAwait(n *node, body saga.Await, env *env) []Decision {
	d, err := m.ask(n, body, env, n.stale)
	if err != nil {
		return m.refuse(n, asFailure(n.step.Kind, err))
	}
	return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: n.path, Way: journal.Do, Data: d}}}
}

// decideAwaiting waits for the message, or takes a signal that came earlier.
func (m *Machine) decideAwaiting(n *node) []Decision {
	var ds []Decision
	if a := n.awaited.Approval; a != nil {
		ds = append(ds, m.escalateApproval(n, a)...)
	} else if early := m.signals[n.awaited.Signal]; len(early) > 0 {
		return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: early[0]})
	}
	if !n.forward.retryAt.IsZero() {
		ds = append(ds, n.forward.wake(n.path, journal.Do, n.step.Kind)...)
	}
	return ds
}

// consumeSignal removes the signal that a step has received.
func (m *Machine) consumeSignal(n *node) {
	if n.awaited == nil || n.awaited.Signal == "" {
		return
	}
	if early := m.signals[n.awaited.Signal]; len(early) > 0 {
		m.signals[n.awaited.Signal] = early[1:]
	}
}

// decideExpired ends a wait whose time has passed without a message.
func (m *Machine) decideExpired(n *node) []Decision {
	out, f := n.step.Body.(saga.Await).Expired(*n.awaited, m.at)
	if f != nil {
		return m.refuse(n, f)
	}
	return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: out})
}

func (m *Machine) escalateApproval(n *node, a *saga.ApprovalData) []Decision {
	e := m.entry(n, &n.forward, journal.Do)
	e.Kind, e.Title, e.Detail = saga.InboxApproval, a.Title, "Approve or reject it, with the hash of what is shown here."
	starter := "the person who started the saga"
	if name := m.Starter(); name != "" && name != saga.Anonymous {
		starter = name + ", who started the saga"
	}
	e.Shown, e.ShownHash, e.Approvers, e.Form, e.Covers, e.Stale = a.Shown, a.ShownHash, a.Approvers, a.Form, a.Covers, a.Stale
	switch {
	case a.Stale != nil && a.Stale.Answer:
		e.Detail = "It is asked again: the answer of step " + a.Stale.Step + " has changed since it was decided, " + a.Stale.Detail + ". " + e.Detail
	case a.Stale != nil:
		e.Detail = "It is asked again: the request of step " + a.Stale.Step + " is not the one that was approved, " + a.Stale.Detail + ". " + e.Detail
	}
	if a.FourEyes {
		e.Detail += " It may not be decided by " + starter + "."
	}
	if !n.forward.retryAt.IsZero() {
		e.ExpiresAt = &saga.Time{Time: n.forward.retryAt}
		e.Detail += " It expires at " + n.forward.retryAt.UTC().Format(journal.TimeFormat) + "."
	}
	e.Actions = []string{"approve", "reject"}
	return []Decision{Escalate{e}}
}

// validateDecision checks whether the actor may decide the approval now. shown is the hash of what
// the person was shown; an approval needs it.
func (m *Machine) validateDecision(c saga.Command, shown string, approve bool) *Refusal {
	n := m.steps[c.Path]
	if n == nil || n.awaited == nil || n.awaited.Approval == nil {
		return refusal("not_waiting", "step "+c.Path+" does not wait for an approval", "")
	}
	a := n.awaited.Approval
	switch {
	case n.forward.state != awaiting || m.undoing && !n.in.final || m.ending(n):
		return refusal("decided", "the approval of step "+c.Path+" is decided or no longer needed", "the step has ended: see the saga's steps")
	case !n.forward.retryAt.IsZero() && c.At.Truncate(time.Millisecond).After(n.forward.retryAt):
		return refusal("decided", "the approval of step "+c.Path+" has expired", "nobody had decided by "+n.forward.retryAt.UTC().Format(journal.TimeFormat))
	case shown != "" && shown != a.ShownHash:
		return refusal("stale", "the inbox entry has changed since it was shown", "read the inbox entry again; its shown_hash is "+a.ShownHash)
	case shown == "" && approve:
		r := refusal("shown_missing", "an approval must name what it approves", "send `shown`: the hash that the inbox entry has as shown_hash")
		r.Invalid, r.Findings = true, []saga.Finding{{Pointer: "/shown", Code: "missing_field", Detail: r.Detail}}
		return r
	case a.FourEyes && (c.Trusted || m.Starter() == saga.Anonymous):
		return &Refusal{Forbidden: true, Failure: saga.Failure{Code: "four_eyes", Title: "four_eyes needs API keys",
			Detail: "the person who started the saga may not decide this approval, and without API keys the server cannot know who that is: configure API keys, and start and decide the saga with keys of two names"}}
	case a.FourEyes && c.Actor == m.Starter():
		return &Refusal{Forbidden: true, Failure: saga.Failure{Code: "four_eyes", Title: "the person who started the saga may not decide this approval",
			Detail: "it has `four_eyes`, and " + c.Actor + " has started the saga: somebody else must decide it"}}
	case !c.Trusted && len(a.Approvers) > 0 && !slices.Contains(a.Approvers, c.Actor) && !slices.Contains(a.Approvers, c.Role):
		return &Refusal{Forbidden: true, Failure: saga.Failure{Code: "not_approver", Title: "this approval is for others", Detail: "it can be decided by " + list(a.Approvers)}}
	}
	return nil
}

// decisionData validates the data of an approval by its form, and fills in the form's defaults.
func (m *Machine) decisionData(path string, o saga.Approve) (json.RawMessage, *Refusal) {
	if m.steps[path].leaves() && o.Data == nil { // the approval of a request has no form
		return nil, nil
	}
	body, ok := m.steps[path].step.Body.(saga.Approver)
	if !ok {
		return nil, refusal("not_waiting", "step "+path+" cannot be approved", "")
	}
	data, findings := body.Decide(o.Data)
	if len(findings) > 0 {
		r := refusal("bad_data", "the data does not match the approval's form", "/data"+findings[0].Pointer+": "+findings[0].Detail)
		for _, f := range findings {
			f.Pointer = "/data" + f.Pointer
			r.Findings = append(r.Findings, f)
		}
		r.Invalid = true
		return nil, r
	}
	return data, nil
}

func list(names []string) string {
	text := ""
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += strconv.Quote(name)
	}
	return text
}

// leaves reports whether the step sends something that a person may have to approve first. Other
// steps that wait for an approval have no other purpose.
func (n *node) leaves() bool {
	_, waits := n.step.Body.(saga.Await)
	return !waits
}

// applyApproval applies a person's decision.
func (m *Machine) applyApproval(r journal.Record, d saga.CommandData) error {
	n := m.steps[r.Path]
	if n == nil || n.awaited == nil || n.awaited.Approval == nil {
		return fmt.Errorf("%w: step %q does not wait for an approval", ErrImpossible, r.Path)
	}
	if n.leaves() && d.Kind == "approve" {
		n.approval = false
		return m.move(&n.forward, evApprove, r)
	}
	ev := evDone
	given := saga.Approval{Decision: "approved", By: d.Actor, At: saga.Time{Time: r.At}, Data: d.Output}
	if d.Reason != "" {
		given.Comment = &d.Reason
	}
	if d.Kind == "reject" {
		given.Decision = "rejected"
		ev = nextEvent[m.endRefused(n)] // a person has said no: time does not change that
		n.forward.failure = &saga.Failure{Code: codeRejected, Title: "step " + n.path + " was rejected by " + d.Actor, Detail: d.Reason}
	}
	if err := m.move(&n.forward, ev, r); err != nil {
		return err
	}
	if !n.leaves() { // otherwise the step has failed, and has no output
		n.output = saga.Encode(given)
	}
	m.advance(n, &n.forward, r)
	return nil
}

// maxSignals is the most signals that a saga keeps before a step waits for them, of all names
// together.
const maxSignals = 1000

func (m *Machine) validateSignal(o saga.Signal) *Refusal {
	kept := 0
	for _, early := range m.signals { // any order
		kept += len(early)
	}
	switch {
	case o.Name == "":
		return refusal("bad_signal", "a signal must have a name", "")
	case kept >= maxSignals:
		return refusal("too_many_signals", "the saga has "+strconv.Itoa(maxSignals)+" signals that no step has waited for yet", "")
	}
	return nil
}

func (m *Machine) applySignal(r journal.Record) error {
	var d saga.SignalData
	if err := take(m, r, &d); err != nil {
		return err
	}
	m.applied[d.Message] = true
	if m.signals == nil {
		m.signals = make(map[string][]json.RawMessage)
	}
	payload := d.Payload
	if payload == nil {
		payload = json.RawMessage("null")
	}
	m.signals[d.Name] = append(m.signals[d.Name], payload)
	return nil
}

// task returns the task of an attempt, or nil if this process sends the request itself.
func (m *Machine) task(step *saga.Step, s Send) *journal.Task {
	q, ok := step.Body.(saga.Queued)
	if !ok {
		return nil
	}
	t := &journal.Task{ID: TaskID(m.id, s.Path, s.Way, s.Attempt), Saga: m.id, Path: s.Path, Way: s.Way, Attempt: s.Attempt, Key: s.Key, Timeout: s.Timeout, Traceparent: s.Traceparent()}
	t.Type, t.Input, t.Lease = q.Task(s.Request)
	return t
}

// TaskID returns the id of an attempt's task. It is derived from the attempt, so no other attempt
// has it.
func TaskID(saga uuid.UUID, path string, way journal.Way, attempt int) uuid.UUID {
	return uuid.NewV5(saga, "task:"+path+":"+string(way)+":"+strconv.Itoa(attempt))
}

// Unwanted lists the tasks whose results are no longer of use, because the saga, or a block around
// the step, only waits for attempts in flight to end.
func (m *Machine) Unwanted() []uuid.UUID {
	list := m.unwantedLeases()
	m.forward.walk(func(n *node) bool {
		if _, ok := n.step.Body.(saga.Queued); ok && n.forward.state == inFlight && m.ending(n) && !m.settles(n) {
			list = append(list, TaskID(m.id, n.path, journal.Do, n.forward.attempts))
		}
		return true
	})
	return list
}

// settles reports whether the attempt in flight must end on its own, because undoing the step needs
// to know whether it happened.
func (m *Machine) settles(n *node) bool {
	return n.forward.doubt && n.needsSettling() && m.nothingUndone() == ""
}

// announce ends a step. Its events are stored together with its outcome.
func (m *Machine) announce(n *node, body saga.Announce, env *env) []Decision {
	before, wait := m.freshen(n)
	if wait {
		return before
	}
	kind, data, to, err := body.Announce(env)
	if err != nil {
		return m.refuse(n, asFailure(n.step.Kind, err))
	}
	if n.awaited != nil && n.awaited.Approval.ShownHash != m.eventApproval(n, kind, data, to).ShownHash {
		return m.decideApproval(n) // what it reads has changed since a person approved another event
	}
	id := uuid.NewV5(m.id, "event:"+n.path)
	e := cloudevent.Event{ID: id, Type: kind, Definition: m.started.Definition, Saga: m.id, At: m.at, Traceparent: m.trace.At(m.trace.Step(n.path, journal.Do)), Data: data}
	event := e.Encode()
	w := Write{Record: Draft{Kind: journal.Outcome, Path: n.path, Way: journal.Do, Class: journal.Succeeded,
		Data: saga.OutcomeData{Output: saga.Encode(map[string]string{"id": id.String()}), Event: event}}}
	for _, sink := range to {
		w.Events = append(w.Events, journal.Event{ID: id, Saga: m.id, Sink: sink, Data: event})
	}
	return append(before, w)
}
