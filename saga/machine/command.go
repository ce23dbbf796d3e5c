package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Validate turns a command into the record that carries it out, or returns a *Refusal. mail is the
// id of the command's message. Validate does not change the machine.
func (m *Machine) Validate(mail uuid.UUID, o saga.Command) (Draft, error) {
	if m.finished != nil {
		return Draft{}, refusal("terminal", "the saga has ended as "+string(m.finished.Status), "a saga that has ended never changes; start a new one with `retry`")
	}
	if o.IfSeq != 0 && o.IfSeq != m.seq && !m.unchanged(o.Path, o.IfSeq) {
		return Draft{}, &Refusal{Stale: true, Failure: saga.Failure{Code: "changed", Title: "the saga has changed since it was read",
			Detail: fmt.Sprintf("its seq is %d, not %d: read it again, then decide", m.seq, o.IfSeq)}}
	}
	kind := journal.Operator
	var err *Refusal
	switch o.Kind {
	case "cancel":
		kind, err = journal.Cancelled, m.validateCancel(o)
	case "pause":
		kind = journal.Paused
		if m.paused {
			err = refusal("paused", "the saga is paused already", "")
		}
	case "resume":
		kind = journal.Resumed
		if !m.paused {
			err = refusal("not_paused", "the saga is not paused", "")
		}
	case "compensate":
		err = m.validateTurn()
	case "retry":
		err = m.validateRetry(&o)
	case "resolve":
		err = m.validateResolve(o)
	case "patch":
		err = m.validatePatch(o)
	case "release", "revert":
		err = m.validateParent(o.Kind)
	case "approve", "reject":
		err = m.validateDecision(&o)
	case "signal":
		if err = m.validateSignal(o); err == nil {
			return Draft{Kind: journal.Signalled, Data: saga.SignalData{Message: mail.String(), Name: o.Name, Payload: o.Data, Actor: o.Actor}}, nil
		}
	default:
		err = refusal("unknown_command", "there is no command "+o.Kind, "")
	}
	if err != nil {
		return Draft{}, err
	}
	return m.commandRecord(kind, mail, o, nil), nil
}

// Reject returns the record of a command that is refused.
func (m *Machine) Reject(mail uuid.UUID, o saga.Command, why *Refusal) Draft {
	return m.commandRecord(journal.Operator, mail, o, &why.Failure)
}

func (m *Machine) commandRecord(kind journal.Kind, mail uuid.UUID, o saga.Command, rejected *saga.Failure) Draft {
	d := saga.CommandData{Message: mail.String(), Kind: o.Kind, Actor: o.Actor, Reason: o.Reason, Mode: o.Mode, Outcome: o.Outcome,
		Output: o.Output, NewKey: o.NewKey, Budget: o.Budget, Labels: o.Labels, Rejected: rejected}
	if o.Kind == "approve" || o.Kind == "reject" {
		d.Output, d.Shown, d.Role = o.Data, o.Shown, o.Role
	}
	r := Draft{Kind: kind, Path: o.Path, Data: d}
	if o.Path != "" {
		r.Way = journal.Do
		if m.undoing {
			r.Way = journal.Undo
		}
		if n := m.steps[o.Path]; n != nil && n.in.final {
			r.Way = journal.Do
		}
	}
	return r
}

// unchanged reports whether a step has not changed since an earlier seq, and no command was applied
// since. Steps in parallel branches may have continued.
func (m *Machine) unchanged(path string, seq int64) bool {
	n := m.steps[path]
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
		return refusal("compensating", "the saga is on its way to its end already", "")
	case m.forward.over():
		return refusal("ending", "every step has succeeded; only `finally` is left", "")
	}
	return nil
}

func (m *Machine) validateCancel(o saga.Command) *Refusal {
	if o.Mode != "" && o.Mode != "compensate" && o.Mode != "stop" {
		return refusal("bad_mode", "mode is compensate or stop", "")
	}
	if err := m.validateTurn(); err != nil {
		return err
	}
	if m.pivoted || m.pivotInFlight() {
		return refusal("past_pivot", "the saga has reached its point of no return", "it only goes forward from here; `compensate` undoes what can be undone all the same")
	}
	return nil
}

// validateRetry finds the step that needs a person.
func (m *Machine) validateRetry(o *saga.Command) *Refusal {
	waiting := m.people()
	switch {
	case len(waiting) == 0:
		return refusal("nothing_to_retry", "no step of the saga waits for a person", "steps that can be retried are, by themselves")
	case o.Path == "" && len(waiting) > 1:
		return refusal("which_step", "several steps wait for a person: name one", "from is one of "+list(waiting))
	case o.Path == "":
		o.Path = waiting[0]
	}
	n, s := m.findInInbox(o.Path)
	if s == nil {
		return refusal("not_waiting", "step "+o.Path+" does not wait for a person", "these do: "+list(waiting))
	}
	if n.block != nil {
		return refusal("bad_outcome", "a block cannot begin again", "resolve step "+o.Path+" as succeeded, with its output, failed or skip")
	}
	return m.validateNewKey(s, o.NewKey)
}

// people lists the paths of the steps that need a person to retry or resolve them.
func (m *Machine) people() []string {
	var paths []string
	for _, e := range m.Inbox() {
		if e.Kind != saga.InboxApproval && e.Kind != saga.InboxBudget {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// findInInbox returns the step under this path that needs a person, and its track that does; nil if
// there is none.
func (m *Machine) findInInbox(path string) (*node, *track) {
	n := m.steps[path]
	if n == nil {
		return nil, nil
	}
	s := m.inboxTrack(n)
	if m.undoing && m.undone < len(m.plan) && m.plan[m.undone] == n {
		s = &n.compensation
	}
	if !s.state.inbox() {
		return nil, nil
	}
	return n, s
}

func (m *Machine) validateNewKey(s *track, newKey bool) *Refusal {
	if newKey && s.doubt {
		return refusal("in_doubt", "the step is in doubt, so it is not safe to send it under a new key",
			"a new key is for a definite failure: resolve the step as failed first, if you know that it did not happen")
	}
	return nil
}

func (m *Machine) validateResolve(o saga.Command) *Refusal {
	n, s := m.findInInbox(o.Path)
	if s == nil || !slices.Contains(m.people(), o.Path) {
		return refusal("not_waiting", "step "+o.Path+" does not wait for a person", "")
	}
	undo := s == &n.compensation
	switch o.Outcome {
	case "retry":
		if n.block != nil && !undo {
			return refusal("bad_outcome", "a block cannot begin again: resolve it as succeeded, with its output, failed or skip", "")
		}
		return m.validateNewKey(s, o.NewKey || undo && o.Output != nil)
	case "skip":
		return nil
	case "succeeded", "failed":
		if undo {
			return refusal("bad_outcome", "an undo is resolved as compensated, retry or skip", "")
		}
		return nil
	case "compensated":
		if !undo && !s.doubt {
			return refusal("bad_outcome", "only a step that may have happened can be compensated by hand", "")
		}
		return nil
	}
	return refusal("bad_outcome", "outcome is succeeded, failed, retry, skip or compensated", "")
}

func (m *Machine) validatePatch(o saga.Command) *Refusal {
	if o.Budget == nil {
		return nil
	}
	if used := m.tokens.input + m.tokens.output + m.tokens.reserved; o.Budget.Tokens < 0 || o.Budget.Tokens > 0 && o.Budget.Tokens < used {
		return refusal("bad_budget", "the budget cannot be below the tokens that are used and reserved", strconv.FormatInt(used, 10)+" are")
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
		return refusal("bad_budget", "the budget's currency is not one", err.Error())
	}
	amount, err := retry.Amount(o.Budget.Amount, o.Budget.Currency)
	if err != nil {
		return refusal("bad_budget", "the budget's amount is not one", err.Error())
	}
	if used := m.account.Spent.Add(m.account.Reserved); amount.Cmp(used) < 0 {
		return refusal("bad_budget", "the budget cannot be below what is spent and reserved", used.Decimal()+" is")
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
	m.applied[d.Message], m.lastCommand = true, r.Seq
	if d.Rejected != nil {
		return nil
	}
	switch r.Kind {
	case journal.Paused:
		m.paused = true
		return nil
	case journal.Resumed:
		m.paused = false
		return nil
	case journal.Cancelled:
		m.stop = d.Mode == "stop"
		m.reason = m.operatorReason("cancelled", "the saga was cancelled", d)
		return nil
	}
	switch d.Kind {
	case "compensate":
		m.forced = true
		m.reason = m.operatorReason("operator", "an operator undid the saga", d)
		return nil
	case "patch":
		labels := maps.Clone(m.labels)
		if labels == nil {
			labels = make(map[string]string)
		}
		maps.Copy(labels, d.Labels)
		maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
		m.labels = labels
		return m.rebudget(d.Budget)
	case "release":
		m.released = true
		return nil
	case "revert":
		m.reverted, m.forced = true, true
		if m.reason == nil {
			m.reason = m.operatorReason("operator", "its parent was undone", d)
		}
		return nil
	case "approve", "reject":
		return m.applyApproval(r, d)
	case "retry":
		d.Outcome = "retry"
		return m.applyResolve(r, d)
	case "resolve":
		return m.applyResolve(r, d)
	}
	return fmt.Errorf("%w: command %q", ErrUnreadable, d.Kind)
}

func (m *Machine) operatorReason(code, title string, d saga.CommandData) *saga.Reason {
	return &saga.Reason{Code: code, Title: title, Step: m.currentPath(), Detail: d.Reason}
}

func (m *Machine) applyResolve(r journal.Record, d saga.CommandData) error {
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
		s.allowed = s.state != awaitingCredentials // fixing credentials says nothing about a doubt
		ev = evAgain
	case "succeeded":
		ev, s.doubt, n.output = evResolve, false, d.Output
		m.settleCost(s, true)
	case "compensated":
		m.settleCost(s, s.doubt)
		s.doubt = false
		ev = evResolve
		if !undo {
			ev, n.compensation.state = evGiveUp, done
			s.failure = &saga.Failure{Code: "operator", Title: "an operator has undone step " + n.path + " by hand", Detail: d.Reason}
		}
	case "failed":
		ev, s.doubt = evGiveUp, false
		m.settleCost(s, false)
		if s.failure == nil || s.state != blocked {
			s.failure = &saga.Failure{Code: "operator", Title: "an operator found that step " + n.path + " did not happen", Detail: d.Reason}
		}
	case "skip":
		ev = evSkipByPerson
		if undo {
			m.residual = append(m.residual, residue(n, d.Reason))
		}
	default:
		return fmt.Errorf("%w: outcome %q", ErrUnreadable, d.Outcome)
	}
	if err := m.move(s, ev, r); err != nil {
		return err
	}
	m.advance(n, s)
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
