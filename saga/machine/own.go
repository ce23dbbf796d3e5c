package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// ownStep is the part of a node that only an own step has: a step that the agent does itself. The
// machine sends nothing for it. An attempt belongs to the life that has begun it, and is in doubt
// once another life has begun. So a node that loads the session leaves the attempt in flight.
type ownStep struct {
	id      string
	data    saga.OwnData
	undo    *saga.OwnUndo // nil: none
	life    int           // of the last attempt
	message string        // the id of the command that began it
	request string        // the Idempotency-Key of the request that began it
	begun   bool          // it was begun, and its intent is not recorded yet
}

// own returns the own step with this id; nil if there is none.
func (m *Machine) own(id string) *node {
	if n := m.sessionStep(saga.OwnPrefix + id); n != nil && n.own != nil {
		return n
	}
	return nil
}

// inLife reports whether an attempt of the step was begun by this life, and has not ended.
func (n *node) inLife(life int) bool {
	return n.own.life == life && (n.own.begun || n.forward.state == inFlight)
}

// Begin returns the draft of the record that begins an attempt of an own step; nil if there is
// nothing to begin: the same request has begun the attempt that is open, or the step has ended.
func (m *Machine) Begin(message uuid.UUID, c saga.BeginStep) (*Draft, *Refusal) {
	if err := m.lives(c.Life); err != nil {
		return nil, err
	}
	if c.Input == nil {
		c.Input = json.RawMessage("null")
	}
	n := m.own(c.ID)
	if n == nil {
		return m.beginFirst(message, c)
	}
	path := n.path
	switch s := &n.forward; {
	case !saga.SameInput(s.actionInput, c.Input):
		return nil, refusal("id_reused", "the step "+path+" with this id has another input", "choose another id for another step").at("/input", "id_reused")
	case s.state.ended():
		return nil, nil
	case n.inLife(c.Life) && (n.own.message == message.String() || c.Request != "" && n.own.request == c.Request):
		return nil, nil
	case n.inLife(c.Life):
		return nil, refusal("step_open", fmt.Sprintf("this life has begun step %s already, and has not finished attempt %d", path, max(s.attempts, 1)),
			"finish that attempt, and do not do the step twice at once. To repeat a request whose response was lost, send the Idempotency-Key that it had. If its process is gone, attach as a new life")
	case s.state.inbox():
		_, inbox := n.person(m.Inbox())
		return nil, refusal("in_doubt", "step "+path+" may have happened, and a person decides about it", "do not do it. Begin it again once this entry of the inbox is resolved: "+inbox)
	case s.state == inFlight:
		return nil, refusal("unavailable", "the end of the earlier attempt is being recorded", "send the same request again")
	}
	if err := m.mayBegin(n.own.data.Reserve); err != nil {
		return nil, err
	}
	return m.called(message, c, n.forward.attempts, nil), nil
}

// beginFirst checks a step that the session does not have yet.
func (m *Machine) beginFirst(message uuid.UUID, c saga.BeginStep) (*Draft, *Refusal) {
	if most := m.session.policy.MaxSteps; len(m.session.owns) >= most {
		return nil, refusal("limit", fmt.Sprintf("the session has its %d own steps", most), "commit the session, or open one with a higher max_steps")
	}
	if err := m.mayBegin(c.Reserve); err != nil {
		return nil, err
	}
	c.Complete()
	if m.forked != nil && m.forked.effects != saga.RealEffects && c.Effect != saga.NoEffect {
		return nil, refusal("fork_holds", "the session is a fork, which holds effects back: nothing was begun", "do not do the step. Open a fork with effects real, or declare that the step has no effect (effect: none)")
	}
	undo, err := m.admitUndo(nil, c.Compensate)
	if err != nil {
		return nil, err
	}
	c.Compensate = undo
	return m.called(message, c, 0, &c.OwnData), nil
}

func (m *Machine) called(message uuid.UUID, c saga.BeginStep, attempts int, own *saga.OwnData) *Draft {
	d := saga.CalledData{Message: message.String(), Life: c.Life, What: saga.OwnStep, Identity: saga.OwnIdentity(c.ID), N: attempts, Own: own, Request: c.Request}
	if own != nil {
		d.Input = c.Input
	}
	return &Draft{Kind: journal.Called, Path: saga.OwnPrefix + c.ID, Way: journal.Do, Data: d}
}

// mayBegin refuses an attempt while the session is paused, or that the budget does not cover.
func (m *Machine) mayBegin(reserve string) *Refusal {
	if m.paused {
		return refusal("paused", "the session is paused", "begin the step again when a person has resumed the session")
	}
	amount, err := m.amount("/reserve", reserve)
	if err != nil {
		return err
	}
	if u := (saga.Usage{Cost: amount}); !m.fits(u) {
		return refusal(codeBudget, "the budget does not cover this step: nothing was begun", m.why(u)+". A person can raise the budget (PATCH)")
	}
	return nil
}

// amount reads an amount of money in the session's currency.
func (m *Machine) amount(pointer, text string) (retry.Money, *Refusal) {
	if text == "" {
		return retry.Money{}, nil
	}
	amount, err := retry.Amount(text, m.currency())
	if err != nil {
		r := refusal("bad_input", "the amount cannot be used", err.Error())
		r.Invalid, r.Findings = true, []saga.Finding{{Pointer: pointer, Code: "bad_amount", Detail: err.Error()}}
		return retry.Money{}, r
	}
	return amount, nil
}

// admitUndo checks the call that is to undo an own step, and completes it. The call is sent without
// an approval when the step is undone, so it must be one that the agent could make without one,
// within the limits of its action. n is the step; nil: a new one.
func (m *Machine) admitUndo(n *node, u *saga.OwnUndo) (*saga.OwnUndo, *Refusal) {
	if u == nil {
		return nil, nil
	}
	bad := func(title, help string) (*saga.OwnUndo, *Refusal) {
		return nil, refusal("bad_compensate", title, help).at("/compensate/use", "bad_compensate")
	}
	name, version, _ := strings.Cut(u.Use, "@")
	action := m.session.policy.Actions[name]
	switch {
	case action == nil:
		return bad("the session has no action "+strconv.Quote(u.Use), "its actions are "+m.session.names())
	case version != "" && action.Step.Use.String() != u.Use:
		return bad("the session has pinned "+action.Step.Use.String(), "leave the version out")
	case reads(action.Step):
		return bad("action "+name+" only reads, so it undoes nothing", "name an action that undoes the step; or leave compensate out, and a person undoes it")
	case action.Agents == nil:
		return nil, notForAgents(name)
	}
	input := u.With
	if input == nil {
		input = json.RawMessage("null")
	}
	input, err := callInput(action.Step, input)
	if err != nil {
		for i := range err.Findings {
			err.Findings[i].Pointer = "/compensate/with" + err.Findings[i].Pointer
		}
		return nil, err
	}
	approve, err := m.admit(saga.CallAction{Action: name, Input: input}, n)
	switch {
	case err != nil:
		return nil, err
	case approve:
		return bad("a person approves each such call of action "+name, "leave compensate out: if the step has to be undone, a person does it")
	}
	return &saga.OwnUndo{Use: action.Step.Use.String(), With: input, UndoWithin: u.UndoWithin}, nil
}

// Finish returns the draft of the record that ends an attempt of an own step. It returns an empty
// draft if the attempt has ended in this way already. While the session is being aborted, the
// process may still finish what it has begun, until its lease ends.
func (m *Machine) Finish(c saga.FinishStep) (Draft, *Refusal) {
	n := m.own(c.ID)
	switch {
	case m.session == nil || c.Life == 0 || c.Life != m.session.life:
		return Draft{}, m.lives(c.Life)
	case n == nil:
		return Draft{}, refusal("step_not_found", "the session has no own step "+strconv.Quote(c.ID), "begin it first")
	}
	s := &n.forward
	switch {
	case n.own.life == c.Life && c.Attempt == s.attempts && s.state != inFlight && n.ended(c):
		return Draft{}, nil
	case m.open() != nil && !m.finishing():
		return Draft{}, m.open()
	case c.Attempt != s.attempts || s.state != inFlight:
		return Draft{}, refusal("attempt_ended", fmt.Sprintf("attempt %d of step %s is not open", c.Attempt, n.path), n.whereabouts())
	case n.own.life != c.Life:
		return Draft{}, refusal("attempt_ended", fmt.Sprintf("an earlier life has begun attempt %d of step %s", c.Attempt, n.path), "begin the step again, which says what to do")
	}
	if err := m.lives(c.Life); err != nil && !m.finishing() {
		return Draft{}, err
	}
	if _, err := m.amount("/cost", c.Cost); err != nil {
		return Draft{}, err
	}
	if c.Compensate != nil && n.own.data.Effect != saga.Undoable {
		return Draft{}, refusal("bad_compensate", "the effect of step "+n.path+" was declared as "+string(n.own.data.Effect)+" when it began", "leave compensate out; only a step whose effect is undoable has one").at("/compensate", "bad_compensate")
	}
	undo, err := m.admitUndo(n, c.Compensate)
	if err != nil {
		return Draft{}, err
	}
	return m.ownOutcome(n, saga.OutcomeData{Error: c.Failure(), Output: c.Result(), Cost: c.Cost, Compensate: undo}, c.Status), nil
}

// whereabouts says what to do instead of finishing an attempt that is not open.
func (n *node) whereabouts() string {
	if n.forward.state == inFlight {
		return fmt.Sprintf("attempt %d is open: finish that one", n.forward.attempts)
	}
	return "begin the step again, which says what to do"
}

// ended reports whether the last attempt has ended as c says.
func (n *node) ended(c saga.FinishStep) bool {
	s, f := &n.forward, c.Failure()
	switch {
	case (c.Status == saga.OwnSucceeded) != (s.class == journal.Succeeded):
		return false
	case f != nil:
		return s.failure != nil && *f == *s.failure
	}
	return saga.SameInput(n.output, c.Result())
}

// ownOutcome returns the outcome of the attempt of an own step that is in flight.
func (m *Machine) ownOutcome(n *node, d saga.OutcomeData, status saga.OwnStatus) Draft {
	class := journal.InDoubt
	switch doubt := n.forward.doubt && n.own.data.Effect != saga.NoEffect; {
	case status == saga.OwnSucceeded:
		class = journal.Succeeded
	case status == saga.OwnFailed && !doubt:
		class, d.Next = journal.Refused, saga.NextFail
	case m.reason != nil: // nobody will do it again
		d.Next = saga.NextInDoubt
	case n.step.InDoubt.Policy == saga.Ask:
		d.Next = saga.NextAwaitResolution
	case status == saga.OwnFailed: // an earlier attempt may have had the effect
		d.Next = saga.NextInDoubt
	default:
		d.Next = saga.NextBegin
	}
	return Draft{Kind: journal.Outcome, Path: n.path, Way: journal.Do, Attempt: n.forward.attempts, Class: class, Data: d}
}

// decideOwn records that an attempt of an own step begins, and that one is in doubt because its
// process is gone.
func (m *Machine) decideOwn(n *node) []Decision {
	s := &n.forward
	switch {
	case s.state == ready && n.own.begun:
		return m.decideBegun(n)
	case s.state == inFlight && (n.own.life != m.session.life || m.reason != nil && !m.session.live):
		failure := &saga.Failure{Code: saga.Interrupted, Title: "the agent's process ended before it finished step " + n.path}
		return []Decision{Write{Record: m.ownOutcome(n, saga.OutcomeData{Error: failure}, saga.OwnInDoubt)}}
	case s.state.inbox():
		return m.escalate(n, s, journal.Do)
	}
	return nil
}

func (m *Machine) decideBegun(n *node) []Decision {
	r := &saga.Request{Own: &saga.OwnRequest{ID: n.own.id, Input: n.forward.actionInput}}
	d := saga.IntentData{Request: r, RequestHash: r.Hash(), Reserve: n.own.data.Reserve}
	reserve, _ := m.amount("", d.Reserve) // it was read when the attempt was begun
	if !m.fits(saga.Usage{Cost: reserve}) {
		// A call has reserved the money in the meantime.
		return m.refuse(n, &saga.Failure{Code: codeBudget, Title: "the budget does not cover step " + n.path, Detail: m.why(saga.Usage{Cost: reserve})})
	}
	return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: n.path, Way: journal.Do, Attempt: n.forward.attempts + 1,
		Key: idempotency.Key(m.id, n.path, journal.Do, 0), Data: d}}}
}

// applyOwn adds an own step, or begins its next attempt.
func (m *Machine) applyOwn(path string, d *saga.CalledData) error {
	s := m.session
	id := strings.TrimPrefix(path, saga.OwnPrefix)
	n := m.own(id)
	switch {
	case id == path, n == nil && (d.Own == nil || d.N != 0 || len(s.owns) >= s.policy.MaxSteps):
		return fmt.Errorf("%w: own step %s in life %d", ErrImpossible, path, d.Life)
	case n != nil && (n.forward.state != ready || n.inLife(d.Life) || d.N != n.forward.attempts):
		return fmt.Errorf("%w: attempt %d of %s while %s", ErrImpossible, d.N+1, path, n.forward.name())
	}
	if n == nil {
		n = m.addStep(s.policy.OwnStep(path, d.Own, nil))
		n.own = &ownStep{id: id, data: *d.Own}
		n.forward.actionInput = d.Input
		n.undoBy(d.Own.Compensate)
		s.owns = append(s.owns, n)
	}
	n.own.life, n.own.message, n.own.request, n.own.begun = d.Life, d.Message, d.Request, true
	return nil
}

// undoBy keeps the input of the call that undoes an own step.
func (n *node) undoBy(u *saga.OwnUndo) {
	if n.own.undo = u; u != nil {
		n.compensation.actionInput = u.With
	}
}

// byHand reports whether only a person can undo the step.
func (n *node) byHand() bool {
	return n.own != nil && n.step.Compensate != nil && n.step.Compensate.Body == nil
}

// finishing reports whether the session is being aborted, and its process may still finish an own
// step that it has begun. Otherwise the step could be undone before the process does it.
func (m *Machine) finishing() bool {
	s := m.session
	return s != nil && s.live && m.reason != nil && !m.undoing && m.finished == nil && slices.ContainsFunc(s.active, func(g *group) bool {
		return g.cur.own != nil && g.cur.forward.state == inFlight && g.cur.own.life == s.life
	})
}
