package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// A fork is another saga that begins as a saga was after one of its records: its `started` has the
// records up to that one. What had happened by then stays the original's. The fork reads the
// outcomes, but neither sends nor undoes anything of it. A step that had no outcome yet begins
// again in the fork, under a key of the fork. So both can go on side by side. The original's point
// of no return is none for the fork.
//
// What the fork itself would send is held back, unless it was started otherwise: a person approves
// each request that has an effect, and each event. Or steps take stubs for their outcomes. What the
// fork has sent in the end is its own, and is undone as in every saga.

// forked is the part of a machine that only a fork has.
type forked struct {
	of      uuid.UUID
	at      int64 // the seq of its last record that the fork has
	effects saga.Effects
	stubs   map[string]saga.Stub
}

// holds reports whether a person has to approve a step's request or event.
func (f *forked) holds(step *saga.Step) bool {
	return f != nil && f.effects == saga.HoldEffects && writes(step)
}

// writes reports whether the step sends a request that has an effect, or publishes an event. A read
// with a compensation has an effect by its definition.
func writes(step *saga.Step) bool {
	switch body := step.Body.(type) {
	case saga.Announce:
		return true
	case saga.Call:
		return !body.ReadOnly() || step.Compensate != nil
	}
	return false
}

// sent reports whether the fork itself may have sent something for a step, which only then is the
// fork's to undo. Unless everything is sent without asking, that excludes steps with a compensation
// that only compute or wait.
func (f *forked) sent(step *saga.Step) bool {
	return f == nil || f.effects == saga.RealEffects || f.effects == saga.HoldEffects && writes(step)
}

// TurnedBack reports whether the saga is being undone, or was.
func (m *Machine) TurnedBack() bool { return m.undoing || m.reason != nil }

// ForkOf returns the saga that this one is a fork of, and how it deals with effects; Nil: none.
func (m *Machine) ForkOf() (uuid.UUID, saga.Effects) {
	if m.forked == nil {
		return uuid.Nil, ""
	}
	return m.forked.of, m.forked.effects
}

// fork makes m the machine of a fork of a saga that has these records.
func (m *Machine) fork(f *saga.ForkData, origin []journal.Record) error {
	of, err := uuid.FromString(f.Of)
	if err != nil || m.outline != nil {
		return fmt.Errorf("%w: fork of %q", saga.ErrUnreadable, f.Of)
	}
	was, err := Replay(m.def, of, origin)
	if err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	if why := was.whyNoFork(); why != "" {
		return fmt.Errorf("%w: no fork of saga %s begins after record %d: %s", ErrImpossible, of, was.seq, why)
	}
	m.forked = &forked{of: of, at: was.seq, effects: f.Effects, stubs: f.Stubs}
	m.forward, m.session, m.steps, m.touched, m.due = was.forward, was.session, was.steps, was.touched, was.due
	m.failedSteps, m.taken, m.signals = was.failedSteps, was.taken, was.signals
	for _, n := range m.touched {
		n.leave(was)
	}
	m.startOver(m.forward)
	gone := func(n *node) bool { return m.steps[n.path] != n }
	m.touched, m.failedSteps = slices.DeleteFunc(m.touched, gone), slices.DeleteFunc(m.failedSteps, gone)
	m.enter(m.finally)
	for path, stub := range f.Stubs { // any order
		if n := m.steps[path]; n != nil && n.forward.state == done {
			n.output, n.stubbed = stub.Output, true
		}
	}
	return nil
}

// whyNoFork returns why no fork begins with these records; "": one can.
func (m *Machine) whyNoFork() string {
	switch {
	case m.seq == 0:
		return "the saga had not started"
	case m.origin != nil:
		return "the saga undoes another one"
	case m.undoing || m.reason != nil || m.finished != nil:
		return "the saga had reached its end, or was being undone"
	case m.forward.over():
		return "the saga had reached its goal"
	}
	return ""
}

// leave leaves the effects of a step to the original.
func (n *node) leave(was *Machine) {
	n.taken = &taken{by: was.effectsOf(n), created: was.startedAt(n), stays: true}
	n.first -= was.seq + 1 // before all records of the fork, in the same order
	f := &n.forward
	f.doubt, f.unknown, f.unknownTokens, f.uncertain = false, retry.Money{}, 0, nil
	f.since, n.statusCheck.since, n.compensation.since = 0, 0, 0
	if n.compensation.state != done { // an undo of a call, which had no answer yet
		n.compensation = track{generation: n.compensation.generation, actionInput: n.compensation.actionInput}
	}
}

// stays reports whether the step's effect stays that of the saga which this one is a fork of.
func (n *node) stays() bool { return n.taken != nil && n.taken.stays }

// startOver lets the group's steps begin again that had no outcome.
func (m *Machine) startOver(g *group) {
	if g.session != nil {
		m.callsOver(g.session)
		return
	}
	for _, n := range g.rereads { // the fork reads them again if it needs them
		if n.forward.state != done || n.difference != "" {
			n.forward.state, n.forward.sinceAt = done, n.answeredAt
		}
		n.reread, n.difference = nil, ""
	}
	g.rereads = nil
	if g == m.forward {
		for _, s := range g.steps { // those that were to run again
			if n := m.steps[s.ID]; n != nil && n != g.cur && n != g.waiting && n.forward.state == ready {
				m.forget(n)
			}
		}
	}
	if n := g.waiting; n != nil {
		m.forget(n)
		g.waiting = m.next(g, n.step)
		m.expect(g.waiting)
	}
	switch n := g.cur; {
	case n == nil:
	case n.forward.state == entered:
		for _, inner := range n.block.active {
			m.startOver(inner)
		}
	default:
		m.forget(n)
		m.enter(g)
	}
}

// forget removes a step that had no outcome. Its iteration still lists it among the steps to free.
func (m *Machine) forget(n *node) { delete(m.steps, n.path) }

// callsOver ends the steps of a session that had no outcome: no step of the fork has this identity
// then, so if the agent asks for it again, it is a new step. The fork waits for a process.
func (m *Machine) callsOver(s *session) {
	for _, g := range s.active {
		n := g.cur
		g.cur, n.passed = nil, true
		delete(m.due, n.path)
		if n.own != nil { // its path is its identity
			same := func(o *node) bool { return o == n }
			s.steps, s.owns = slices.DeleteFunc(s.steps, same), slices.DeleteFunc(s.owns, same)
			delete(m.steps, n.path)
			continue
		}
		n.forward = track{state: failed, class: journal.Refused, actionInput: n.forward.actionInput,
			failure: &saga.Failure{Code: "forked", Title: "it had no answer when the session was forked"}}
		n.statusCheck = track{}
		if n.first == 0 {
			m.touch(n, -1)
			n.taken = &taken{by: m.forked.of, stays: true}
		}
		for identity, list := range s.identities { // any order
			s.identities[identity] = slices.DeleteFunc(list, func(o *node) bool { return o == n })
		}
	}
	s.active, s.undos, s.waitForIt, s.asks.messages = nil, nil, nil, nil
	s.live, s.lost, s.token, s.leases, s.since, s.from = false, false, "", 0, m.created, m.begun
	s.ended = make(map[string]bool)
}

// instead returns the record by which a step of a fork ends without doing anything; nil: the step
// does what it does in every saga.
func (m *Machine) instead(n *node) []Decision {
	if m.forked == nil || n.forward.attempts > 0 {
		return nil
	}
	stub, ok := m.forked.stub(n.path, n.identity, n.alias())
	switch {
	case ok && stub.Error != nil:
		return m.outcome(n, journal.Do, journal.Refused, saga.OutcomeData{Error: stub.Error, Stubbed: true, Next: m.endRefused(n)})
	case ok:
		return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: stub.Output, Stubbed: true})
	case m.forked.effects == saga.StubEffects && writes(n.step):
		return m.refuse(n, &saga.Failure{Code: codeNoStub, Title: "no stub is given for step " + n.path, Detail: "nothing was sent: start another fork, with an outcome for this step in `stubs`"})
	}
	return nil
}

const codeNoStub = "no_stub"

// stub returns the first stub under one of these names.
func (f *forked) stub(names ...string) (saga.Stub, bool) {
	for _, name := range names {
		if stub, ok := f.stubs[name]; ok {
			return stub, true
		}
	}
	return saga.Stub{}, false
}

// noStub refuses the call of an agent that needs a stub and has none.
func (f *forked) noStub(step *saga.Step, action, identity string) *Refusal {
	if f == nil || f.effects != saga.StubEffects || !writes(step) {
		return nil
	}
	if _, ok := f.stub(identity, action); ok {
		return nil
	}
	return refusal(codeNoStub, "no stub is given for this call of action "+action+": nothing was sent", "open another fork, with an outcome for the action in `stubs`").at("/action", codeNoStub)
}

// alias is the other name under which a step has a stub: its id; of a session's call, its identity
// or its action.
func (n *node) alias() string {
	switch {
	case n.in.call != nil && n.step.Use != nil:
		return n.step.Use.Action
	case n.in.call != nil:
		return n.path
	}
	return n.step.ID
}

// approvalOf describes the approval that a step waits for before its request leaves.
func (m *Machine) approvalOf(n *node, input json.RawMessage, request *saga.Request, event any) *saga.ApprovalData {
	var title string
	var last *shownAsk
	what := n.step.Use.String()
	switch s := m.session; {
	case s != nil:
		title, last = "Session "+s.policy.Name+": may the agent call "+what+"?", s.asks.last()
	case n.step.Approve:
		title = "Step " + n.path + ": may the model call " + what + "?"
	default:
		title = "Step " + n.path + ": may its request be sent?"
	}
	if m.forked != nil {
		title = "Fork of " + m.forked.of.String() + ": " + title
	}
	shown := struct {
		Action  string    `json:"action,omitempty"`
		Input   any       `json:"input,omitempty"`
		Request any       `json:"request,omitempty"`
		Event   any       `json:"event,omitempty"`
		LastAsk *shownAsk `json:"last_ask,omitempty"`
	}{Action: what, Event: event, LastAsk: last}
	if what != "" {
		shown.Input = saga.Visible(input)
	}
	if request != nil {
		shown.Request = saga.Visible(saga.Encode(request))
	}
	a := &saga.ApprovalData{Title: title, Shown: saga.Encode(shown)}
	a.ShownHash = a.Hash(m.started.SHA256)
	return a
}

// ForkOptions says how a fork differs from its original.
type ForkOptions struct {
	At      int64           // the seq of the record after which the fork goes on; 0: the last possible one
	Effects saga.Effects    // "": HoldEffects
	Input   json.RawMessage // nil: that of the original
	// Stubs are outcomes by step or action. One for a step that had ended by then replaces its
	// output, which needs StartOptions.Reason.
	Stubs map[string]saga.Stub
}

// LastFork returns the seq of the last record after which a fork of the saga can begin; 0: there is
// none.
func LastFork(def *saga.Definition, id uuid.UUID, records []journal.Record) (last int64) {
	m := New(def, id)
	for i := range records {
		if m.Apply(records[i]) != nil {
			break
		}
		if m.whyNoFork() == "" {
			last = m.seq
		}
	}
	return last
}

// BeginFork returns the data of the start of a fork of the saga of m, whose records are given, and
// the unique value ("" for none), or findings about what is wrong. Their pointers are into the
// request for a fork. The labels are those of m. Of o it uses the vars, the budget, the actor, the
// reason and the trace.
func (m *Machine) BeginFork(f ForkOptions, records []journal.Record, o StartOptions) (saga.StartedData, string, []saga.Finding) {
	o.Version, o.Input, o.Labels, o.RetryOf, o.Parent = int(m.started.Version), m.started.Input, m.labels, uuid.Nil, nil
	if f.Input != nil {
		o.Input = f.Input
	}
	d, unique, wrong := Begin(m.def, o)
	if f.Input == nil {
		d.Input = slices.Clone(m.started.Input)
	}
	was, more := m.wrongFork(&f, records)
	if wrong = append(wrong, more...); len(wrong) > 0 {
		return d, "", wrong
	}
	d.Fork = &saga.ForkData{Of: m.id.String(), Effects: f.Effects, Stubs: f.Stubs}
	d.Origin = records[:f.At]
	if f.Effects == saga.StubEffects {
		d.Fork.Stubs = m.recordedStubs(f, records)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Stubs)) {
		n, stub := was.steps[name], f.Stubs[name]
		switch {
		case n == nil || n.forward.state != done:
		case stub.Error != nil:
			wrong = append(wrong, saga.Finding{Pointer: stubAt(name), Code: "bad_stub", Detail: "the step had succeeded by then, so only its `output` can be replaced: to let it fail, fork before it"})
		case o.Reason == "":
			wrong = append(wrong, saga.Finding{Pointer: "/reason", Code: "missing_field", Detail: "the output of " + name + " is replaced, which had ended by then: say why in `reason`"})
		}
	}
	if f.Effects != saga.RealEffects {
		unique = "" // it may run while the original does, because it does nothing by itself
	}
	return d, unique, wrong
}

// wrongFork completes the options. It returns the machine of the original at the record after which
// the fork begins, and what is wrong.
func (m *Machine) wrongFork(f *ForkOptions, records []journal.Record) (was *Machine, wrong []saga.Finding) {
	if f.At == 0 {
		f.At = LastFork(m.def, m.id, records)
	}
	say := func(at, code, format string, args ...any) {
		wrong = append(wrong, saga.Finding{Pointer: at, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	was, err := Replay(m.def, m.id, records[:min(max(f.At, 0), int64(len(records)))])
	if err != nil {
		say("/at", "bad_fork", "%v", err)
	} else if why := was.whyNoFork(); why != "" || f.At > int64(len(records)) {
		switch last := LastFork(m.def, m.id, records); {
		case last == 0:
			say("/at", "bad_fork", "no fork of this saga is possible: %s", m.whyNoFork())
		case f.At < 1 || f.At > int64(len(records)):
			say("/at", "bad_fork", "the saga has no record %d: a fork begins after one of its records 1 to %d", f.At, last)
		default:
			say("/at", "bad_fork", "%s at record %d: a fork begins after one of its records 1 to %d", why, f.At, last)
		}
	}
	switch f.Effects {
	case "":
		f.Effects = saga.HoldEffects
	case saga.HoldEffects, saga.StubEffects, saga.RealEffects:
	default:
		say("/effects", "bad_fork", "effects must be hold, stub or real")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Stubs)) {
		at, stub := stubAt(name), f.Stubs[name]
		if (stub.Output == nil) == (stub.Error == nil) {
			say(at, "bad_stub", "a stub has either an `output`, or an `error` with code and title")
		} else if e := stub.Error; e != nil && (e.Code == "" || e.Title == "") {
			say(at, "bad_stub", "the `error` of a stub has a code and a title")
		}
		if m.session != nil && m.session.policy.Actions[name] == nil {
			say(at, "unknown_action", "the session has no action %s; its actions are %s", strconv.Quote(name), m.session.names())
		}
		if m.session == nil && m.def.ByID[saga.StepID(name)] == nil {
			say(at, "unknown_step", "the definition has no step %s", strconv.Quote(name))
		}
	}
	return was, wrong
}

// recordedStubs returns the given stubs, and the outcomes that the original's steps have had after
// the record where the fork begins, if they would send something.
func (m *Machine) recordedStubs(f ForkOptions, records []journal.Record) map[string]saga.Stub {
	stubs := make(map[string]saga.Stub)
	identities := make(map[string]string) // of a session's steps, by path
	for _, r := range records {
		if r.Kind == journal.Called {
			var d saga.CalledData
			if read(r, &d) == nil {
				identities[r.Path] = d.Identity
			}
			continue
		}
		n := m.steps[r.Path]
		if r.Seq <= f.At || n == nil || r.Way == journal.Undo || !writes(n.step) {
			continue
		}
		if _, given := f.Stubs[n.alias()]; given {
			continue
		}
		name := r.Path
		if m.session != nil {
			name = identities[name]
		}
		if stub, ends := stubOf(n, r); ends {
			stubs[name] = stub
		}
	}
	maps.Copy(stubs, f.Stubs)
	return stubs
}

// stubOf returns the outcome that a record gives to a step that sends something, by its response,
// by a status check or by a person. ends is false if it does not end the step, or ends it with
// neither an output nor a failure.
func stubOf(n *node, r journal.Record) (stub saga.Stub, ends bool) {
	switch r.Kind {
	case journal.Outcome:
		var d saga.OutcomeData
		switch {
		case read(r, &d) != nil:
		case d.Next == saga.NextDone:
			return saga.Stub{Output: d.Output}, true
		case d.Next == saga.NextFail:
			return saga.Stub{Error: d.Error}, true
		}
	case journal.Decided:
		var d saga.DecidedData
		switch {
		case read(r, &d) != nil:
		case d.Next == saga.NextDone:
			return saga.Stub{Output: orNull(d.Output)}, true
		case d.Next == saga.NextFail:
			return n.failed()
		}
	case journal.Operator:
		var d saga.CommandData
		switch {
		case read(r, &d) != nil || d.Rejected != nil:
		case d.Outcome == "succeeded":
			return saga.Stub{Output: orNull(d.Output)}, true
		case d.Outcome == "failed", d.Outcome == "compensated", d.Kind == "reject":
			return n.failed()
		}
	}
	return stub, false
}

// failed returns a stub with the failure of a step.
func (n *node) failed() (stub saga.Stub, ok bool) {
	return saga.Stub{Error: n.forward.failure}, n.forward.failure != nil
}

func orNull(output json.RawMessage) json.RawMessage {
	if output == nil {
		return json.RawMessage("null")
	}
	return output
}

// stubAt returns the JSON pointer of a stub.
func stubAt(name string) string {
	return "/stubs/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
