package saga

import "recourse/compensation"

// Undoable lists what would be undone, in order, and what would remain, if the saga turned back
// now: by being cancelled or, with forced, by an operator's `compensate`, which undoes past the
// pivot too. Attempts under way are in neither: what they leave is known when they have ended.
func (m *Machine) Undoable(forced bool) (undo []string, left []compensation.Residue) {
	turned := *m
	turned.forced = forced
	return compensation.Plan(turned.effects())
}
