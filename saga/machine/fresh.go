package machine

import (
	"encoding/json"
	"slices"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// A read with fresh_for gives an answer that is good for a time. When a request that depends on it
// is about to leave and the answer is older, the step is read again: its track goes back from done
// to ready by a record `woke` with the timer fresh_for, and gets a new key. The step is then in
// group.rereads, next to the step at which the list is, until it has ended again. The request
// waits.
//
// An answer that has not changed counts as one of that time. If it has changed, on_change says what
// follows. With fail, the saga fails with the reason stale, and the steps keep the answer that they
// have used, because compensations may read it. With ask, the steps between the read and the
// waiting request that use the answer run again, and so does the last approval between them. This
// is possible only as long as nothing that depends on the answer has been sent; otherwise the saga
// fails, too.
//
// A request in doubt is never held back: only the same request with the same key can settle it.
// After the pivot, nothing is read again.
//
// The machine knows the time only from records. So the decision to send such a request comes with
// one to wake when the first of its answers becomes too old: a caller that is late appends that
// record instead of the intent.

// codeStale is the reason of a saga whose answer has changed.
const codeStale = "stale"

// freshen returns the decisions that come before a request of n that is about to leave. wait says
// that it must not leave yet. While the saga fails or is undone, nothing waits.
func (m *Machine) freshen(n *node) (before []Decision, wait bool) {
	if n.forward.doubt || m.pivoted || m.reason != nil || m.outline != nil {
		return nil, false
	}
	var first *node
	for _, id := range n.step.FreshReads {
		switch r := m.steps[id]; {
		case r == nil:
		case slices.Contains(m.forward.rereads, r):
			wait = true
		case r.forward.state != done: // it was skipped
		case r.stubbed: // a fork has its answer from a person
		case !m.at.Before(r.staleAt()):
			return []Decision{Write{Record: staleRecord(r)}}, true
		case first == nil || r.staleAt().Before(first.staleAt()):
			first = r
		}
	}
	if wait || first == nil {
		return nil, wait
	}
	return []Decision{WakeAt{At: first.staleAt(), Woke: staleRecord(first)}}, false
}

// staleAt returns when the answer of a read becomes too old.
func (n *node) staleAt() time.Time { return n.forward.sinceAt.Add(n.step.FreshFor) }

func staleRecord(n *node) Draft {
	return woke(n.path, journal.Do, saga.TimerFresh, n.staleAt())
}

// readAgain applies the record by which a step is read again.
func (m *Machine) readAgain(n *node, r journal.Record) error {
	n.answeredAt = n.forward.sinceAt
	if err := m.move(&n.forward, evReadAgain, r); err != nil {
		return err
	}
	n.forward.again(true)
	n.reread, n.difference = nil, ""
	n.runsHere()
	m.forward.rereads = append(m.forward.rereads, n)
	return nil
}

// readingAgain reports whether the step is read again now.
func (m *Machine) readingAgain(n *node) bool { return slices.Contains(m.forward.rereads, n) }

// answered sets the output of a step that has succeeded. That of a step which was read again takes
// effect when all such steps have ended.
func (m *Machine) answered(n *node, output json.RawMessage) {
	if m.readingAgain(n) {
		n.reread, n.difference = output, m.changed(n, output)
		return
	}
	n.output = output
}

// changed returns where the new output of a step that is read again differs, "" if it does not, or
// if the step is not read again.
func (m *Machine) changed(n *node, output json.RawMessage) string {
	if !m.readingAgain(n) {
		return ""
	}
	before, _ := expr.Decode(n.output) // outputs are valid JSON
	after, _ := expr.Decode(output)
	switch at, differs := saga.Difference(before, after); {
	case !differs:
		return ""
	case at == "":
		return "it differs as a whole"
	default:
		return "it differs at " + at
	}
}

// rereadOver applies the end of a step that was read again. It does nothing for another step.
func (m *Machine) rereadOver(n *node, r journal.Record) {
	g := m.forward
	if !m.readingAgain(n) {
		return
	}
	if n.forward.state != done && n.forward.state != skipped {
		g.rereads = slices.DeleteFunc(g.rereads, func(o *node) bool { return o == n })
		m.abortBy(m.failure(n))
		return
	}
	if slices.ContainsFunc(g.rereads, func(o *node) bool { return !o.forward.state.ended() }) {
		return
	}
	var changed []*node
	for _, o := range g.rereads {
		if o.difference != "" {
			changed = append(changed, o)
		}
	}
	g.rereads = nil
	if len(changed) == 0 || m.reason != nil {
		return // the answers that were used stay
	}
	again, why := m.runAgain(changed)
	if why != "" {
		for _, o := range changed {
			o.abandoned = true // no other saga goes on with it
		}
		m.abortBy(stale(changed[0], why))
		return
	}
	m.goBack(changed, again, r)
}

// stale returns the reason of a saga that fails because an answer has changed.
func stale(n *node, why string) *saga.Reason {
	return &saga.Reason{Code: codeStale, Step: n.path, Title: "the answer of step " + n.path + " has changed since it was used",
		Detail: "it was older than fresh_for (" + saga.Duration(n.step.FreshFor) + ") and was read again: " + n.difference + "; " + why}
}

// abortBy makes the saga fail for a reason, unless it has one already.
func (m *Machine) abortBy(why *saga.Reason) {
	if m.reason == nil {
		m.reason = why
		m.inboxRevision++
	}
}

// runAgain lists the steps before the waiting request that run again because answers have changed:
// those that use them, and the last approval. why says why they cannot.
func (m *Machine) runAgain(changed []*node) (again []*node, why string) {
	g := m.forward
	last := -1
	for _, n := range changed {
		if n.step.OnChange != saga.ChangeAsks {
			return nil, "on_change is fail"
		}
	}
	if g.cur == nil || g.cur.block != nil {
		return nil, "the request that waits for it is inside a block that was entered"
	}
	for i, s := range g.steps[:g.next] {
		if _, approves := s.Body.(saga.Approver); approves {
			last = i
		}
	}
	for _, n := range changed {
		if last < slices.Index(g.steps, n.step) {
			return nil, "no approval stands between"
		}
	}
	for i, s := range g.steps[:g.next] {
		n := m.steps[s.ID]
		if n == nil || i != last && !m.uses(s, changed) {
			continue
		}
		if !n.runsAgain() {
			return nil, "step " + s.ID + " has used it"
		}
		again = append(again, n)
	}
	other := make(map[string]bool) // the steps whose outputs may differ from those before
	for _, n := range slices.Concat(changed, again) {
		other[n.path] = true
	}
	effects := m.effectsByTop()
	for _, s := range g.steps[:g.next] {
		if n := effects[s.ID].stays; n != nil && m.firstOf(m.def.UndoReads[s.ID], other) != "" {
			return nil, "the compensation of step " + n.path + " reads it"
		}
	}
	return again, ""
}

// uses reports whether a step of the top level uses one of the answers.
func (m *Machine) uses(s *saga.Step, answers []*node) bool {
	return slices.ContainsFunc(answers, func(n *node) bool { return slices.Contains(m.def.FreshUses[s.ID], n.step.ID) })
}

// runsAgain reports whether a step that has ended can run again: it has had no effect, and needs
// no model.
func (n *node) runsAgain() bool {
	switch body := n.step.Body.(type) {
	case saga.Value, saga.Approver:
		return true
	case saga.Call:
		if _, model := body.(saga.Modelled); !model && body.ReadOnly() && n.step.Compensate == nil {
			return true
		}
	}
	return n.forward.state == skipped && n.forward.attempts == 0 // its `when` was false
}

// goBack makes steps run again that have used answers which have changed.
func (m *Machine) goBack(changed, again []*node, r journal.Record) {
	g := m.forward
	for _, n := range changed {
		n.output = n.reread
	}
	for _, n := range again {
		m.restart(n, r)
		n.stale = &saga.Stale{Step: changed[0].path, Detail: changed[0].difference, Answer: true}
	}
	if n := g.cur; n.first != 0 { // it has failed without an effect, or a person lets it try again
		n.forward.again(true)
		n.redo, n.approval = true, m.next(g, n.step).approval
	}
	g.next = slices.Index(g.steps, again[0].step)
	m.enter(g)
	m.inboxRevision++
}

// restart prepares a step that has ended for running again.
func (m *Machine) restart(n *node, r journal.Record) {
	s := &n.forward
	if s.attempts > 0 {
		s.again(true)
	}
	s.state, s.since, s.sinceAt, s.wakeup, s.retryAt = ready, r.Seq, r.At, nil, time.Time{}
	s.failure, s.class = nil, ""
	n.output, n.passed, n.redo, n.approval = nil, false, true, m.next(n.in, n.step).approval
	n.runsHere()
	delete(m.taken, n.path)
	m.failedSteps = slices.DeleteFunc(m.failedSteps, func(o *node) bool { return o == n })
}
