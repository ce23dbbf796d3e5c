package invariant

import (
	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// unborn is a child saga that was never started, according to its parent's journal.
type unborn struct {
	id     uuid.UUID
	parent uuid.UUID
	path   string // of the parent's step
	seq    int64  // of the parent's record that says so
}

// children notes whether the saga is a child, and which of its own children were never started
// according to its journal.
func (c *sagaCheck) children(t *sagaState) {
	c.v.child = t.started().Parent != nil
	for i, r := range t.Records {
		d, ok := t.data[i].(*saga.OutcomeData)
		if ok && r.Way == journal.Undo && d.NeverStarted != "" {
			c.v.unborn = append(c.v.unborn, unborn{id: uuid.FromStringOrNil(d.NeverStarted), parent: t.ID, path: r.Path, seq: r.Seq})
		}
	}
}

// eachUnborn checks the part of invariant 8 about steps that are undone because their child saga
// was never started: that saga must not exist.
func (c *Checker) eachUnborn() {
	for _, u := range c.unborn {
		if c.born[u.id] {
			c.found = append(c.found, Violation{N: 8, Saga: u.parent, Seq: u.seq, Text: "step " + u.path + " is undone because saga " + u.id.String() + " was never started, but that saga exists"})
		}
	}
}
