package invariant

import (
	"slices"

	"recourse/journal"
	"recourse/saga"
)

// forks checks invariant 34: a fork undoes only what it has done itself, and sends nothing with an
// effect before a person has approved exactly that, or nothing at all if its steps have stubs. With
// a ledger, it checks that the fork has undone no effect of its original.
func (c *sagaCheck) forks(t *sagaState) {
	o := t.forkOf
	if o == nil {
		return
	}
	c.hashes(o.Saga)
	for _, n := range t.order {
		if len(n.undo) > 0 && len(n.do) == 0 && n.state == "" {
			c.say(34, n.undo[0].record.Seq, "it undoes step %s, which it has not done: saga %s has", n.path, o.ID)
		}
	}
	if effects := t.started().Fork.Effects; effects != saga.RealEffects && t.Definition != nil {
		c.heldBack(t, effects)
	}
	if c.ledger == nil || c.cfg.Ledger.RequestsOnly {
		return
	}
	var undos []string
	for _, n := range t.order {
		undos = append(undos, keysOf(n.undo)...)
	}
	for _, was := range o.order {
		for _, key := range keysOf(was.do) {
			for _, e := range c.ledger.of(key).effects {
				if slices.ContainsFunc(c.ledger.by[e.EffectID], func(by string) bool { return slices.Contains(undos, by) }) {
					c.say(34, 1, "it has undone an effect of step %s of saga %s", was.path, o.ID)
				}
			}
		}
	}
}

// heldBack checks that a fork that holds effects back, or has stubs for them, sends none by itself.
func (c *sagaCheck) heldBack(t *sagaState, effects saga.Effects) {
	approved := make(map[string]bool) // steps
	asked := make(map[string]string)  // hashes of the requests that are shown, by step
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.CommandData:
			if d.Kind == "approve" && d.Rejected == nil {
				approved[r.Path] = true
			}
		case *saga.IntentData:
			switch {
			case d.Awaited != nil:
				asked[r.Path] = d.RequestHash
			case r.Attempt == 0 || r.Way == journal.Undo || !t.writes(r.Path):
			case effects == saga.StubEffects:
				c.say(34, r.Seq, "it sends %s, although its steps have stubs", r.Path)
			case !approved[r.Path]:
				c.say(34, r.Seq, "it sends %s, which nobody has approved", r.Path)
			case r.Attempt == 1 && asked[r.Path] != d.RequestHash:
				c.say(34, r.Seq, "it sends %s otherwise than it was approved", r.Path)
			}
		case *saga.OutcomeData:
			if d.Event != nil && !approved[r.Path] {
				c.say(34, r.Seq, "it publishes the event of %s, which nobody has approved", r.Path)
			}
		}
	}
}

// writes reports whether a path is that of a step whose requests have effects, and not of its
// status check.
func (t *sagaState) writes(path string) bool {
	if _, query := saga.SplitQuery(path); query || t.steps[path] == nil || t.steps[path].step == nil {
		return false
	}
	call, ok := t.steps[path].step.Body.(saga.Call)
	return ok && !call.ReadOnly()
}

// approvedItself reports whether a fork has asked for the request of a step itself, so that the
// approvals that cover it were not needed.
func (t *sagaState) approvedItself(v *coverage, path string) bool {
	a := v.asked[path]
	return t.forkOf != nil && a != nil && a.approved
}

// lastLife returns the number of the session's last life; 0 for no session.
func (t *sagaState) lastLife() (life int) {
	if t == nil {
		return 0
	}
	life = t.forkOf.lastLife()
	for _, data := range t.data {
		if d, ok := data.(*saga.AttachedData); ok {
			life = d.Life
		}
	}
	return life
}
