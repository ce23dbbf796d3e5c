package machine

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"recourse/compensation"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// Decision is a next action: a [Dispatch], a [Write], a [WakeAt] or an [Escalate].
type Decision interface{ decision() }

// Send is a request that is ready to be sent.
type Send struct {
	Path       string
	Way        journal.Way
	Attempt    int
	Generation int
	Key        string
	Kind       string
	Request    saga.Request
	Timeout    time.Duration
	Until      time.Time   // it must not be sent after this time; zero: no limit
	Trace      *saga.Trace // the parent of its span; nil: none
	Lives      bool        // the attempt does not end with this process: the next owner sends it again

	step *saga.Step // what is called: the step, its compensation or its status check
}

// Dispatch means: append Intent and, once it is committed, send Send, once. If Task is set, nothing
// is sent: the task is appended with the intent, for a worker.
type Dispatch struct {
	Intent Draft
	Send   Send
	Task   *journal.Task
	Early  bool // it may be sent before its intent is committed, unless Machine.Waits forbids it
}

// Write means: append this record together with these events. Nothing is sent.
type Write struct {
	Record Draft
	Events []journal.Event
}

// WakeAt means: append Woke at this time of the store's clock, never before.
type WakeAt struct {
	At   time.Time
	Woke Draft
}

// Escalate means: a person has to act. Entry is the inbox entry.
type Escalate struct{ Entry saga.Entry }

func (Dispatch) decision() {}
func (Write) decision()    {}
func (WakeAt) decision()   {}
func (Escalate) decision() {}

// Codes of failures that the machine itself produces.
const (
	codeBudget     = "budget_exhausted"
	codeDeadline   = "deadline"
	codeExpression = "expression_error"
	codeExpect     = "expectation_failed"
	codeRefused    = "refused"
	codeSchema     = "schema_mismatch"
	codeStatus     = "unexpected_status"
)

// Decide returns what to do next, in a fixed order. It does not change the machine. The same
// records give the same decisions, whether they were applied one by one or all at once; only waits
// that begin now depend on Clock, too. If several records could be appended now, by parallel
// branches, Decide returns only the first one, as the last decision except for the saga's timeout;
// the others are decided after it is applied. Records in decisions are drafts: see Append.
func (m *Machine) Decide() []Decision {
	if m.paused {
		return nil
	}
	return m.decide()
}

func (m *Machine) decide() []Decision {
	m.short = false
	if m.seq == 0 || m.finished != nil {
		return nil
	}
	switch {
	case m.undoing:
		return m.decideUndo()
	case m.reason != nil:
		return m.decideFailing()
	case m.forward.over() && m.started.Parent != nil && !m.released:
		return m.decideAwaitParent()
	case m.forward.over():
		return m.decideEnd(saga.Succeeded)
	}
	ds := m.decideForward()
	if m.def.Timeout > 0 && !m.pivoted && !m.pivotInFlight() {
		if m.timeout == nil {
			m.timeout = wake("", "", "timeout", m.begun.Add(m.def.Timeout))
		}
		ds = append(ds, m.timeout...)
	}
	return ds
}

// decideForward decides the steps that are read again, and the step of the top level.
func (m *Machine) decideForward() []Decision {
	var ds []Decision
	for _, n := range m.forward.rereads {
		if n.forward.state.ended() {
			continue
		}
		if ds = append(ds, m.decideStep(n)...); decides(ds) {
			return ds
		}
	}
	return append(ds, m.decideGroup(m.forward)...)
}

// pivotInFlight reports whether the pivot may be taking effect: its intent is appended and it has
// not ended.
func (m *Machine) pivotInFlight() bool {
	p := m.pivot
	return p != nil && !p.forward.state.ended() && (p.forward.doubt || p.forward.state == inFlight)
}

// decideStep decides a step's forward track.
func (m *Machine) decideStep(n *node) []Decision {
	if n.own != nil {
		return m.decideOwn(n)
	}
	switch n.forward.state {
	case ready:
		return m.decideReady(n)
	case backoff:
		return n.forward.wake(n.path, journal.Do, "backoff")
	case sleeping:
		return n.forward.wake(n.path, journal.Do, "sleep")
	case woken:
		return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: json.RawMessage("null")})
	case entered:
		return m.decideBlock(n)
	case awaiting:
		return m.decideAwaiting(n)
	case resembling:
		return m.escalateRepeat(n)
	case expired:
		return m.decideExpired(n)
	case checking:
		return m.decideQuery(n)
	case awaitingResolution, awaitingCredentials, blocked:
		return m.escalate(n, &n.forward, journal.Do)
	case exhausted:
		return m.decideHeld(n)
	}
	return nil
}

func (m *Machine) decideReady(n *node) []Decision {
	env := m.env(n)
	if (n.first == 0 || n.redo) && n.step.When != nil {
		yes, err := n.step.When.Bool(env)
		if m.outline != nil && errors.Is(err, expr.ErrUnknown) {
			m.outline.when[n.path] = strings.TrimSpace(n.step.When.Source())
			yes, err = true, nil
		}
		if err != nil {
			return m.refuse(n, expressionFailure(whenKey, err))
		}
		if !yes {
			return []Decision{Write{Record: Draft{Kind: journal.Skipped, Path: n.path, Way: journal.Do}}}
		}
	}
	if ds := m.instead(n); ds != nil {
		return ds
	}
	switch body := n.step.Body.(type) {
	case saga.Value:
		out, err := body.Eval(env)
		if err != nil {
			return m.refuse(n, asFailure(n.step.Kind, err))
		}
		return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: out})
	case saga.Wait:
		due, err := body.Due(env, m.from())
		if err != nil {
			return m.refuse(n, asFailure(n.step.Kind, err))
		}
		due = due.UTC().Truncate(time.Millisecond)
		return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: n.path, Way: journal.Do, Data: saga.IntentData{WakeAt: &saga.Time{Time: due}, Latest: m.recorded(true)}}}}
	case saga.Block:
		e, err := body.Enter(env)
		if err != nil {
			return m.refuse(n, asFailure(n.step.Kind, err))
		}
		if m.outline != nil && e.Vague != "" {
			m.outline.vague[n.path] = e.Vague
		}
		return m.decided(n, journal.Do, saga.DecidedData{Branch: e.Branch, Enter: e.Branch == nil, Items: e.Items})
	case saga.Await:
		return m.decideAwait(n, body, env)
	case saga.Announce:
		if n.approval {
			return m.decideApproval(n)
		}
		return m.announce(n, body, env)
	case saga.Call:
		if n.approval {
			return m.decideApproval(n)
		}
		return m.decideCall(n, &n.forward, journal.Do)
	}
	return m.refuse(n, &saga.Failure{Code: "unknown_kind", Title: "this program cannot run a step of kind " + n.step.Kind})
}

// lastOutput returns the output of a group's last step, null for an empty group.
func (m *Machine) lastOutput(g *group) json.RawMessage {
	if g.session != nil && g.session.output != nil {
		return g.session.output
	}
	if len(g.steps) > 0 {
		if n := m.steps[g.prefix+g.steps[len(g.steps)-1].ID]; n != nil && n.output != nil {
			return n.output
		}
	}
	return json.RawMessage("null")
}

// decideCall decides the next attempt of a call, if its request can be rendered and paid for.
func (m *Machine) decideCall(n *node, s *track, way journal.Way) []Decision {
	step := m.stepOf(n, way)
	if s.doubt && !s.allowed && idempotency.Expired(s.firstSent, m.at, step.KeyWindow) {
		return m.windowOver(n, way)
	}
	before, wait := m.freshen(n)
	if wait {
		return before
	}
	if m.short && way == journal.Do && mayCost(step) {
		return nil // an earlier attempt waits for money
	}
	request, hash, key, generation := s.request, s.hash, s.key, s.generation
	var given json.RawMessage
	if request == nil || s.retryState != nil {
		var err error
		if request, key, given, err = m.render(n, generation, way); err != nil {
			return m.refuseWay(n, way, asFailure("request", err))
		}
		hash = request.Hash()
		if way == journal.Do {
			if ds := m.askAgain(n, request, key); ds != nil {
				return ds
			}
		}
	}
	d := saga.IntentData{RequestHash: hash}
	if step.Use != nil && s.actionInput == nil {
		d.Input = given
	}
	if request, wait = m.endow(step, s, request); wait {
		m.short = true
		return nil
	}
	d.Request = request
	reserve := reserveOf(step, *request).Add(m.childReserve(request))
	if s.asksAgain(request) {
		reserve = saga.Usage{Cost: s.unknown, Output: s.unknownTokens}
	} else if way == journal.Do && !m.fits(reserve) {
		return m.overBudget(n, s, reserve)
	}
	if !reserve.Cost.IsZero() {
		d.Reserve = reserve.Cost.Decimal()
	}
	d.ReserveTokens = reserve.Input + reserve.Output
	timeout := step.Timeout
	if step.Deadline > 0 {
		left := step.Deadline
		if !s.roundSent.IsZero() {
			left -= m.at.Sub(s.roundSent)
		}
		d.Latest = m.recorded(s.roundSent.IsZero())
		if left <= 0 {
			return m.refuseWay(n, way, &saga.Failure{Code: codeDeadline, Title: "the deadline of step " + n.path + " has passed"})
		}
		timeout = min(timeout, left)
	}
	r := Draft{Kind: journal.Intent, Path: n.path, Way: way, Attempt: s.attempts + 1, Generation: s.generation, Key: key, Data: d}
	_, lives := step.Body.(saga.Spawner)
	send := Send{Path: r.Path, Way: way, Attempt: r.Attempt, Generation: r.Generation, Key: key, Kind: step.Kind, Request: *request, Timeout: timeout, Until: s.until(step), Trace: &m.trace, Lives: lives, step: step}
	return append(before, Dispatch{Intent: r, Send: send, Task: m.task(step, send), Early: m.early(n, way, reserve)})
}

// until returns the time after which a resend is no longer safe. It is zero if no earlier attempt
// can have taken effect.
func (s *track) until(step *saga.Step) time.Time {
	if !s.doubt || s.allowed {
		return time.Time{}
	}
	return s.firstSent.Add(step.KeyWindow)
}

// stepOf returns the step, or its compensation if way is undo.
func (m *Machine) stepOf(n *node, way journal.Way) *saga.Step {
	if way == journal.Undo {
		return &n.step.Compensate.Step
	}
	return n.step
}

// forwardKey returns the key of the step's own requests.
func (n *node) forwardKey(m *Machine) string {
	if n.forward.key != "" {
		return n.forward.key
	}
	return idempotency.Key(m.effectsOf(n), n.path, journal.Do, n.forward.generation)
}

// compensable returns the output that the step's compensation sees.
func (n *node) compensable() json.RawMessage {
	if n.override != nil {
		return n.override
	}
	return n.output
}

// windowOver ends resending, because the remote service may have forgotten the idempotency key.
func (m *Machine) windowOver(n *node, way journal.Way) []Decision {
	then := saga.NextAwaitResolution
	if way == journal.Undo {
		then = saga.NextBlock
	} else if n.step.InDoubt.Policy == saga.VerifyIt {
		then = saga.NextVerify
	}
	return m.decided(n, way, saga.DecidedData{By: "key_window", Next: then,
		Detail: "the remote service may have forgotten the idempotency key, so a resend is not safe"})
}

// raises returns the paths of the steps that wait for a higher budget.
func (m *Machine) raises() map[string]bool {
	if m.raise.seq == m.seq && m.raise.paths != nil {
		return m.raise.paths
	}
	paths := make(map[string]bool)
	for _, d := range m.decide() {
		if h, hold := d.(Escalate); hold && h.Entry.Kind == saga.InboxBudget {
			paths[h.Entry.Path] = true
		}
	}
	m.raise.seq, m.raise.paths = m.seq, paths
	return paths
}

// WaitsForRaise reports whether a step waits until a person raises the budget.
func (m *Machine) WaitsForRaise(path string) bool { return m.asksForRaise() && m.raises()[path] }

func (m *Machine) asksForRaise() bool { return m.def.Budget != nil && m.def.Budget.Ask }

// overBudget decides an attempt that does not fit into the budget. While others are in flight, and
// it would fit if they cost nothing, it waits for their actual costs.
func (m *Machine) overBudget(n *node, s *track, reserve saga.Usage) []Decision {
	m.short = true
	if m.mayFit(reserve) {
		return nil
	}
	f := &saga.Failure{Code: codeBudget, Title: "the budget does not cover step " + n.path, Detail: m.why(reserve)}
	if m.asksForRaise() && m.mayRaise(reserve) && !(n.model && !m.storesPrompts()) {
		// The steps of a session do not follow each other: what costs less need not wait, too.
		m.short = m.session == nil
		return m.escalateBudget(n, f)
	}
	if s.doubt {
		return m.outcome(n, journal.Do, journal.InDoubt, saga.OutcomeData{Error: f, Next: m.endInDoubt(n)})
	}
	return m.refuse(n, f)
}

// decideQuery decides the status check of a step in doubt.
func (m *Machine) decideQuery(n *node) []Decision {
	q, v := &n.statusCheck, n.step.InDoubt.Verify
	path := saga.QueryPath(n.path)
	switch q.state {
	case backoff:
		return q.wake(path, journal.Do, "verify")
	case ready:
		env := m.env(n)
		env.key = n.forward.key
		given, err := m.actionInput(n, q, v.Call, env)
		env.actionInput = given
		var r saga.Request
		if err == nil {
			r, err = v.Call.Body.(saga.Call).Request(env)
		}
		if err != nil {
			f := asFailure("verify", err)
			return []Decision{Write{Record: Draft{Kind: journal.Outcome, Path: path, Way: journal.Do, Class: journal.Refused,
				Data: saga.OutcomeData{Error: f, Next: saga.NextInconclusive}}}}
		}
		d := saga.IntentData{Request: &r, RequestHash: r.Hash()}
		if v.Call.Use != nil && q.actionInput == nil {
			d.Input = given
		}
		rec := Draft{Kind: journal.Intent, Path: path, Way: journal.Do, Attempt: q.attempts + 1,
			Data: d}
		return []Decision{Dispatch{Intent: rec, Send: Send{Path: path, Way: journal.Do, Attempt: rec.Attempt, Kind: v.Call.Kind, Request: r, Timeout: v.Call.Timeout, Trace: &m.trace, step: v.Call}}}
	case awaitingCredentials:
		return m.escalate(n, q, journal.Do)
	case done:
		if q.found {
			return m.decided(n, journal.Do, saga.DecidedData{By: string(saga.VerifyIt), Next: saga.NextDone, Output: n.output})
		}
		return m.decided(n, journal.Do, saga.DecidedData{By: string(saga.VerifyIt), Next: m.afterAbsent(n), Detail: "the remote service says that it has not happened"})
	case failed:
		return m.decided(n, journal.Do, saga.DecidedData{By: string(saga.VerifyIt), Next: m.otherwise(n), Detail: "the status check was inconclusive"})
	}
	return nil
}

// afterAbsent returns what follows when the status check says that nothing happened: the same as
// for an attempt that failed without effect.
func (m *Machine) afterAbsent(n *node) saga.Next {
	switch {
	case m.ending(n):
		return saga.NextFail // the saga, or a block in it, is failing, so the request is not sent again
	case n.step.Retry.Left(n.forward.round()):
		return saga.NextRetry
	}
	return m.endFailed(n)
}

func (m *Machine) otherwise(n *node) saga.Next {
	switch n.step.InDoubt.Otherwise {
	case saga.RetrySame:
		if n.step.Retry.Left(n.forward.round()) && !idempotency.Expired(n.forward.firstSent, m.at, n.step.KeyWindow) {
			return saga.NextRetry
		}
		return m.endInDoubt(n)
	case saga.Fail:
		return m.endInDoubt(n)
	}
	return saga.NextAwaitResolution
}

// endFailed returns how a step ends that certainly had no effect. After the pivot nothing is
// undone, so the step waits for a person instead.
func (m *Machine) endFailed(n *node) saga.Next {
	if m.holds(n) {
		return saga.NextHold
	}
	return m.endRefused(n)
}

// endRefused is endFailed for a step that nothing makes succeed later.
func (m *Machine) endRefused(n *node) saga.Next {
	if m.pivoted && m.reason == nil && !n.goesOn() {
		return saga.NextBlock
	}
	return saga.NextFail
}

// contained reports whether a block around the step continues although the step fails.
func (n *node) contained() bool {
	for g := n.in; g.owner != nil; g = g.owner.in {
		if l := g.owner.block.layout.Loop; g.owner.step.Continue || l != nil && l.Collect {
			return true
		}
	}
	return false
}

// endInDoubt returns how a step ends whose doubt is not settled. It waits for a person if
// continuing would leave an effect that cannot be undone correctly.
func (m *Machine) endInDoubt(n *node) saga.Next {
	switch {
	case m.holds(n) && n.resends():
		return saga.NextHold
	case m.holds(n):
		return saga.NextAwaitResolution
	case n.step.Pivot:
		return saga.NextAwaitResolution
	case n.needsSettling() && m.reason != nil:
		return saga.NextAwaitResolution
	case n.needsSettling() && !n.goesOn() && !n.settlesBySending():
		return saga.NextAwaitResolution
	case m.pivoted && m.reason == nil && !n.goesOn():
		return saga.NextAwaitResolution
	}
	return saga.NextInDoubt
}

// settlesBySending reports whether the step, whose policy ended it in doubt without a resend, is
// sent again when it has to be undone. Its idempotency key makes that safe.
func (n *node) settlesBySending() bool {
	return n.step.InDoubt.Policy == saga.Fail && n.step.Idempotency.In != idempotency.None && n.forward.request.Resendable()
}

// needsSettling reports whether the compensation of the step cannot be rendered while the step is
// in doubt, because it reads the step's output.
func (n *node) needsSettling() bool {
	c := n.step.Compensate
	return c != nil && c.NeedsOutput && c.Applies(journal.InDoubt)
}

// refuse ends a step whose next attempt cannot be made.
func (m *Machine) refuse(n *node, f *saga.Failure) []Decision {
	if n.forward.doubt {
		return m.outcome(n, journal.Do, journal.InDoubt, saga.OutcomeData{Error: f, Next: m.endInDoubt(n)})
	}
	then := m.endRefused(n)
	if f.Code == codeBudget || f.Code == codeDeadline {
		then = m.endFailed(n)
	}
	return m.outcome(n, journal.Do, journal.Refused, saga.OutcomeData{Error: f, Next: then})
}

func (m *Machine) refuseWay(n *node, way journal.Way, f *saga.Failure) []Decision {
	if way == journal.Do {
		return m.refuse(n, f)
	}
	return m.outcome(n, way, journal.Refused, saga.OutcomeData{Error: f, Next: saga.NextBlock})
}

func (m *Machine) outcome(n *node, way journal.Way, class journal.Class, d saga.OutcomeData) []Decision {
	d.Latest = m.recorded(d.Next == saga.NextHold && n.step.HoldFor > 0)
	return []Decision{Write{Record: Draft{Kind: journal.Outcome, Path: n.path, Way: way, Class: class, Data: d}}}
}

func (m *Machine) decided(n *node, way journal.Way, d saga.DecidedData) []Decision {
	d.Latest = m.recorded(d.Next == saga.NextHold && n.step.HoldFor > 0)
	return []Decision{Write{Record: Draft{Kind: journal.Decided, Path: n.path, Way: way, Data: d}}}
}

func wake(path string, way journal.Way, timer string, due time.Time) []Decision {
	return []Decision{WakeAt{At: due, Woke: woke(path, way, timer, due)}}
}

func woke(path string, way journal.Way, timer string, due time.Time) Draft {
	return Draft{Kind: journal.Woke, Path: path, Way: way, Data: saga.WokeData{Timer: timer, Due: saga.Time{Time: due}}}
}

// decideFailing brings a failing saga to the point where undoing can begin: nothing is in flight,
// and nothing is in doubt whose compensation needs an output.
func (m *Machine) decideFailing() []Decision {
	if n := m.unsettled(); n != nil {
		if n.forward.state == doubted {
			return m.decided(n, journal.Do, saga.DecidedData{By: "undo", Next: m.resume(n), Detail: "its compensation needs its output"})
		}
		return m.decideStep(n)
	}
	if ds, pending := m.settleInFlight([]*group{m.forward}, false); pending || m.session.undoInFlight() {
		return ds // wait for the answers first
	}
	d := saga.CompensatingData{Reason: *m.reason, Plan: []string{}}
	plan, left := compensation.Plan(m.effects())
	d.Plan, d.Residual = append(d.Plan, plan...), left
	return []Decision{Write{Record: Draft{Kind: journal.Compensating, Data: d}}}
}

// resume returns how a step that ended in doubt is settled before it is undone. A step that was
// abandoned, because a block around it failed, follows its own policy.
func (m *Machine) resume(n *node) saga.Next {
	again := n.settlesBySending() || n.abandoned && n.step.InDoubt.Policy == saga.RetrySame && n.step.InDoubt.Resends(n.forward.request)
	switch {
	case again && n.step.Retry.Left(n.forward.round()) && !idempotency.Expired(n.forward.firstSent, m.at, n.step.KeyWindow):
		return saga.NextRetry
	case n.abandoned && n.step.InDoubt.Policy == saga.VerifyIt:
		return saga.NextVerify
	}
	return saga.NextAwaitResolution
}

// unsettled returns the latest step in doubt whose compensation needs the doubt settled. It returns
// nil if there is none, or if nothing is undone.
func (m *Machine) unsettled() *node {
	if m.nothingUndone() != "" {
		return nil
	}
	for _, n := range slices.Backward(m.touched) {
		if n.forward.doubt && n.forward.state != done && n.forward.state != skipped && n.needsSettling() {
			return n
		}
	}
	return nil
}

// nothingUndone returns why a failing saga undoes nothing, "" if it does.
func (m *Machine) nothingUndone() string {
	switch {
	case m.stop:
		return "the saga was stopped without undoing"
	case m.forced:
		return ""
	case m.pivoted:
		return "the pivot was passed"
	case m.def.Stop:
		return "the definition says on_failure: stop"
	}
	return ""
}

// effects lists the steps that had or may have had an effect, in the order of their first records.
func (m *Machine) effects() []compensation.Effect {
	var list []compensation.Effect
	kept := m.nothingUndone()
	for _, n := range m.touched {
		class, ok := n.effect()
		if !ok || n.in.final || n.own == nil && !m.forked.sent(n.step) {
			continue
		}
		e := compensation.Effect{Path: n.path, First: n.first, Class: class, None: n.step.NoCompensation, Kept: kept}
		if n.own != nil && n.own.data.Effect == saga.Irreversible && kept == "" {
			e.Kept = "it is irreversible"
		}
		if n.compensation.state == skipped {
			e.Kept = "its undoing was skipped"
		}
		e.UndoInDoubt = e.Kept != "" && n.compensation.doubt
		if c := n.step.Compensate; c != nil && e.Kept == "" {
			e.Declared = c.Applies(class)
			e.Limited = !e.Declared
			switch c.Order {
			case saga.First:
				e.Lift = compensation.First
			case saga.Last:
				e.Lift = compensation.Last
			}
		}
		list = append(list, e)
	}
	return list
}

// effect reports whether the step had, or may have had, an effect that remains.
func (n *node) effect() (journal.Class, bool) {
	call, ok := n.step.Body.(saga.Call)
	switch {
	case n.compensation.state == done: // an operator resolved it as undone
		return "", false
	case n.stays(), n.stubbed:
		return "", false
	case n.own != nil && n.own.data.Effect == saga.NoEffect:
		return "", false
	case n.forward.doubt && n.forward.state != done:
		return journal.InDoubt, true
	case n.forward.state != done:
		return "", false
	case ok && !call.ReadOnly() && !n.forward.reads, n.own != nil:
		return journal.Succeeded, true
	}
	return journal.Succeeded, n.step.Compensate != nil
}

func (m *Machine) decideUndo() []Decision {
	if m.undone == len(m.plan) {
		return m.decideEnd(m.endStatus())
	}
	return m.decideCompensation(m.plan[m.undone])
}

// decideCompensation decides the compensation of a step that is being undone.
func (m *Machine) decideCompensation(n *node) []Decision {
	switch n.compensation.state {
	case ready:
		if n.byHand() {
			return m.decided(n, journal.Undo, saga.DecidedData{By: saga.OwnKind, Next: saga.NextBlock, Detail: "the agent has not said how to undo it"})
		}
		if c := n.step.Compensate; c.When != nil && n.compensation.attempts == 0 {
			env := m.env(n)
			env.output, env.hasOutput, env.err = n.compensable(), true, m.reason
			// If it fails, `when` reports the missing value.
			env.actionInput, _ = m.actionInput(n, &n.compensation, &c.Step, env)
			yes, err := c.When.Bool(env)
			if err != nil {
				return m.refuseWay(n, journal.Undo, expressionFailure("compensate.when", err))
			}
			if !yes {
				return []Decision{Write{Record: Draft{Kind: journal.Skipped, Path: n.path, Way: journal.Undo}}}
			}
		}
		return m.decideCall(n, &n.compensation, journal.Undo)
	case backoff:
		return n.compensation.wake(n.path, journal.Undo, "backoff")
	case awaitingResolution, awaitingCredentials, blocked:
		return m.escalate(n, &n.compensation, journal.Undo)
	}
	return nil
}

// endStatus is the final status of a saga that did not reach its goal.
func (m *Machine) endStatus() saga.Status {
	if m.origin != nil {
		return m.origin.endStatus(m.residual)
	}
	if len(m.residual) > 0 {
		return saga.Failed
	}
	return saga.Compensated
}

// decideEnd runs `finally`, then finishes the saga.
func (m *Machine) decideEnd(status saga.Status) []Decision {
	if !m.finally.over() {
		return m.decideGroup(m.finally)
	}
	d := saga.FinishedData{Status: status}
	switch {
	case status == saga.Succeeded && m.origin != nil:
		d.Residual = m.residual
	case status == saga.Succeeded:
		d.Output, d.OutputError = m.result()
	default:
		d.Reason, d.Residual = m.reason, m.residual
	}
	d.Doubts = m.doubts(status)
	return []Decision{Write{Record: Draft{Kind: journal.Finished, Data: d}}}
}

// doubts lists the steps in doubt that are reported nowhere else: every one if the saga succeeds,
// otherwise those of `finally`. Other steps in doubt are undone or listed in `residual`.
func (m *Machine) doubts(status saga.Status) []compensation.Residue {
	if m.origin != nil {
		return nil // it undoes them, or residual has them
	}
	var list []compensation.Residue
	for _, n := range m.touched {
		if class, _ := n.effect(); class != journal.InDoubt || status != saga.Succeeded && !n.in.final {
			continue
		}
		list = append(list, compensation.Residue{Path: n.path, Why: m.whyDoubted(n)})
	}
	return list
}

func (m *Machine) whyDoubted(n *node) string {
	why := "it may have happened, and the saga went on without it"
	if f := n.forward.failure; f != nil {
		why += ": " + f.Title
	}
	if !n.child.IsNil() && !n.step.NoCompensation {
		why += "; if saga " + n.child.String() + " was started, it undoes itself"
	}
	return why
}

// result returns the saga's output. Every step has succeeded by now. An output that cannot be
// evaluated does not change that: the saga succeeds, and the failure is reported alongside.
func (m *Machine) result() (json.RawMessage, *saga.Failure) {
	if m.def.Output == nil {
		return m.lastOutput(m.forward), nil
	}
	out, err := m.def.Output.JSON(m.env(nil))
	if err != nil {
		return nil, expressionFailure("output", err)
	}
	return out, nil
}

func expressionFailure(where string, err error) *saga.Failure {
	return &saga.Failure{Code: codeExpression, Title: notEvaluated(where), Detail: err.Error()}
}

func notEvaluated(where string) string { return "`" + where + "` could not be evaluated" }

const whenKey = "when"

// undecided reports whether a step has failed because its `when` could not be evaluated, so that a
// retry has to evaluate it again.
func undecided(f *saga.Failure) bool {
	return f != nil && f.Code == codeExpression && f.Title == notEvaluated(whenKey)
}

func asFailure(where string, err error) *saga.Failure {
	if f, ok := errors.AsType[*saga.Failure](err); ok {
		return f
	}
	if errors.Is(err, expr.ErrUnknown) {
		return &saga.Failure{Code: codeUnknown, Title: "it is known only when the saga runs"}
	}
	if _, ok := errors.AsType[*expr.EvalError](err); ok {
		return expressionFailure(where, err)
	}
	return &saga.Failure{Code: "cannot_render", Title: "`" + where + "` could not be made", Detail: err.Error()}
}

// Trace returns the saga's trace, once the saga has started.
func (m *Machine) Trace() *saga.Trace { return &m.trace }

// Traceparent returns the header that is sent with the request, with the attempt's span; "" if the
// saga's trace is not known.
func (s *Send) Traceparent() string {
	if s.Trace == nil {
		return ""
	}
	return s.Trace.At(s.Trace.Attempt(s.Path, s.Way, s.Generation, s.Attempt))
}
