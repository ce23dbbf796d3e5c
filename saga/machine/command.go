package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Validate turns a command into the draft of the record that carries it out, or returns a *Refusal.
// The draft of a command that changes nothing has no Kind: of a session's call that was made
// before, and of a process that attaches twice. message is the id of the command's message.
// Validate does not change the machine.
func (m *Machine) Validate(message uuid.UUID, c saga.Command) (Draft, error) {
	if m.finished != nil {
		return Draft{}, refusal("terminal", "the saga has ended as "+string(m.finished.Status), "a saga that has ended never changes; start a new one with `retry`")
	}
	if c.IfSeq != 0 && c.IfSeq != m.seq && !m.unchanged(c.Path, c.IfSeq) {
		return Draft{}, &Refusal{Stale: true, Failure: saga.Failure{Code: "changed", Title: "the saga has changed since it was read",
			Detail: fmt.Sprintf("its seq is %d, not %d: read it again, then decide", m.seq, c.IfSeq)}}
	}
	kind := journal.Operator
	var err *Refusal
	switch o := c.Do.(type) {
	case saga.Cancel:
		kind = journal.Cancelled
		if err = m.validateLife(o.Life); err == nil {
			err = m.validateCancel(o)
		}
	case saga.Pause:
		kind = journal.Paused
		if m.paused {
			err = refusal("paused", "the saga is already paused", "")
		}
	case saga.Resume:
		kind = journal.Resumed
		if !m.paused && (m.session == nil || !m.session.lost) && len(m.held()) == 0 {
			err = refusal("not_paused", "the saga is not paused", "")
		}
	case saga.Compensate:
		err = m.validateTurn()
	case saga.Attach:
		d, no := m.Attach(message, o)
		return d, asError(no)
	case saga.CallAction:
		_, d, no := m.Call(message, o)
		return orNothing(d), asError(no)
	case saga.AskModel:
		_, d, no := m.AskModel(message, o)
		return orNothing(d), asError(no)
	case saga.BeginStep:
		d, no := m.Begin(message, o)
		return orNothing(d), asError(no)
	case saga.FinishStep:
		d, no := m.Finish(o)
		return d, asError(no)
	case saga.CommitSession:
		d, no := m.Commit(message, o)
		return d, asError(no)
	case saga.UndoCall:
		if err = m.validateLife(o.Life); err == nil {
			err = m.validateUndoCall(c.Path)
		}
	case saga.Retry:
		c.Path, err = m.validateRetry(c.Path, o)
	case saga.Resolve:
		err = m.validateResolve(c.Path, o)
	case saga.Patch:
		err = m.validatePatch(o)
	case saga.Reserve:
		c.Do, err = m.reserve(o)
	case saga.Settle:
		err = m.validateSettle(o)
	case saga.Release:
		err = m.validateParent(m.reason != nil)
	case saga.Revert:
		err = m.validateParent(false)
	case saga.Approve:
		if err = m.validateDecision(c, o.Shown, true); err == nil {
			o.Data, err = m.decisionData(c.Path, o)
			c.Do = o
		}
	case saga.Reject:
		err = m.validateDecision(c, o.Shown, false)
	case saga.Signal:
		if err = m.validateSignal(o); err == nil {
			return Draft{Kind: journal.Signalled, Data: saga.SignalData{Message: message.String(), Name: o.Name, Payload: o.Data, Actor: c.Actor}}, nil
		}
	default:
		err = refusal("unknown_command", "there is no command "+c.Do.Verb(), "")
	}
	if err != nil {
		return Draft{}, err
	}
	return m.commandDraft(kind, message, c, nil), nil
}

// asError returns nil for no refusal.
func asError(r *Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

// Reject returns the draft of the record of a command that is refused.
func (m *Machine) Reject(message uuid.UUID, c saga.Command, why *Refusal) Draft {
	return m.commandDraft(journal.Operator, message, c, &why.Failure)
}

func (m *Machine) commandDraft(kind journal.Kind, message uuid.UUID, c saga.Command, rejected *saga.Failure) Draft {
	data := c.Record(message, rejected)
	data.Latest = m.recorded(kind == journal.Resumed && m.session != nil && m.session.lost)
	d := Draft{Kind: kind, Path: c.Path, Data: data}
	if c.Path != "" {
		d.Way = journal.Do
		if m.undoing {
			d.Way = journal.Undo
		}
		if n := m.steps[c.Path]; n != nil && n.in.final {
			d.Way = journal.Do
		} else if n != nil && m.undoes(n) {
			d.Way = journal.Undo
		}
	}
	return d
}

// unchanged reports whether a step has not changed since an earlier seq, and no command was applied
// since. Steps in parallel branches may have continued.
func (m *Machine) unchanged(path string, seq int64) bool {
	n := m.steps[path]
	if n == nil {
		n = m.resembling(path)
	}
	if n == nil || seq > m.seq || m.lastCommand > seq {
		return false
	}
	return n.forward.since <= seq && n.compensation.since <= seq && n.statusCheck.since <= seq
}

// validateTurn refuses a command that would make the saga turn back, if it is already doing so or
// has only `finally` left.
func (m *Machine) validateTurn() *Refusal {
	switch {
	case m.undoing || m.reason != nil:
		return refusal("compensating", "the saga is already being undone, or is ending", "")
	case m.forward.over():
		return refusal("ending", "every step has succeeded; only `finally` is left", "")
	}
	return nil
}

func (m *Machine) validateCancel(o saga.Cancel) *Refusal {
	if o.Mode != "" && o.Mode != "compensate" && o.Mode != "stop" {
		return refusal("bad_mode", "mode must be compensate or stop", "")
	}
	if err := m.validateTurn(); err != nil {
		return err
	}
	if m.pivoted || m.pivotInFlight() {
		return refusal("past_pivot", "the saga has reached its point of no return", "from here it only goes forward; `compensate` still undoes what can be undone")
	}
	return nil
}

// validateRetry returns the path of the step to retry. path may be "" if only one needs a person.
func (m *Machine) validateRetry(path string, o saga.Retry) (string, *Refusal) {
	waiting := m.people()
	switch {
	case len(waiting) == 0:
		what := cmp.Or(m.otherActionFor(path), m.otherActionFor(""))
		if what != "" {
			return path, refusal("nothing_to_retry", "no step of the saga can be retried now", what)
		}
		return path, refusal("nothing_to_retry", "no step of the saga waits for a person", "other steps are retried automatically")
	case path == "" && len(waiting) > 1:
		return path, refusal("which_step", "several steps wait for a person: name one", "`from` must be one of "+list(waiting))
	case path == "":
		path = waiting[0]
	}
	n, s := m.findInInbox(path)
	if s == nil {
		no := m.notWaiting(path)
		no.Detail = "these can be retried: " + list(waiting)
		return path, no
	}
	if n.byHand() && s == &n.compensation {
		return path, noRetry(path)
	}
	if n.block != nil {
		return path, refusal("bad_outcome", "a block cannot be retried", "resolve step "+path+" as succeeded, with its output, failed or skip")
	}
	return path, m.validateNewKey(s, o.NewKey)
}

// people lists the paths of the steps that need a person to retry or resolve them.
func (m *Machine) people() []string {
	var paths []string
	for _, e := range m.Inbox() {
		if otherAction(e) == "" {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// otherAction says what a person has to do about an entry whose step is neither retried nor
// resolved as another outcome of its request; "" if it is.
func otherAction(e saga.Entry) string {
	switch e.Kind {
	case saga.InboxApproval:
		return "step " + e.Path + " waits for an approval: approve or reject it"
	case saga.InboxBudget:
		return "step " + e.Path + " waits for a higher budget: raise the budget"
	case saga.InboxRepeat:
		return "call " + e.Path + " may repeat one of an earlier life: resolve it as same or new"
	case saga.InboxSession:
		return "the session waits for a process of its agent: resume or abort it"
	}
	return ""
}

// otherActionFor returns what a person has to do about a step instead; path "" stands for any.
func (m *Machine) otherActionFor(path string) string {
	for _, e := range m.Inbox() {
		if what := otherAction(e); what != "" && (path == "" || e.Path == path) {
			return what
		}
	}
	return ""
}

// notWaiting refuses a command about a step that it cannot settle.
func (m *Machine) notWaiting(path string) *Refusal {
	return refusal("not_waiting", cmp.Or(m.otherActionFor(path), "step "+path+" does not wait for a person"), "")
}

// findInInbox returns the step under this path that needs a person, and its track that does; nil if
// there is none.
func (m *Machine) findInInbox(path string) (*node, *track) {
	n := m.steps[path]
	if n == nil {
		return nil, nil
	}
	if s := m.inboxTrack(n); s.state.inbox() {
		return n, s
	}
	return nil, nil
}

// noRetry refuses to retry the undo of an own step that nothing but a person undoes.
func noRetry(path string) *Refusal {
	return refusal("bad_outcome", "the agent has not said how to undo step "+path, "undo it by hand and resolve it as compensated; or skip it, which leaves its effect")
}

func (m *Machine) validateNewKey(s *track, newKey bool) *Refusal {
	if newKey && s.doubt {
		return refusal("in_doubt", "the step is in doubt, so it is not safe to send it under a new key",
			"a new key is for a definite failure: resolve the step as failed first, if you know that it did not happen")
	}
	return nil
}

func (m *Machine) validateResolve(path string, o saga.Resolve) *Refusal {
	if n := m.resembling(path); n != nil {
		return m.validateRepeat(n, o)
	}
	n, s := m.findInInbox(path)
	if s == nil || !slices.Contains(m.people(), path) {
		return m.notWaiting(path)
	}
	undo := s == &n.compensation
	switch o.Outcome {
	case "retry":
		if n.byHand() && undo {
			return noRetry(path)
		}
		if n.block != nil && !undo {
			return refusal("bad_outcome", "a block cannot be retried: resolve it as succeeded, with its output, failed or skip", "")
		}
		return m.validateNewKey(s, o.NewKey || undo && o.Output != nil)
	case "skip":
		return nil
	case "succeeded", "failed":
		if undo {
			return refusal("bad_outcome", "a compensation is resolved as compensated, retry or skip", "")
		}
		return nil
	case "compensated":
		if !undo && !s.doubt {
			return refusal("bad_outcome", "only a step that may have happened can be compensated by hand", "")
		}
		return nil
	case saga.SameEffect, saga.NewEffect:
		return refusal("bad_outcome", "only a call that may repeat one of an earlier life is resolved as same or new", "this step is resolved as succeeded, failed, retry, skip or compensated")
	}
	return refusal("bad_outcome", "outcome must be succeeded, failed, retry, skip or compensated", "")
}

func (m *Machine) validatePatch(o saga.Patch) *Refusal {
	if o.Budget == nil {
		return nil
	}
	if wrong := m.overParents(o.Budget.Amount, o.Budget.Tokens); wrong != nil {
		return wrong
	}
	uncounted := m.allUncounted(o.Budget)
	if used := m.tokens.input + m.tokens.output + m.tokens.reserved + uncounted.Output; o.Budget.Tokens < 0 || o.Budget.Tokens > 0 && o.Budget.Tokens < used {
		return refusal("bad_budget", "the budget cannot be below the tokens already used and reserved", strconv.FormatInt(used, 10)+" tokens are used and reserved")
	}
	if o.Budget.Amount == "" {
		if o.Budget.Tokens > 0 {
			return nil
		}
		return refusal("bad_budget", "the budget needs an amount, or tokens", "")
	}
	if cur := m.currency(); cur != "" && cur != o.Budget.Currency {
		return refusal("bad_budget", "the saga's currency is "+cur, "")
	}
	if err := retry.CheckCurrency(o.Budget.Currency); err != nil {
		return refusal("bad_budget", "the budget's currency is invalid", err.Error())
	}
	amount, err := retry.Amount(o.Budget.Amount, o.Budget.Currency)
	if err != nil {
		return refusal("bad_budget", "the budget's amount is invalid", err.Error())
	}
	if used := m.account.Spent.Add(m.account.Reserved).Add(uncounted.Cost); amount.Cmp(used) < 0 {
		return refusal("bad_budget", "the budget cannot be below the amount already spent and reserved", used.Decimal()+" is spent and reserved")
	}
	return nil
}

// currency returns the currency of all the saga's money.
func (m *Machine) currency() string {
	if m.account.Budget != nil && m.account.Budget.Currency != "" {
		return m.account.Budget.Currency
	}
	return m.def.Currency
}

// applyCommand applies a command.
func (m *Machine) applyCommand(r journal.Record) error {
	var d saga.CommandData
	if err := take(m, r, &d); err != nil {
		return err
	}
	m.applied[d.Message] = true
	if d.Session == nil { // a session that belongs to the saga changes none of its steps
		m.lastCommand = r.Seq
	}
	if d.Rejected != nil {
		return nil //nolint:nilerr // the refusal is the command's result
	}
	switch r.Kind {
	case journal.Paused:
		m.paused = true
		return nil
	case journal.Resumed:
		if m.paused {
			m.paused = false // steps that are held stay so: they need a resume of their own
		} else if err := m.resumeHeld(r); err != nil {
			return err
		}
		m.session.resume(m, d, r.At)
		return nil
	case journal.Cancelled:
		m.stop = d.Mode == "stop"
		m.abortBy(m.operatorReason("cancelled", "the saga was cancelled", d))
		return nil
	}
	switch d.Kind {
	case "compensate":
		m.forced = true
		m.abortBy(m.operatorReason("operator", "an operator undid the saga", d))
		return nil
	case "undo":
		return m.applyUndoCall(r.Path)
	case "patch":
		labels := maps.Clone(m.labels)
		if labels == nil {
			labels = make(map[string]string)
		}
		maps.Copy(labels, d.Labels)
		maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
		m.labels = labels
		if d.Budget != nil {
			m.countGuests(d.Budget)
		}
		return m.rebudget(d.Budget)
	case "reserve":
		return m.applyReserve(d.Session)
	case "settle":
		return m.applySettle(d.Session)
	case "release":
		m.released = true
		return nil
	case "revert":
		m.reverted, m.forced = true, true
		m.abortBy(m.operatorReason("operator", "its parent was undone", d))
		return nil
	case "approve", "reject":
		return m.applyApproval(r, d)
	case "retry":
		d.Outcome = "retry"
		return m.applyResolve(r, d)
	case "resolve":
		return m.applyResolve(r, d)
	}
	return fmt.Errorf("%w: command %q", saga.ErrUnreadable, d.Kind)
}

func (m *Machine) operatorReason(code, title string, d saga.CommandData) *saga.Reason {
	return &saga.Reason{Code: code, Title: title, Step: m.currentPath(), Detail: d.Reason}
}

func (m *Machine) applyResolve(r journal.Record, d saga.CommandData) error {
	if n := m.resembling(r.Path); n != nil {
		return m.applyRepeat(n, d, r)
	}
	n, s := m.findInInbox(r.Path)
	if s == nil {
		return fmt.Errorf("%w: step %q does not wait for a person", ErrImpossible, r.Path)
	}
	if s == &n.statusCheck {
		return m.resolveQuery(n, r, d)
	}
	undo := s == &n.compensation
	var ev event
	switch d.Outcome {
	case "retry":
		newKey := d.NewKey
		if undo && d.Output != nil {
			n.override, newKey = d.Output, true // the next request differs, so it must not have the old key
		}
		s.again(newKey)
		s.allowed = s.state != awaitingCredentials && s.state != exhausted // these say nothing about a doubt
		ev = evAgain
	case "succeeded":
		ev, s.doubt = evResolve, false
		m.answered(n, d.Output)
		m.settleByPerson(n, s, true)
	case "compensated":
		m.settleByPerson(n, s, s.doubt)
		s.doubt = false
		ev = evResolve
		if !undo {
			ev, n.compensation.state = evGiveUp, done
			s.failure = &saga.Failure{Code: "operator", Title: "an operator has undone step " + n.path + " by hand", Detail: d.Reason}
		}
	case "failed":
		definite := s.state == blocked || s.state == exhausted && !s.doubt
		ev, s.doubt = evGiveUp, false
		m.settleByPerson(n, s, false)
		if s.failure == nil || !definite {
			s.failure = &saga.Failure{Code: "operator", Title: "an operator found that step " + n.path + " did not happen", Detail: d.Reason}
		}
	case "skip":
		ev = evSkipByPerson
		if undo {
			m.residual = append(m.residual, residue(n, d.Reason))
		}
	default:
		return fmt.Errorf("%w: outcome %q", saga.ErrUnreadable, d.Outcome)
	}
	if err := m.move(s, ev, r); err != nil {
		return err
	}
	m.advance(n, s, r)
	return nil
}

// resolveQuery resolves a step whose status check needs other credentials. A retry repeats the
// check; any other outcome is applied to the step itself.
func (m *Machine) resolveQuery(n *node, r journal.Record, d saga.CommandData) error {
	if d.Outcome == "retry" {
		n.statusCheck.again(false)
		return m.move(&n.statusCheck, evAgain, r)
	}
	n.statusCheck.state = failed
	if err := m.move(&n.forward, evAwaitResolution, r); err != nil {
		return err
	}
	return m.applyResolve(r, d)
}

// Refusal says why a command does not apply to the saga in its current state.
type Refusal struct {
	saga.Failure
	Stale     bool           // IfSeq is not the journal's seq
	Forbidden bool           // the actor may not do it, but others may
	Invalid   bool           // the command itself is invalid
	Findings  []saga.Finding // where; pointers are into the command
}

// Error implements error.
func (r *Refusal) Error() string { return r.Failure.Error() }

func refusal(code, title, detail string) *Refusal {
	return &Refusal{Failure: saga.Failure{Code: code, Title: title, Detail: detail}}
}

// at makes the refusal that of a field of the request, which has a JSON pointer.
func (r *Refusal) at(pointer, code string) *Refusal {
	r.Invalid, r.Findings = true, []saga.Finding{{Pointer: pointer, Code: code, Detail: r.Title}}
	return r
}

// orNothing returns a draft; for nil one without a Kind, which changes nothing.
func orNothing(d *Draft) Draft {
	if d == nil {
		return Draft{}
	}
	return *d
}
