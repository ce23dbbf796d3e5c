package machine

import "recourse/compensation"

// Undoable lists what would be undone, in order, and what would remain, if the saga turned back
// now: because it is cancelled, or, with forced, by an operator's `compensate`, which undoes all
// steps, although the pivot was passed. Attempts in flight are in neither list, because their
// effects are known only when they have ended.
func (m *Machine) Undoable(forced bool) (undo []string, left []compensation.Residue) {
	turned := *m
	turned.forced = forced
	return compensation.Plan(turned.effects())
}
