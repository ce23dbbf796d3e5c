package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
)

// A saga that has succeeded never changes. To undo it later, another saga is started, at most one
// for each original: its `started` has the original's journal, so that its machine begins as that
// of the original at its end, with the same definition, steps and outputs. Undoing is its goal. It
// goes through the compensations as every saga does, with a journal of its own, and has succeeded
// when each of them is acknowledged.
//
// Its requests have the keys that the original's own compensations would have had: they are derived
// from the original's id. So even a second undo, if there could be one, would send the same
// requests under the same keys.

// origin is the part of a machine that only a saga that undoes another one has.
type origin struct {
	id      uuid.UUID // of the original
	created time.Time // when it was started
	until   time.Time // Machine.UndoUntil of it
	stays   int       // how many residues of the original were never to be undone
}

// adopt makes m the machine of a saga that undoes d.UndoOf.
func (m *Machine) adopt(d saga.StartedData) error {
	of, err := uuid.FromString(d.UndoOf)
	if err != nil || m.outline != nil {
		return fmt.Errorf("%w: undo_of %q", saga.ErrUnreadable, d.UndoOf)
	}
	was, err := Replay(m.def, of, d.Origin)
	switch {
	case err != nil:
		return fmt.Errorf("origin: %w", err)
	case was.Status() != saga.Succeeded || was.origin != nil:
		return fmt.Errorf("%w: saga %s is %s, so nothing undoes it later", ErrImpossible, of, was.Status())
	}
	d.Origin = nil // what is in it is in the steps now
	next := New(m.def, m.id)
	next.created, next.begun, next.latest = m.created, m.begun, m.latest
	if err := next.pin(d); err != nil {
		return err
	}
	next.account.Budget, next.tokens.budget = nil, 0
	next.origin = &origin{id: of, created: was.created, until: was.UndoUntil()}
	next.input, next.vars = was.input, was.vars
	next.forward, next.finally, next.session = was.forward, was.finally, was.session
	next.steps, next.touched, next.failedSteps, next.pivot = was.steps, was.touched, was.failedSteps, was.pivot
	if s := next.session; s != nil {
		s.live, s.lost, s.leases, s.undos = false, false, 0, nil
	}
	for _, n := range next.touched { // their seqs are those of another journal
		n.forward.since, n.compensation.since, n.statusCheck.since = 0, 0, 0
	}
	next.forced = true
	next.reason = &saga.Reason{Code: "operator", Title: "saga " + d.UndoOf + " is undone", Detail: d.Reason}
	next.appended = m.appended
	*m = *next
	return nil
}

// UndoOf returns the saga that this one undoes; Nil: none.
func (m *Machine) UndoOf() uuid.UUID {
	if m.origin == nil {
		return uuid.Nil
	}
	return m.origin.id
}

// BegunLate reports whether the saga undoes another one whose window was over when this one began:
// the time may have passed since the request was checked, such as on a node that was frozen.
func (m *Machine) BegunLate() bool {
	return m.origin != nil && !m.created.Before(m.origin.until)
}

// compensating counts what stays by the decision of the original's definition or of a person.
func (o *origin) compensating(d saga.CompensatingData) {
	if o != nil {
		o.stays = len(d.Residual)
	}
}

func (o *origin) endStatus(residual []compensation.Residue) saga.Status {
	if len(residual) > o.stays {
		return saga.Failed
	}
	return saga.Succeeded
}

// UndoPlan is what undoing a saga that has succeeded would do.
type UndoPlan struct {
	Steps []UndoStep             // in the order in which they are undone
	Stays []compensation.Residue // effects that need no undo, or whose undo a person has skipped
	Until time.Time              // when the first window ends; zero: nothing is to be undone
	// Refused says why the saga cannot be undone, for each step that prevents it; nil: it can be.
	// They are in the order of the steps' first records.
	Refused []Obstacle
}

// UndoStep is one compensation of an UndoPlan.
type UndoStep struct {
	Path    string
	Kind    string
	Use     string        // the action whose compensation it is, or that the compensation uses; "": none
	Until   time.Time     // when its window ends
	Request *saga.Request // nil: a person undoes it, or Note says why it cannot be rendered
	Key     string
	Note    string
}

// Obstacle says why a step, or for no Path the saga, prevents an undo after the end, or a retry
// from a step.
type Obstacle struct {
	Path, Code, Detail string
}

// Text names the step and says why.
func (r Obstacle) Text() string {
	if r.Path == "" {
		return r.Detail
	}
	return "step " + r.Path + ": " + r.Detail
}

// The codes of an Obstacle of an undo.
const (
	CodeNotSucceeded  = "terminal"
	CodeUndoOfUndo    = "undo_of_undo"
	CodePastPivot     = "past_pivot"
	CodeIrreversible  = "irreversible"
	CodeUndoChildren  = "undo_children"
	CodeNotUndoable   = "not_undoable"
	CodeUndoInDoubt   = "undo_in_doubt"
	CodeNoUndoWindow  = "no_undo_window"
	CodeUndoExpired   = "undo_window_over"
	CodeNothingToUndo = "nothing_to_undo"
)

// PlanUndo returns what undoing the saga would do if it began at the time now. Either all effects
// are undone that are not declared to need no undo, or the saga is not undone.
func (m *Machine) PlanUndo(now time.Time) UndoPlan {
	p := m.undoPlan(now)
	if p.Refused == nil {
		m.renderUndo(&p)
	}
	return p
}

// UndoUntil returns until when the saga can be undone later; zero: it cannot be, or has not ended.
// For a saga that undoes another one, it is that of the other one.
func (m *Machine) UndoUntil() time.Time {
	switch {
	case m.origin != nil:
		return m.origin.until
	case m.finished == nil || m.finished.Status != saga.Succeeded:
		return time.Time{}
	case !slices.ContainsFunc(m.touched, func(n *node) bool { return !n.undoUntil().IsZero() }):
		return time.Time{} // as of almost every saga
	}
	p := m.undoPlan(m.at)
	if p.Refused != nil && !slices.ContainsFunc(p.Refused, func(r Obstacle) bool { return r.Code == CodeUndoExpired }) {
		return time.Time{}
	}
	return p.Until
}

func (m *Machine) undoPlan(now time.Time) UndoPlan {
	var p UndoPlan
	refuse := func(path, code, detail string) {
		p.Refused = append(p.Refused, Obstacle{Path: path, Code: code, Detail: detail})
	}
	switch {
	case m.origin != nil:
		refuse("", CodeUndoOfUndo, "it undoes saga "+m.origin.id.String()+": to do the work of that saga again, start another one")
		return p
	case m.finished == nil || m.finished.Status != saga.Succeeded:
		refuse("", CodeNotSucceeded, "it has ended as "+string(m.Status())+": only a saga that has succeeded is undone later")
		return p
	}
	turned := *m
	turned.forced, turned.finished = true, nil
	effects := turned.effects()
	undo, _ := compensation.Plan(effects)
	for _, e := range effects {
		n := m.steps[e.Path]
		if e.None || n.compensation.state == skipped {
			p.Stays = append(p.Stays, compensation.Left([]compensation.Effect{e})...)
			continue
		}
		if code, detail := m.whyNotUndone(n, e, now); code != "" {
			refuse(e.Path, code, detail)
		}
	}
	if m.pivoted && len(effects) > len(p.Stays) {
		p.Refused = slices.Insert(p.Refused, 0, Obstacle{Path: m.pivot.path, Code: CodePastPivot, Detail: "the saga has passed its point of no return, after which nothing is undone"})
	}
	if len(undo) == 0 && p.Refused == nil {
		refuse("", CodeNothingToUndo, "none of its steps has an effect that has to be undone")
	}
	for _, path := range undo {
		n := m.steps[path]
		until := n.undoUntil()
		p.Steps = append(p.Steps, UndoStep{Path: path, Kind: n.step.Compensate.Kind, Use: cmp.Or(n.step.Compensate.Use.String(), n.step.Use.String()), Until: until})
		if !until.IsZero() && (p.Until.IsZero() || until.Before(p.Until)) {
			p.Until = until
		}
	}
	return p
}

// whyNotUndone returns why an effect prevents the undo of its saga; "" if it does not.
func (m *Machine) whyNotUndone(n *node, e compensation.Effect, now time.Time) (code, detail string) {
	_, child := n.step.Body.(saga.Spawner)
	c := n.step.Compensate
	switch {
	case n.own != nil && n.own.data.Effect == saga.Irreversible:
		return CodeIrreversible, "the agent has declared it as irreversible"
	case child:
		return CodeUndoChildren, "it has run saga " + n.child.String() + ", which is not undone with this one: undo that saga, and what remains by hand"
	case c == nil:
		return CodeNotUndoable, "no compensation is declared for it: undo it by hand"
	case !e.Declared:
		return CodeNotUndoable, "its compensation is declared for another outcome (`on`): undo it by hand"
	case e.Class == journal.InDoubt && c.NeedsOutput:
		return CodeUndoInDoubt, "it is in doubt, and its compensation needs its output, which is not known: find out whether it has happened, and undo it by hand"
	case c.UndoWithin == 0:
		return CodeNoUndoWindow, "its compensation has no undo_within, so it can be undone only until the saga succeeds: undo it by hand, and declare undo_within for later sagas"
	case !now.Before(n.undoUntil()):
		return CodeUndoExpired, "it could be undone until " + n.undoUntil().UTC().Format(journal.TimeFormat) + ", which is undo_within (" + saga.Duration(c.UndoWithin) + ") after its end: undo it by hand"
	}
	return "", ""
}

// undoUntil returns the end of the step's undo window, which began with the step's end; zero: it
// has none.
func (n *node) undoUntil() time.Time {
	if c := n.step.Compensate; c != nil && c.UndoWithin > 0 {
		return n.forward.sinceAt.Add(c.UndoWithin)
	}
	return time.Time{}
}

// renderUndo adds the requests, as far as they are known now.
func (m *Machine) renderUndo(p *UndoPlan) {
	turned := *m
	turned.forced, turned.finished = true, nil
	turned.reason = &saga.Reason{Code: "operator", Title: "saga " + m.id.String() + " is undone"}
	for i := range p.Steps {
		u := &p.Steps[i]
		n := m.steps[u.Path]
		if n.byHand() {
			u.Note = "the agent has not said how to undo it: a person does it"
			continue
		}
		request, key, _, err := turned.render(n, n.compensation.generation, journal.Undo)
		if err != nil {
			u.Note = asFailure("request", err).Error()
			continue
		}
		u.Request, u.Key = request, key
		if n.step.Compensate.When != nil {
			u.Note = "only if its `when` holds"
		}
	}
}

// StepKind returns the kind of a step, or of its compensation; "" if there is no such step.
func (m *Machine) StepKind(path string, way journal.Way) string {
	n := m.steps[path]
	if n == nil || way == journal.Undo && n.step.Compensate == nil {
		return ""
	}
	return m.stepOf(n, way).Kind
}

// BeginUndo returns the data of the start of the saga that undoes the saga of m, which has
// succeeded and whose records are given.
func BeginUndo(m *Machine, records []journal.Record, o StartOptions) saga.StartedData {
	d := m.started
	d.UndoOf, d.Origin = m.id.String(), records
	d.RetryFrom, d.Reused, d.Fork = "", nil, nil
	d.Actor, d.Reason, d.Labels = o.Actor, o.Reason, m.labels
	d.Budget, d.RetryOf, d.Parent, d.BelongsTo, d.Traceparent = nil, "", nil, nil, ""
	if p, ok := saga.ParseTraceparent(o.Traceparent); ok {
		d.Traceparent = p.String()
	}
	return d
}
