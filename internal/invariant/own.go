package invariant

import (
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// own is a step that an agent does itself.
type own struct {
	data *saga.OwnData
	step *saga.Step // that it is for the session; nil: its policy is not known
}

func isOwn(path string) bool { return strings.HasPrefix(path, saga.OwnPrefix) }

// begun notes an own step that a record adds.
func (t *sagaState) begun(r journal.Record, d *saga.CalledData) {
	if d.Own == nil {
		return
	}
	o := &own{data: d.Own}
	if t.Definition != nil && t.Definition.Session != nil {
		o.step = t.Definition.Session.OwnStep(r.Path, d.Own, nil)
	}
	if t.owns == nil {
		t.owns = make(map[string]*own)
	}
	t.owns[r.Path] = o
}

// redeclare notes that an agent says how to undo an own step when it finishes the step.
func (t *sagaState) redeclare(r journal.Record, d *saga.OutcomeData) {
	o := t.owns[r.Path]
	if o == nil || d.Compensate == nil || o.step == nil {
		return
	}
	*o.step = *t.Definition.Session.OwnStep(r.Path, o.data, d.Compensate)
}

// begins checks the part of invariant 23 about own steps: an attempt begins only if the step is
// new, or in doubt; and what undoes the step is within the walls (see undoable). Invariant 6 says
// that a person has decided first, if the step wants that.
func (c *sagaCheck) begins(t *sagaState, all *callStates, r journal.Record, d *saga.CalledData) {
	s := all.byPath[r.Path]
	switch {
	case s == nil && d.Own == nil:
		c.say(23, r.Seq, "record %d begins %s again, which was not begun before", r.Seq, r.Path)
	case s == nil:
		c.undoable(t, r, d.Own.Compensate)
	case s.ended:
		c.say(23, r.Seq, "record %d begins %s again, which has ended", r.Seq, r.Path)
	case s.inFlight:
		c.say(23, r.Seq, "record %d begins %s again while an attempt is open", r.Seq, r.Path)
	}
}

// undoable checks the part of invariant 26 about the call that undoes an own step: the agent could
// make this call without an approval.
func (c *sagaCheck) undoable(t *sagaState, r journal.Record, u *saga.OwnUndo) {
	if u == nil || t.Definition == nil || t.Definition.Session == nil {
		return
	}
	name, _, _ := strings.Cut(u.Use, "@")
	switch a := t.action(name); {
	case a == nil || a.Agents == nil || a.Step.Use.String() != u.Use:
		c.say(26, r.Seq, "record %d names %s to undo %s, which is not an action for the session", r.Seq, u.Use, r.Path)
	case a.Agents.Approve:
		c.say(26, r.Seq, "record %d names %s to undo %s, and a person has to approve its calls", r.Seq, u.Use, r.Path)
	}
}

// ownLeft checks the part of invariant 11 about own steps, whose effects are in no ledger: the end
// of a session that was undone names each own step that may have an effect and was not undone, and
// the end of one that has succeeded names those in doubt.
func (c *sagaCheck) ownLeft(t *sagaState) {
	if t.finished == nil {
		return
	}
	named := make(map[string]bool)
	for _, left := range t.finished.Residual {
		named[left.Path] = true
		if o := t.owns[left.Path]; o != nil && o.data.Effect == saga.Undoable && strings.Contains(left.Why, "no compensation is declared") {
			c.say(11, t.Records[len(t.Records)-1].Seq, "nobody was asked to undo own step %s", left.Path)
		}
	}
	for _, doubt := range t.finished.Doubts {
		named[doubt.Path] = true
	}
	for path, o := range t.owns { // any order: each is a violation
		n := t.steps[path]
		if n == nil || len(n.do) == 0 || o.data.Effect == saga.NoEffect || named[path] || n.settled {
			continue
		}
		doubt := n.state == journal.InDoubt
		if doubt || n.state == journal.Succeeded && t.ended() != saga.Succeeded {
			c.say(11, t.Records[len(t.Records)-1].Seq, "the effect of own step %s may remain, and the session's end does not name it", path)
		}
	}
}
