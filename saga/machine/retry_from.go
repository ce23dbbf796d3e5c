package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// A saga that has ended without success never changes. To go on from one of its steps, another saga
// is started, at most one for each original: its `started` has the original's journal, and names
// the steps before that one whose outcomes it takes over. Those are not repeated. Their effects, if
// they have some that remain, are this saga's from then on: if it fails, it undoes them, under the
// keys that the original's own compensations would have had.

// taken says of which saga a step's outcome, and so its effect, is.
type taken struct {
	by      uuid.UUID
	created time.Time // when that saga was started
	again   bool      // this saga has run it again (fresh_for), so only the namespace of its keys is the other's
	stays   bool      // the effect stays that saga's, because this one is a fork of it
}

// goOn takes over the outcomes of a saga that has ended, whose journal is origin.
func (m *Machine) goOn(d saga.StartedData, origin []journal.Record) error {
	of, err := uuid.FromString(d.RetryOf)
	if err != nil || m.outline != nil || m.session != nil {
		return fmt.Errorf("%w: retry_of %q", saga.ErrUnreadable, d.RetryOf)
	}
	was, err := Replay(m.def, of, origin)
	switch {
	case err != nil:
		return fmt.Errorf("origin: %w", err)
	case !was.goesOnLater():
		return fmt.Errorf("%w: saga %s is %s, so nothing goes on from it", ErrImpossible, of, was.Status())
	}
	m.taken = make(map[string]bool, len(d.Reused))
	for _, id := range d.Reused {
		n := was.steps[id]
		if n == nil || n.in != was.forward || !n.hasOutcome() {
			return fmt.Errorf("%w: step %q of saga %s has no outcome", ErrImpossible, id, of)
		}
		m.taken[id] = true
	}
	for _, n := range was.touched {
		if top := n.top(); m.taken[top.path] && !n.in.final {
			m.take(was, n)
		}
	}
	m.enter(m.forward)
	return nil
}

// take takes over one step.
func (m *Machine) take(was *Machine, n *node) {
	if n.taken == nil {
		n.taken = &taken{by: was.id, created: was.created}
	}
	n.taken.again = false
	if n.in == was.forward {
		n.in = m.forward
	}
	n.first -= was.seq + 1 // before all records of this saga, in the same order
	n.forward.since, n.statusCheck.since = 0, 0
	n.compensation = track{generation: n.compensation.generation}
	f := &n.forward
	f.unknown, f.unknownTokens, f.uncertain = retry.Money{}, 0, nil // the original has paid for it
	m.steps[n.path] = n
	m.touched = append(m.touched, n)
	if n.step.Pivot {
		m.pivot, m.pivoted = n, m.pivoted || f.state == done
	}
}

// runsHere notes that this saga runs a step again, also if it had taken over its outcome.
func (n *node) runsHere() {
	switch {
	case n.stays(): // nothing of the original is repeated: it has no effect
		n.taken = nil
	case n.taken != nil:
		n.taken.again = true
	}
}

// pass moves the group of the top level past the steps that were taken over, and past those that
// have ended and do not run again.
func (m *Machine) pass() {
	g := m.forward
	for g.session == nil && !g.over() {
		id := g.steps[g.next].ID
		if n := m.steps[id]; !m.taken[id] && (n == nil || !n.passed) {
			return
		}
		g.next++
	}
}

// goesOnLater reports whether another saga can go on from a step of this one.
func (m *Machine) goesOnLater() bool {
	return m.finished != nil && m.finished.Status != saga.Succeeded && m.origin == nil && m.session == nil && m.forked == nil
}

// hasOutcome reports whether the saga has moved on to the step after this one. A wait that the saga
// gave up, such as an approval that nobody decided before a cancel, has none.
func (n *node) hasOutcome() bool {
	s := n.forward.state
	return n.passed && !n.abandoned && (s == done || s == skipped || s.ended() && n.step.Continue)
}

// top returns the step of the top level that n is in, or n itself.
func (n *node) top() *node {
	for n.in.owner != nil {
		n = n.in.owner
	}
	return n
}

// effectsOf returns the id of the saga whose effect the step is: the namespace of its keys. A nil
// step is one that this saga has not reached.
func (m *Machine) effectsOf(n *node) uuid.UUID {
	switch {
	case n != nil && n.taken != nil:
		return n.taken.by
	case m.origin != nil:
		return m.origin.id
	}
	return m.id
}

// startedAt returns when the saga began whose effect the step is.
func (m *Machine) startedAt(n *node) time.Time {
	switch {
	case n != nil && n.taken != nil:
		return n.taken.created
	case m.origin != nil:
		return m.origin.created
	}
	return m.created
}

// RetryPlan is what a saga would do that goes on from a step of a saga that has ended.
type RetryPlan struct {
	From   string
	Reused []string     // steps before From whose outcomes are taken over, in the definition's order
	Again  []RetryAgain // steps before From that run again, in the same order
	// Refused says why no saga can go on from there, for each step that prevents it; nil: one can.
	Refused []Obstacle
}

// RetryAgain is a step before RetryPlan.From that runs again, and why.
type RetryAgain struct {
	Path, Why string
}

// The codes of an Obstacle of a retry from a step.
const (
	CodeNoSuchStep  = "no_such_step"
	CodeNoOutcome   = "no_outcome"
	CodeEffectStays = "effect_stays"
	CodeChildStays  = "child_stays"
	CodeUndoChanges = "undo_changes"
	CodeIsFork      = "is_fork"
)

// PlanRetry returns what a saga would do that goes on from a step of the top level of m, which has
// ended without success. The outcomes of the steps before it are taken over. A step runs again if
// its effect was undone, or if it has no effect and reads the result of a step that runs again. A
// step with an effect that remains never runs again, and its undo must not read the result of one
// that does, or of an approval that is asked again: it would undo another effect than the one that
// is there.
func (m *Machine) PlanRetry(from string) RetryPlan { return m.planRetry(from, m.effectsByTop()) }

func (m *Machine) planRetry(from string, effects map[string]outcomes) RetryPlan {
	p := RetryPlan{From: from}
	refuse := func(path, code, detail string) {
		p.Refused = append(p.Refused, Obstacle{Path: path, Code: code, Detail: detail})
	}
	if m.forked != nil {
		refuse("", CodeIsFork, "it is a fork: fork saga "+m.forked.of.String()+" again")
		return p
	}
	at := slices.IndexFunc(m.def.Steps, func(s *saga.Step) bool { return s.ID == from })
	if at < 0 {
		refuse("", CodeNoSuchStep, m.whyNotFrom(from))
		return p
	}
	again := make(map[string]bool)
	asked := make(map[string]bool) // approvals that are asked again, because they cover a step that runs
	for i, step := range m.def.Steps {
		stays, undone := effects[step.ID].stays, effects[step.ID].undone
		n := m.steps[step.ID]
		changed := cmp.Or(m.firstOf(m.def.UndoReads[step.ID], again), m.firstOf(m.def.UndoReads[step.ID], asked))
		asked[step.ID] = slices.ContainsFunc(step.Covers, func(id string) bool {
			return effects[id].undone != nil || slices.Contains(m.def.Steps[at:], m.def.ByID[id])
		})
		switch {
		case effects[step.ID].uncertain != nil:
			refuse(effects[step.ID].uncertain.path, CodeUndoInDoubt, "its undo was sent, and it is unknown whether that took effect, so nothing can rely on the step: find out, undo it by hand, and start another saga")
		case i >= at:
			if stays != nil {
				refuse(stays.path, CodeEffectStays, stays.happened()+", and was not undone, so it must not run again: retry from a step after "+step.ID)
			}
		case n == nil || !n.hasOutcome():
			refuse(step.ID, CodeNoOutcome, "it has no outcome that could be taken over: retry from "+step.ID+", or from a step before it")
		case stays != nil && undone != nil:
			refuse(stays.path, CodeEffectStays, stays.happened()+", and was not undone, but step "+undone.path+" was: undo it by hand, and start another saga")
		case stays != nil && stays.isChild():
			refuse(stays.path, CodeChildStays, "it has run saga "+stays.child.String()+", which has ended and which another saga cannot take over")
		case undone != nil:
			p.Again, again[step.ID] = append(p.Again, RetryAgain{step.ID, "it was undone"}), true
		case stays != nil && changed != "":
			refuse(stays.path, CodeUndoChanges, stays.happened()+", and was not undone, and its compensation reads the result of "+changed+", which would be another one: undo it by hand, and start another saga")
		case stays == nil && m.firstOf(m.def.Reads[step.ID], again) != "":
			p.Again, again[step.ID] = append(p.Again, RetryAgain{step.ID, "it reads the result of " + m.firstOf(m.def.Reads[step.ID], again) + ", which runs again"}), true
		default:
			p.Reused = append(p.Reused, step.ID)
		}
	}
	return p
}

// RetrySteps returns the steps of the top level from which PlanRetry refuses nothing and takes over
// some outcomes, in the definition's order. Of more than most steps that may be possible, it looks
// at the last ones only, which leave the least to do.
func (m *Machine) RetrySteps(most int) (ids []string) {
	// Each plan reads the whole definition, which may have thousands of steps. These bounds exclude
	// the steps of which PlanRetry refuses each for the same reason.
	effects, steps := m.effectsByTop(), m.def.Steps
	first, last := 1, len(steps)-1
	for i, step := range steps {
		if n := m.steps[step.ID]; i < last && (n == nil || !n.hasOutcome()) {
			last = i
		}
		switch o := effects[step.ID]; {
		case o.uncertain != nil:
			return nil
		case o.stays != nil:
			first = max(first, i+1)
		}
	}
	for at := last; at >= max(first, last-most+1); at-- {
		if p := m.planRetry(steps[at].ID, effects); p.Refused == nil && len(p.Reused) > 0 {
			ids = append(ids, p.From)
		}
	}
	slices.Reverse(ids)
	return ids
}

// whyNotFrom says which step to name instead of one that is not of the top level.
func (m *Machine) whyNotFrom(from string) string {
	for _, n := range m.touched {
		if n.path == from && !n.in.final {
			return "step " + from + " is a part of step " + n.top().path + ": retry from that one"
		}
	}
	return fmt.Sprintf("no step %.100q can be retried from: name a step of the definition's `steps`", from)
}

// outcomes are a step of those at and in a step of the top level whose effect remains, one of these
// whose undo is in doubt, and one whose effect was undone; nil: there is none.
type outcomes struct{ stays, uncertain, undone *node }

// effectsByTop returns the outcomes of each step of the top level that has effects, by its id.
func (m *Machine) effectsByTop() map[string]outcomes {
	list := make(map[string]outcomes)
	for _, n := range m.touched {
		if n.in.final {
			continue
		}
		top := n.top().path
		o := list[top]
		if _, ok := n.effect(); ok {
			o.stays = cmp.Or(o.stays, n)
			if n.compensation.doubt {
				o.uncertain = cmp.Or(o.uncertain, n)
			}
		} else if n.compensation.state == done {
			o.undone = cmp.Or(o.undone, n)
		}
		list[top] = o
	}
	return list
}

// firstOf returns the first step of those read that is, or is in, one of the steps of the top level
// in among; "" if there is none.
func (m *Machine) firstOf(read []string, among map[string]bool) string {
	for _, id := range read {
		if n := m.steps[id]; n != nil {
			id = n.top().path
		}
		if among[id] {
			return id
		}
	}
	return ""
}

func (n *node) happened() string {
	if n.forward.doubt && n.forward.state != done {
		return "it may have happened"
	}
	return "it has happened"
}

func (n *node) isChild() bool {
	_, child := n.step.Body.(saga.Spawner)
	return child
}

// BeginRetry returns the data of the start of the saga that goes on as p says from the saga of m,
// whose records are given, and the unique value ("" for none), or findings about what is wrong.
// Input and labels are those of m. Of o it uses the vars, the budget, the actor, the reason and the
// trace.
func (m *Machine) BeginRetry(p RetryPlan, records []journal.Record, o StartOptions) (saga.StartedData, string, []saga.Finding) {
	o.Version, o.Input, o.Labels, o.RetryOf, o.Parent = int(m.started.Version), m.started.Input, m.labels, m.id, nil
	d, unique, wrong := Begin(m.def, o)
	d.Input = slices.Clone(m.started.Input)
	d.RetryFrom, d.Reused, d.Origin = p.From, p.Reused, records
	return d, unique, wrong
}
