package machine

import (
	"fmt"
	"strings"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Apply applies the journal's next record. After an error, which wraps ErrImpossible or
// saga.ErrUnreadable, the machine must not be used. Apply does not check hashes; journal.Verify
// does.
func (m *Machine) Apply(r journal.Record) error {
	if err := m.apply(r); err != nil {
		return fmt.Errorf("saga %s: record %d (%s %s): %w", m.id, r.Seq, r.Kind, r.Path, err)
	}
	m.seq, m.at, m.hash = r.Seq, r.At, r.Hash
	return nil
}

func (m *Machine) apply(r journal.Record) error {
	switch {
	case r.Seq != m.seq+1:
		return fmt.Errorf("%w: expected seq %d", ErrImpossible, m.seq+1)
	case (r.Kind == journal.Started) != (m.seq == 0):
		return fmt.Errorf("%w: started comes first, and once", ErrImpossible)
	case m.finished != nil:
		return fmt.Errorf("%w: the saga has finished", ErrImpossible)
	}
	switch r.Kind {
	case journal.Started:
		var d saga.StartedData
		if err := take(m, r, &d); err != nil {
			return err
		}
		m.created, m.begun = r.At, counts(d.Latest, r.At)
		if d.UndoOf != "" {
			return m.adopt(d)
		}
		if m.session != nil {
			m.session.since, m.session.from = r.At, m.begun
		}
		origin := d.Origin
		d.Origin = nil // what is in it is in the steps
		if err := m.pin(d); err != nil {
			return err
		}
		switch {
		case d.Fork != nil:
			return m.fork(d.Fork, origin)
		case d.RetryFrom != "":
			return m.goOn(d, origin)
		}
		return nil
	case journal.Intent, journal.Outcome, journal.Skipped, journal.Decided:
		return m.applyStep(r)
	case journal.Woke:
		return m.applyWoke(r)
	case journal.Signalled:
		return m.applySignal(r)
	case journal.Compensating:
		return m.applyCompensating(r)
	case journal.Cancelled, journal.Paused, journal.Resumed, journal.Operator:
		return m.applyCommand(r)
	case journal.Attached:
		return m.applyAttached(r)
	case journal.Called:
		return m.applyCalled(r)
	case journal.Committed:
		return m.applyCommitted(r)
	case journal.Finished:
		return m.applyFinished(r)
	}
	return fmt.Errorf("%w: kind %q", saga.ErrUnreadable, r.Kind)
}

// take returns a record's data: as its draft had it, if the record is being appended, or decoded.
func take[T any](m *Machine, r journal.Record, into *T) error {
	if d, ok := m.appended.(T); ok {
		*into = d
		return nil
	}
	return read(r, into)
}

func read(r journal.Record, into any) error {
	if err := r.Decode(into); err != nil {
		return fmt.Errorf("%w: data: %w", saga.ErrUnreadable, err)
	}
	return nil
}

// trackOf returns the step and the track that a step's record belongs to.
func (m *Machine) trackOf(path string, way journal.Way) (*node, *track, error) {
	base, query := saga.SplitQuery(path)
	n, err := m.locate(base)
	switch {
	case err != nil:
		return nil, nil, err
	case query:
		return n, &n.statusCheck, nil
	case way == journal.Undo:
		if !m.undoes(n) {
			return nil, nil, fmt.Errorf("%w: %s is not what is undone next", ErrImpossible, path)
		}
		return n, &n.compensation, nil
	case m.undoing && !n.in.final:
		return nil, nil, fmt.Errorf("%w: forward work after undoing began", ErrImpossible)
	}
	return n, &n.forward, nil
}

func (m *Machine) applyStep(r journal.Record) error {
	switch {
	case r.Kind == journal.Decided && r.Path == "":
		return m.applyAwaitParent(r)
	case r.Kind == journal.Decided && strings.HasSuffix(r.Path, "]") && m.session == nil:
		return m.applyIteration(r)
	}
	n, s, err := m.trackOf(r.Path, r.Way)
	if err != nil {
		return err
	}
	m.touch(n, r.Seq)
	if s == &n.forward {
		n.redo = false
	}
	switch r.Kind {
	case journal.Intent:
		err = m.applyIntent(n, s, r)
	case journal.Outcome:
		err = m.applyOutcome(n, s, r)
	case journal.Skipped:
		err = m.move(s, evSkip, r)
	case journal.Decided:
		err = m.applyDecided(n, s, r)
	}
	if err != nil {
		return err
	}
	m.advance(n, s, r)
	return nil
}

func (m *Machine) applyIntent(n *node, s *track, r journal.Record) error {
	var d saga.IntentData
	if err := take(m, r, &d); err != nil {
		return err
	}
	s.retryAt = time.Time{}
	if d.WakeAt != nil {
		s.retryAt = d.WakeAt.Time
	}
	switch {
	case d.Awaited != nil:
		ev := evAwait
		if s == &n.forward && s.state == done {
			if err := m.reopen(n); err != nil {
				return err
			}
			ev = evAskAgain
		}
		n.awaited, n.stale = d.Awaited, nil
		if d.Request != nil { // of an agent's call: it is sent once it is approved
			s.request, s.hash, s.key = d.Request, d.RequestHash, r.Key
			if d.Input != nil {
				s.actionInput = d.Input
			}
		}
		return m.move(s, ev, r)
	case d.WakeAt != nil:
		return m.move(s, evSleep, r)
	}
	if r.Attempt != s.attempts+1 {
		return fmt.Errorf("%w: attempt %d after %d", ErrImpossible, r.Attempt, s.attempts)
	}
	if d.Request == nil {
		return fmt.Errorf("%w: an intent without a request", saga.ErrUnreadable)
	}
	if sp, ok := n.step.Body.(saga.Spawner); ok && s == &n.forward {
		if child := sp.Child(*d.Request); child != n.child {
			n.child, n.childSpent, n.childTokens = child, retry.Money{}, saga.TokensView{}
			s.unknown, s.unknownTokens = retry.Money{}, 0 // it stays reserved for the child before
		}
	}
	s.attempts, s.generation, s.key = r.Attempt, r.Generation, r.Key
	s.request, s.hash, s.sentAt, s.allowed, s.retryState = d.Request, d.RequestHash, r.At, false, nil
	if d.Input != nil {
		s.actionInput = d.Input
	}
	if s.firstSent.IsZero() {
		s.firstSent = r.At
	}
	if s.roundSent.IsZero() {
		s.roundSent = counts(d.Latest, r.At)
	}
	if n.own != nil && s == &n.forward {
		n.own.begun = false
	}
	s.reserved = retry.Money{}
	if s.asksAgain(d.Request) {
		m.takeBack(s)
	}
	if d.Reserve != "" {
		reserve, err := retry.Total(d.Reserve, m.currency())
		if err != nil {
			return fmt.Errorf("%w: reserve: %w", saga.ErrUnreadable, err)
		}
		s.reserved = reserve
		m.account.Reserve(reserve)
		m.inFlight = m.inFlight.Add(reserve)
	}
	s.reservedTokens = d.ReserveTokens
	m.tokens.reserve(d.ReserveTokens)
	return m.move(s, evIntent, r)
}

func (m *Machine) applyOutcome(n *node, s *track, r journal.Record) error {
	var d saga.OutcomeData
	if err := take(m, r, &d); err != nil {
		return err
	}
	ev, ok := nextEvent[d.Next]
	if !ok {
		return fmt.Errorf("%w: next %q", saga.ErrUnreadable, d.Next)
	}
	if s.state == inFlight && r.Attempt != s.attempts {
		return fmt.Errorf("%w: outcome of attempt %d while %d is in flight", ErrImpossible, r.Attempt, s.attempts)
	}
	s.request = s.request.Hinted(d.Hint)
	s.reads = s.request.Reads()
	m.inFlight = m.inFlight.Sub(s.reserved)
	var cost retry.Money
	if d.Cost != "" {
		var err error
		if cost, err = retry.Total(d.Cost, m.currency()); err != nil {
			return fmt.Errorf("%w: cost: %w", saga.ErrUnreadable, err)
		}
		// What a child has wasted is in its own journal.
		m.account.Settle(s.reserved, cost, r.Class != journal.Succeeded && n.child.IsNil())
		if err := m.bookChild(n, &d, cost); err != nil {
			return err
		}
	} else if !s.reserved.IsZero() {
		s.unknown = s.unknown.Add(s.reserved)
	}
	if s != &n.statusCheck { // a status check calls no model
		m.useModel(m.stepOf(n, r.Way), s, &d, cost)
	}
	s.reserved = retry.Money{}
	m.tokens.settle(s, d.Tokens)
	n.neverStarted, n.stubbed = d.NeverStarted != "", d.Stubbed
	s.class, s.status, s.failure = r.Class, d.StatusCode, d.Error
	if d.RetryAt != nil {
		s.retryAt = d.RetryAt.Time
	} else {
		s.retryAt = time.Time{}
	}
	if ev == evHold && d.RetryAt == nil {
		s.retryAt = n.heldUntil(counts(d.Latest, r.At))
	}
	switch {
	case r.Class == journal.InDoubt:
		s.doubt = true
	case d.Next == saga.NextDone || d.Next == saga.NextFail:
		s.doubt = false
	}
	if s != &n.statusCheck && ev == evDone && r.Way != journal.Undo {
		m.answered(n, d.Output)
		m.consumeSignal(n)
	}
	if d.RetryState != nil && ev == evRetry { // the next request differs, so it must not have the old key
		s.retryState, s.key = d.RetryState, ""
		s.generation++
	}
	if s == &n.statusCheck && d.Found != nil {
		n.statusCheck.found = *d.Found
		if *d.Found {
			n.output = d.Output
		}
	}
	if d.Compensate != nil && n.own != nil {
		n.step = m.session.policy.OwnStep(n.path, &n.own.data, d.Compensate)
		n.step.Continue = true
		n.undoBy(d.Compensate)
	}
	if err := m.move(s, ev, r); err != nil {
		return err
	}
	if undecided(s.failure) {
		n.redo = true // nothing says yet that the step is to run
	}
	if s == &n.forward && s.state == failed {
		m.failedSteps = append(m.failedSteps, n)
	}
	if n.block != nil && s == &n.forward {
		m.abandon(n.block)
		if l := n.block.layout.Loop; l == nil || !l.History { // compensations inside the block may read them
			n.block.outputs = nil
		}
	}
	if ev == evVerify {
		n.ask(s.retryAt, r)
	}
	return nil
}

// ask begins a round of status checks. Attempt numbers continue, so that the answer to an older
// check is never mistaken for the answer to a newer one.
func (n *node) ask(from time.Time, r journal.Record) {
	n.statusCheck = track{state: backoff, retryAt: from, attempts: n.statusCheck.attempts, base: n.statusCheck.attempts, since: r.Seq, sinceAt: r.At}
}

func (m *Machine) applyDecided(n *node, s *track, r journal.Record) error {
	var d saga.DecidedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if d.Branch != nil || d.Enter {
		if err := m.move(s, evEnter, r); err != nil {
			return err
		}
		return m.begin(n, saga.Entered{Branch: d.Branch, Items: d.Items})
	}
	ev, ok := nextEvent[d.Next]
	if !ok {
		return fmt.Errorf("%w: next %q", saga.ErrUnreadable, d.Next)
	}
	switch d.Next {
	case saga.NextDone:
		s.doubt, n.output, s.class = false, d.Output, journal.Succeeded
		m.settleCost(s, true)
	case saga.NextFail, saga.NextBlock, saga.NextRetry, saga.NextHold:
		// Only a conclusive status check settles the doubt: it said that nothing happened.
		if d.By == string(saga.VerifyIt) && n.statusCheck.state == done {
			s.doubt = false
			m.settleCost(s, false)
		}
	case saga.NextVerify:
		n.ask(r.At, r)
	}
	if d.Next == saga.NextHold {
		s.retryAt = n.heldUntil(counts(d.Latest, r.At))
	} else if s.retryAt.Before(r.At) { // otherwise it was abandoned during a wait, which still counts
		s.retryAt = r.At
	}
	return m.move(s, ev, r)
}

// advance moves the groups to their next steps when a step has ended.
func (m *Machine) advance(n *node, s *track, r journal.Record) {
	if !s.state.ended() || s == &n.statusCheck {
		return
	}
	if s == &n.compensation {
		s.request = nil
		if m.undoing {
			m.undone++
		} else {
			m.session.undone(n)
		}
		return
	}
	g := n.in
	if s.state != doubted { // a step that ended in doubt may have to be sent again
		n.forward.request, n.statusCheck.request = nil, nil
	}
	if n.step.Pivot && s.state == done && !n.stubbed {
		m.pivoted = true
	}
	if n.passed {
		m.rereadOver(n, r)
		return
	}
	n.passed = true
	switch {
	case s.state != done && s.state != skipped && !n.step.Continue && !g.final:
		g.broken = n
		m.leaveWaiting(g)
	case g.resumeWaiting():
		return
	default:
		g.next++
	}
	m.enter(g)
	if g.over() {
		m.groupOver(g)
	}
}

// failure returns a failed step's reason.
func (m *Machine) failure(n *node) *saga.Reason {
	deepest := n.deepest()
	r := &saga.Reason{Code: "step_failed", Step: deepest.path, Title: "step " + deepest.path + " failed"}
	if f := deepest.forward.failure; f != nil {
		r.Title, r.Detail, r.Error = f.Title, f.Detail, f.Code
		if f.Code == codeBudget || f.Code == codeRejected {
			r.Code = f.Code
		}
	}
	if deepest.forward.state == doubted && r.Code != codeBudget {
		r.Title = "step " + deepest.path + " ended in doubt: " + r.Title
	}
	return r
}

func (m *Machine) applyWoke(r journal.Record) error {
	if r.Path == "" {
		var d saga.WokeData
		if err := take(m, r, &d); err != nil {
			return err
		}
		if !m.session.applyTimer(m, d, r.At) {
			m.abortBy(&saga.Reason{Code: "timeout", Title: "the saga's timeout of " + saga.Duration(m.def.Timeout) + " has passed", Step: m.currentPath()})
		}
		return nil
	}
	n, s, err := m.trackOf(r.Path, r.Way)
	switch {
	case err != nil:
		return err
	case s == &n.forward && s.state == done && n.step.FreshFor > 0 && n.in == m.forward:
		return m.readAgain(n, r)
	}
	if s.state == exhausted {
		s.again(false)
	}
	return m.move(s, evWoke, r)
}

func (m *Machine) applyCompensating(r journal.Record) error {
	var d saga.CompensatingData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if m.undoing {
		return fmt.Errorf("%w: undoing has begun before", ErrImpossible)
	}
	m.undoing, m.reason, m.residual = true, &d.Reason, d.Residual
	m.forward.rereads = nil
	m.origin.compensating(d)
	if m.session != nil {
		m.session.undos = nil // the plan has those that have not ended
		for _, g := range m.session.active {
			if g.cur.forward.state == resembling {
				m.giveUp(g.cur)
			}
		}
	}
	for _, path := range d.Plan {
		n := m.steps[path]
		if n == nil || n.step.Compensate == nil {
			return fmt.Errorf("%w: %q cannot be undone", ErrImpossible, path)
		}
		m.plan = append(m.plan, n)
	}
	for _, n := range m.touched {
		m.giveUp(n)
	}
	return nil
}

func (m *Machine) applyFinished(r journal.Record) error {
	var d saga.FinishedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if !d.Status.Terminal() {
		return fmt.Errorf("%w: status %q is not terminal", saga.ErrUnreadable, d.Status)
	}
	m.finished, m.residual, m.reason = &d, d.Residual, d.Reason
	return nil
}
