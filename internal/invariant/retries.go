package invariant

import (
	"bytes"
	"maps"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// goesOn is a saga that goes on from a step of another one, for the rules about both.
type goesOn struct {
	by       uuid.UUID
	original uuid.UUID
	hash     []byte // of the last record of the original, as the saga that goes on has it
}

// reuses reports whether the saga has taken over the outcome of a step.
func (t *sagaState) reuses(path string) bool {
	base, _ := saga.SplitQuery(path)
	return t.from != nil && t.reused[saga.StepID(base)]
}

// readReused says which steps are those whose outcomes the saga takes over, and the steps in them.
func (t *sagaState) readReused(d *saga.StartedData) {
	t.reused = make(map[string]bool)
	for _, id := range d.Reused {
		t.reused[id] = true
		if t.Definition != nil && t.Definition.ByID[id] != nil {
			nested([]*saga.Step{t.Definition.ByID[id]}, func(s *saga.Step) { t.reused[s.ID] = true })
		}
	}
}

// whole lists all steps whose effects are the saga's: its own, and those that it has taken over.
// Those have the intents of both sagas.
func (t *sagaState) whole() []*stepState {
	if t.from == nil {
		return t.order
	}
	var list []*stepState
	for _, was := range t.from.whole() {
		if !t.reuses(was.path) || t.final(was.path) {
			continue
		}
		n := *was
		n.settled, n.lifted, n.undo, n.undoneBefore = false, false, nil, len(was.undo) > 0
		if own := t.steps[was.path]; own != nil {
			n.do, n.undo, n.settled, n.lifted = slices.Concat(was.do, own.do), own.undo, own.settled, own.lifted
			if len(own.do) > 0 || own.state != "" {
				n.state = own.state
			}
		}
		list = append(list, &n)
	}
	for _, n := range t.order {
		if !t.reuses(n.path) {
			list = append(list, n)
		}
	}
	return list
}

// goes checks the part of invariant 31 that the journal shows: the original has ended without
// success, it is copied as it was written, and no step is sent again whose outcome is taken over.
// With a ledger, it checks that no other step repeats an effect of the original that remains.
func (c *sagaCheck) goes(t *sagaState) {
	o := t.from
	if o == nil {
		return
	}
	last := o.Records[len(o.Records)-1]
	c.v.goesOn = &goesOn{t.ID, o.ID, last.Hash}
	if o.ended() == "" || o.ended() == saga.Succeeded {
		c.say(31, 1, "it goes on from saga %s, which has not ended without success", o.ID)
	}
	if !c.hashes(o.Saga) {
		return
	}
	for _, id := range t.data[0].(*saga.StartedData).Reused {
		if was := o.effect(id); was == nil || !was.over {
			c.say(31, 1, "it takes over step %s of saga %s, which had not ended there", id, o.ID)
		}
	}
	for _, n := range t.order {
		was := o.effect(n.path)
		if !t.reuses(n.path) || len(n.do) == 0 {
			continue
		}
		if (was == nil || !doubtful(was)) && !t.rereads(n.path, n.do[0].record.Seq) {
			c.say(31, n.do[0].record.Seq, "it sends step %s, whose outcome it has taken over from saga %s", n.path, o.ID)
		}
	}
	if c.ledger == nil || c.cfg.Ledger.RequestsOnly {
		return
	}
	for _, was := range o.whole() {
		n := t.steps[was.path]
		if n == nil || t.reuses(was.path) || t.final(was.path) || !c.comparable(was) || was.skippedByWhen() {
			continue
		}
		if left := c.remaining(was); left > 0 && c.ledger.made(keysOf(n.do)) > 0 {
			c.say(31, n.first, "it repeats step %s, of which %d effect(s) of saga %s remain", was.path, left, o.ID)
		}
	}
}

// doubtful reports whether a step has an attempt that is in doubt and not settled.
func doubtful(n *stepState) bool { return n.state == journal.InDoubt }

// eachRetry checks the part of invariant 31 about all sagas together: at most one saga goes on from
// another one, with a copy of its whole journal.
func (c *Checker) eachRetry() {
	for _, id := range slices.SortedFunc(maps.Keys(c.retries), journal.CompareID) {
		list := c.retries[id]
		for _, g := range list[1:] {
			c.say(31, "saga %s and saga %s go on from saga %s", list[0].by, g.by, id)
		}
		hash, known := c.ends[id]
		for _, g := range list {
			if known && !bytes.Equal(hash, g.hash) {
				c.say(31, "saga %s does not have the whole journal of saga %s, from which it goes on", g.by, id)
			}
		}
	}
}
