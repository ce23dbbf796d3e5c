package saga

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga/expr"
)

// Await is the shape of kinds that wait for a message: approval, signal. The step's Timeout limits
// the wait; 0 means no limit.
type Await interface {
	// Await returns what the step waits for. It is called once, and its result is recorded.
	Await(env expr.Env) (Awaited, error)
	// Expired returns how the step ends if no message came until `at`: with an output or a failure.
	Expired(a Awaited, at time.Time) (json.RawMessage, *Failure)
}

// Receiver is implemented by an Await that waits for signals of one name: signal.
type Receiver interface {
	// Signal returns the name.
	Signal() string
}

// Approver is implemented by an Await that a person decides: approval.
type Approver interface {
	// Decide validates the data that comes with an approval, and returns it with defaults filled
	// in.
	Decide(data json.RawMessage) (json.RawMessage, []Finding)
}

// Awaited is what a step waits for, as its intent records it.
type Awaited struct {
	Signal   string        `json:"signal,omitempty"`   // the signal's name
	Approval *ApprovalData `json:"approval,omitempty"` // if the step waits for an approval
}

// ApprovalData describes an approval.
type ApprovalData struct {
	Title     string          `json:"title"`
	Approvers []string        `json:"approvers,omitempty"` // names or roles; empty: everybody who may approve
	FourEyes  bool            `json:"four_eyes,omitempty"` // the person who started the saga may not approve
	Shown     json.RawMessage `json:"shown,omitempty"`
	// ShownHash is the SHA-256, in hex, of the definition's SHA-256, the title and Shown, separated
	// by newlines.
	ShownHash string          `json:"shown_hash"`
	Form      json.RawMessage `json:"form,omitempty"` // a JSON Schema of the data that comes with the approval
}

// Hash computes ShownHash.
func (d *ApprovalData) Hash(definition string) string {
	sum := sha256.Sum256(slices.Concat([]byte(definition+"\n"+d.Title+"\n"), d.Shown))
	return hex.EncodeToString(sum[:])
}

// codeRejected is the failure of an approval that was rejected.
const codeRejected = "rejected"

// decideAwait begins a wait for a message.
func (m *Machine) decideAwait(n *node, body Await, env *env) []Decision {
	a, err := body.Await(env)
	if err != nil {
		return m.refuse(n, asFailure(n.step.Kind, err))
	}
	if a.Approval != nil {
		a.Approval.ShownHash = a.Approval.Hash(m.started.SHA256)
	}
	d := IntentData{Awaited: &a}
	if n.step.Timeout > 0 {
		d.WakeAt = &Time{m.at.Add(n.step.Timeout)}
	}
	return []Decision{Write{Record: journal.Record{Kind: journal.Intent, Path: n.path, Way: journal.Do, Data: encode(d)}}}
}

// decideAwaiting waits for the message, or takes a signal that came earlier.
func (m *Machine) decideAwaiting(n *node) []Decision {
	var ds []Decision
	if a := n.awaited.Approval; a != nil {
		ds = append(ds, m.escalateApproval(n, a)...)
	} else if early := m.signals[n.awaited.Signal]; len(early) > 0 {
		return m.outcome(n, journal.Do, journal.Succeeded, OutcomeData{Output: early[0]})
	}
	if !n.forward.retryAt.IsZero() {
		ds = append(ds, n.forward.wake(n.path, journal.Do, n.step.Kind)...)
	}
	return ds
}

// consumeSignal removes the signal that a step has received.
func (m *Machine) consumeSignal(n *node) {
	if n.awaited == nil || n.forward.state != awaiting || n.awaited.Signal == "" {
		return
	}
	if early := m.signals[n.awaited.Signal]; len(early) > 0 {
		m.signals[n.awaited.Signal] = early[1:]
	}
}

// decideExpired ends a wait whose time has passed without a message.
func (m *Machine) decideExpired(n *node) []Decision {
	out, f := n.step.Body.(Await).Expired(*n.awaited, m.at)
	if f != nil {
		return m.refuse(n, f)
	}
	return m.outcome(n, journal.Do, journal.Succeeded, OutcomeData{Output: out})
}

func (m *Machine) escalateApproval(n *node, a *ApprovalData) []Decision {
	e := m.entry(n, &n.forward, journal.Do)
	e.Kind, e.Title, e.Detail = InboxApproval, a.Title, "Approve or reject it, with the hash of what is shown here."
	starter := "the person who started the saga"
	if name := m.Starter(); name != "" && name != Anonymous {
		starter = name + ", who started the saga"
	}
	e.Shown, e.ShownHash, e.Approvers, e.Form = a.Shown, a.ShownHash, a.Approvers, a.Form
	if a.FourEyes {
		e.Detail += " It may not be decided by " + starter + "."
	}
	if !n.forward.retryAt.IsZero() {
		e.ExpiresAt = &Time{n.forward.retryAt}
		e.Detail += " It expires at " + n.forward.retryAt.UTC().Format(journal.TimeFormat) + "."
	}
	e.Actions = []string{"approve", "reject"}
	return []Decision{Escalate{e}}
}

// Approval is the output of a decided approval step. All of its fields are always present, so that
// a later step that reads a missing comment reads null and does not fail.
type Approval struct {
	Decision string          `json:"decision"` // approved or rejected
	By       string          `json:"by"`
	At       Time            `json:"at"`
	Comment  *string         `json:"comment"` // nil: none
	Data     json.RawMessage `json:"data"`    // nil: none
}

// validateDecision checks whether the actor may decide the approval now, and fills in the defaults
// of the form.
func (m *Machine) validateDecision(o *Command) *Refusal {
	n := m.steps[o.Path]
	if n == nil || n.awaited == nil || n.awaited.Approval == nil {
		return refusal("not_waiting", "step "+o.Path+" does not wait for an approval", "")
	}
	a := n.awaited.Approval
	switch {
	case n.forward.state != awaiting || m.undoing && !n.in.final || m.ending(n):
		return refusal("decided", "the approval of step "+o.Path+" is decided, or no longer wanted", "its step has ended: see the saga's steps")
	case !n.forward.retryAt.IsZero() && o.At.Truncate(time.Millisecond).After(n.forward.retryAt):
		return refusal("decided", "the approval of step "+o.Path+" has expired", "nobody had decided by "+n.forward.retryAt.UTC().Format(journal.TimeFormat))
	case o.Shown != "" && o.Shown != a.ShownHash:
		return refusal("stale", "what was shown is not what is to be decided", "read the inbox entry again: it shows "+a.ShownHash)
	case o.Shown == "" && o.Kind == "approve":
		r := refusal("shown_missing", "an approval names what it approves", "send `shown`: the hash that the inbox entry has as shown_hash")
		r.Invalid, r.Findings = true, []Finding{{Pointer: "/shown", Code: "missing_field", Detail: r.Detail}}
		return r
	case a.FourEyes && (o.Trusted || m.Starter() == Anonymous):
		return &Refusal{Forbidden: true, Failure: Failure{Code: "four_eyes", Title: "four_eyes needs API keys",
			Detail: "the person who started the saga may not decide this approval, and without API keys the server cannot know who that is: configure API keys, and start and decide the saga with keys of two names"}}
	case a.FourEyes && o.Actor == m.Starter():
		return &Refusal{Forbidden: true, Failure: Failure{Code: "four_eyes", Title: "the person who started the saga may not decide this approval",
			Detail: "it has `four_eyes`, and " + o.Actor + " has started the saga: somebody else must decide it"}}
	case !o.Trusted && len(a.Approvers) > 0 && !slices.Contains(a.Approvers, o.Actor) && !slices.Contains(a.Approvers, o.Role):
		return &Refusal{Forbidden: true, Failure: Failure{Code: "not_approver", Title: "this approval is for others", Detail: "it can be decided by " + list(a.Approvers)}}
	}
	if o.Kind != "approve" {
		return nil
	}
	body, ok := n.step.Body.(Approver)
	if !ok {
		return refusal("not_waiting", "step "+o.Path+" cannot be approved", "")
	}
	data, findings := body.Decide(o.Data)
	if len(findings) > 0 {
		r := refusal("bad_data", "the data breaks the approval's form", "/data"+findings[0].Pointer+": "+findings[0].Detail)
		for _, f := range findings {
			f.Pointer = "/data" + f.Pointer
			r.Findings = append(r.Findings, f)
		}
		r.Invalid = true
		return r
	}
	o.Data = data
	return nil
}

// Signals returns the sorted names of the signals that the definition's steps wait for.
func (d *Definition) Signals() []string {
	var names []string
	for _, s := range d.ByID { // any order
		if r, ok := s.Body.(Receiver); ok {
			names = append(names, r.Signal())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
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

// applyApproval applies a person's decision.
func (m *Machine) applyApproval(r journal.Record, d CommandData) error {
	n := m.steps[r.Path]
	if n == nil || n.awaited == nil || n.awaited.Approval == nil {
		return fmt.Errorf("%w: step %q does not wait for an approval", ErrImpossible, r.Path)
	}
	ev := evDone
	given := Approval{Decision: "approved", By: d.Actor, At: Time{r.At}, Data: d.Output}
	if d.Reason != "" {
		given.Comment = &d.Reason
	}
	if d.Kind == "reject" {
		given.Decision = "rejected"
		ev = nextEvent[m.endFailed(n)]
		n.forward.failure = &Failure{Code: codeRejected, Title: "step " + n.path + " was rejected by " + d.Actor, Detail: d.Reason}
	}
	if err := m.move(&n.forward, ev, r); err != nil {
		return err
	}
	n.forward.class = journal.Succeeded
	if ev != evDone {
		n.forward.class = journal.Refused
	}
	n.output = encode(given)
	m.advance(n, &n.forward)
	return nil
}

// SignalData is the data of `signalled`.
type SignalData struct {
	Message string          `json:"message"`
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Actor   string          `json:"actor,omitempty"`
}

// maxSignals is the most signals that a saga keeps before a step waits for them, of all names
// together.
const maxSignals = 1000

func (m *Machine) validateSignal(o Command) *Refusal {
	kept := 0
	for _, early := range m.signals { // any order
		kept += len(early)
	}
	switch {
	case o.Name == "":
		return refusal("bad_signal", "a signal has a name", "")
	case kept >= maxSignals:
		return refusal("too_many_signals", "the saga has "+strconv.Itoa(maxSignals)+" signals that no step has waited for yet", "")
	}
	return nil
}

func (m *Machine) applySignal(r journal.Record) error {
	var d SignalData
	if err := read(r, &d); err != nil {
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

// Queued is implemented by calls that workers perform: task.
type Queued interface {
	// Task returns the task of a request. lease is how long a worker may be without a heartbeat.
	Task(r Request) (kind string, input json.RawMessage, lease time.Duration)
}

// task returns the task of an attempt, or nil if this process sends the request itself.
func (m *Machine) task(step *Step, s Send) *journal.Task {
	q, ok := step.Body.(Queued)
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
	if m.undoing || m.finished != nil {
		return nil
	}
	var list []uuid.UUID
	m.forward.walk(func(n *node) bool {
		if _, ok := n.step.Body.(Queued); ok && n.forward.state == inFlight && m.ending(n) && !m.settles(n) {
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

// Announce is the shape of kinds that publish an event and do not wait: emit.
type Announce interface {
	// Announce returns the type of the event, its data, and the names of its sinks.
	Announce(env expr.Env) (kind string, data json.RawMessage, to []string, err error)
}

// announce ends a step. Its events are stored together with its outcome.
func (m *Machine) announce(n *node, body Announce, env *env) []Decision {
	kind, data, to, err := body.Announce(env)
	if err != nil {
		return m.refuse(n, asFailure(n.step.Kind, err))
	}
	id := uuid.NewV5(m.id, "event:"+n.path)
	event := cloudEvent(id, kind, m.started.Definition, m.id, m.at, m.trace.At(m.trace.Step(n.path, journal.Do)), data)
	w := Write{Record: journal.Record{Kind: journal.Outcome, Path: n.path, Way: journal.Do, Class: journal.Succeeded,
		Data: encode(OutcomeData{Output: encode(map[string]string{"id": id.String()}), Event: event})}}
	for _, sink := range to {
		w.Events = append(w.Events, journal.Event{ID: id, Saga: m.id, Sink: sink, Data: event})
	}
	return []Decision{w}
}
