// Package compensation computes which steps of a saga are undone, in which order, and which effects
// remain. Its inputs are the effects that the saga's journal shows.
package compensation

import (
	"cmp"
	"slices"

	"recourse/journal"
)

// Effect is a step that changed, or may have changed, something outside.
type Effect struct {
	Path     string
	First    int64         // the seq of its first record; steps are undone in the reverse order of it
	Class    journal.Class // Succeeded, or InDoubt if it may have happened
	Declared bool          // a compensation is declared that applies to Class
	None     bool          // `compensate: none` was written
	Limited  bool          // a compensation is declared, but not for Class
	Kept     string        // why nothing is undone; "" if the saga is undone
	Lift     Lift
	// UndoInDoubt says that nothing is undone, and that an earlier undo of this effect was sent and
	// is in doubt.
	UndoInDoubt bool
}

// Lift moves a compensation to the beginning or the end of the reverse order.
type Lift int

// The lifts, in the order in which they are undone.
const (
	First   Lift = -1 // before all others
	Reverse Lift = 0
	Last    Lift = 1 // after all others
)

// Residue is an effect that remains, and why.
type Residue struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Plan returns the effects to undo, in the order in which they are undone, and the effects that
// remain.
func Plan(effects []Effect) (undo []string, left []Residue) {
	todo := slices.Clone(effects)
	slices.SortFunc(todo, func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.Lift, b.Lift), cmp.Compare(b.First, a.First))
	})
	for _, e := range todo {
		if e.Declared {
			undo = append(undo, e.Path)
		}
	}
	return undo, Left(effects)
}

// Left lists the effects that are not undone, in the order in which they happened.
func Left(effects []Effect) []Residue {
	var left []Residue
	for _, e := range effects {
		if !e.Declared {
			left = append(left, Residue{Path: e.Path, Why: e.why()})
		}
	}
	return left
}

func (e Effect) why() string {
	what := "it happened"
	if e.Class == journal.InDoubt {
		what = "it may have happened"
	}
	switch {
	case e.UndoInDoubt:
		return "its undo was sent, and it is unknown whether that took effect: " + e.Kept
	case e.Kept != "":
		return what + ", and was not undone: " + e.Kept
	case e.Limited:
		return what + ", and its compensation is declared for another outcome (`on`)"
	case e.None:
		return what + ", and is declared to need no compensation"
	}
	return what + ", and no compensation is declared for it"
}
