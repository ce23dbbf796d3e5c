package invariant

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// undoOf is a saga that undoes another one, for the rules about both.
type undoOf struct {
	by       uuid.UUID
	original uuid.UUID
	hash     []byte // of the last record of the original, as the undo has it
}

// effectsOf returns the id of the saga whose effect a step is: the namespace of its keys.
func (t *sagaState) effectsOf(path string) uuid.UUID {
	switch {
	case t.origin != nil:
		return t.origin.effectsOf(path)
	case t.reuses(path):
		return t.from.effectsOf(path)
	}
	return t.ID
}

// effect returns the step as the saga that has its effect knows it; nil if there is none.
func (t *sagaState) effect(path string) *stepState {
	switch {
	case t.origin != nil:
		return t.origin.effect(path)
	case t.reuses(path):
		return t.from.effect(path)
	}
	return t.steps[path]
}

// began says in which order steps had their effects: the place of the step's first record. Those
// that were taken over come first.
func (t *sagaState) began(path string) int64 {
	switch {
	case t.origin != nil:
		return t.origin.began(path)
	case t.reuses(path):
		return t.from.began(path) - int64(len(t.from.Records)) - 1
	case t.steps[path] != nil:
		return t.steps[path].first
	}
	return 0
}

// readOrigin decodes the journal of the saga that this one undoes, goes on from, or is a fork of.
func (t *sagaState) readOrigin() error {
	d, ok := t.data[0].(*saga.StartedData)
	switch {
	case ok && d.UndoOf == "" && d.RetryFrom != "":
		o, _, err := read(Saga{ID: uuid.FromStringOrNil(d.RetryOf), Definition: t.Definition, Records: d.Origin})
		if err != nil {
			return err
		}
		t.from = o
		t.readReused(d)
		return nil
	case ok && d.Fork != nil:
		o, _, err := read(Saga{ID: uuid.FromStringOrNil(d.Fork.Of), Definition: t.Definition, Records: d.Origin})
		t.forkOf = o
		return err
	case !ok || d.UndoOf == "":
		return nil
	}
	o, _, err := read(Saga{ID: uuid.FromStringOrNil(d.UndoOf), Definition: t.Definition, Records: d.Origin})
	if err != nil {
		return err
	}
	t.origin, t.owns = o, o.owns
	return nil
}

// undoes checks the part of invariant 29 that the journal shows: the original has succeeded, it is
// copied as it was written, and the undo has begun before the window of each effect ended.
func (c *sagaCheck) undoes(t *sagaState) {
	o := t.origin
	if o == nil {
		return
	}
	last := o.Records[len(o.Records)-1]
	c.v.undoes = &undoOf{t.ID, o.ID, last.Hash}
	if o.ended() != saga.Succeeded {
		c.say(29, 1, "it undoes saga %s, which has not succeeded", o.ID)
	}
	if !c.hashes(o.Saga) || t.plan == nil {
		return
	}
	begun := t.Records[0].At
	for _, path := range t.plan.Plan {
		n := o.effect(path)
		if n == nil || n.step == nil || n.step.Compensate == nil {
			continue // invariant 9 says so
		}
		if within := n.step.Compensate.UndoWithin; within == 0 || !begun.Before(n.ended.Add(within)) {
			c.say(29, t.Records[t.planAt].Seq, "it undoes %s, whose window ended %s after %s, from %s on", path, within, n.ended.Format(time.RFC3339Nano), begun.Format(time.RFC3339Nano))
		}
	}
}

// undone checks the part of invariant 29 about effects: a saga that has undone another one has left
// only effects that `residual` names.
func (c *sagaCheck) undone(t *sagaState) {
	if t.origin == nil || t.finished == nil {
		return
	}
	named := make(map[string]bool)
	for _, left := range t.finished.Residual {
		named[left.Path] = true
	}
	for _, was := range t.origin.whole() {
		n := t.steps[was.path]
		if t.final(was.path) || !c.comparable(was) || named[was.path] || was.settled || n != nil && n.skippedByWhen() {
			continue
		}
		left := c.remaining(was)
		if n != nil {
			for _, k := range keysOf(n.undo) {
				left -= len(c.ledger.of(k).effects)
			}
		}
		if left > 0 {
			c.say(29, t.Records[len(t.Records)-1].Seq, "it has undone saga %s, but %d effect(s) of step %s remain", t.origin.ID, left, was.path)
		}
	}
}

// undoneLater reports whether the effects of a step of a saga that has succeeded were undone by
// another saga: under the keys of the step's undo, which this saga has not sent.
func (c *sagaCheck) undoneLater(t *sagaState, n *stepState) bool {
	if len(n.undo) > 0 || t.ended() != saga.Succeeded && t.ended() != saga.Failed {
		return false
	}
	for _, key := range keysOf(n.do) {
		for _, e := range c.ledger.of(key).effects {
			if c.ledger.undone[e.EffectID] && !slices.ContainsFunc(c.ledger.by[e.EffectID], func(by string) bool { return undoKeyOf(t, n, by) }) {
				return false
			}
		}
	}
	c.v.undoneLater = true
	return true
}

// undoKeyOf reports whether a key is that of an undo of the step by another saga: one that undoes
// this one, or one that goes on from it.
func undoKeyOf(t *sagaState, n *stepState, key string) bool {
	if n.step == nil || n.step.Compensate == nil || t.ended() == saga.Succeeded && n.step.Compensate.UndoWithin == 0 {
		return false
	}
	if !derived(n.step, journal.Undo) {
		return true // it cannot be known
	}
	for g := range maxGenerations {
		if idempotency.Key(t.effectsOf(n.path), n.path, journal.Undo, g) == key {
			return true
		}
	}
	return false
}

// maxGenerations bounds the search for keys whose generation is not known.
const maxGenerations = 16

// eachUndo checks the part of invariant 29 about all sagas together: at most one saga undoes
// another one, with a copy of its whole journal; and what was undone after its saga's end, such a
// saga has undone.
func (c *Checker) eachUndo() {
	for _, id := range slices.SortedFunc(maps.Keys(c.undos), journal.CompareID) {
		list := c.undos[id]
		for _, u := range list[1:] {
			c.say(29, "saga %s was undone by saga %s and by saga %s", id, list[0].by, u.by)
		}
		hash, known := c.ends[id]
		for _, u := range list {
			if known && !bytes.Equal(hash, u.hash) {
				c.say(29, "saga %s does not have the whole journal of saga %s, which it undoes", u.by, id)
			}
		}
	}
	for _, id := range c.undoneLater {
		if len(c.undos[id]) == 0 && len(c.retries[id]) == 0 {
			c.say(29, "an effect of saga %s was undone after its end, and no saga has undone it", id)
		}
	}
}
