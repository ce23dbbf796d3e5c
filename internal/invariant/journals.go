package invariant

import (
	"errors"
	"fmt"
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// chain checks invariant 2: the seqs have no gaps, the hash chain is intact, the journal replays,
// and the terminal record is unique and last.
func (c *sagaCheck) chain(t *sagaState) {
	whole := c.hashes(t.Saga)
	if t.brokenAt != nil && whole { // a journal whose hashes are wrong need not replay
		c.say(2, t.brokenSeq(), "it does not replay: %s", strings.TrimPrefix(t.brokenAt.Error(), fmt.Sprintf("saga %s: ", t.ID)))
	}
	ends := 0
	for i, r := range t.Records {
		if r.Kind != journal.Finished {
			continue
		}
		ends++
		if i != len(t.Records)-1 {
			c.say(2, r.Seq, "record %d is terminal, but %d more follow", r.Seq, len(t.Records)-1-i)
		}
	}
	if ends > 1 {
		c.say(2, t.Records[len(t.Records)-1].Seq, "it ended %d times", ends)
	}
}

// hashes checks the part of invariant 2 that needs only the records. It reports whether their seqs
// and hashes are right.
func (c *sagaCheck) hashes(s Saga) bool {
	var prev []byte
	for i, r := range s.Records {
		if err := journal.Verify(s.ID, prev, int64(i+1), s.Records[i:i+1]); err != nil {
			c.say(2, r.Seq, "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("%v: saga %s: ", journal.ErrBroken, s.ID)))
			return false
		}
		prev = r.Hash
	}
	return true
}

// unread checks invariant 22: a node writes nothing after a record that it cannot read.
func (c *sagaCheck) unread(t *sagaState) {
	at := t.brokenSeq()
	if c.cfg.OneProgram && errors.Is(t.brokenAt, saga.ErrUnreadable) && at < t.Records[len(t.Records)-1].Seq {
		c.say(22, at+1, "record %d cannot be read, but %d more were written after it", at, t.Records[len(t.Records)-1].Seq-at)
	}
}

// brokenSeq returns the seq of the record that does not replay.
func (t *sagaState) brokenSeq() int64 {
	if t.brokenAt == nil {
		return 0
	}
	m := machine.New(t.Definition, t.ID)
	for _, r := range t.Records {
		if m.Apply(r) != nil {
			return r.Seq
		}
	}
	return 0
}

// keys checks invariant 5: the key is a function of saga, path, way and generation.
func (c *sagaCheck) keys(t *sagaState) {
	for _, n := range t.order {
		for _, list := range [][]sent{n.do, n.undo} {
			c.keysOfWay(t, n, list)
		}
	}
}

func (c *sagaCheck) keysOfWay(t *sagaState, n *stepState, list []sent) {
	want := ""
	for i, s := range list {
		r := s.record
		fresh := i == 0 || list[i-1].record.Generation != r.Generation
		if !fresh && list[i-1].record.Key != r.Key {
			c.say(5, r.Seq, "attempt %d of %s %s has another key than the attempt before", r.Attempt, r.Way, r.Path)
		}
		if !derived(n.step, r.Way) {
			continue
		}
		if fresh {
			want = idempotency.Key(t.effectsOf(r.Path), r.Path, r.Way, r.Generation)
		}
		if r.Key != want {
			c.say(5, r.Seq, "attempt %d of %s %s has key %s, not %s", r.Attempt, r.Way, r.Path, r.Key, want)
		}
	}
}

// derived reports whether recourse derives the key, and not the definition.
func derived(s *saga.Step, way journal.Way) bool {
	if s == nil {
		return false
	}
	if way == journal.Undo {
		return s.Compensate != nil && s.Compensate.Key == nil
	}
	return s.Key == nil
}

// order checks invariant 9: the plan is in reverse order, and each compensation waits for the one
// before it.
func (c *sagaCheck) order(t *sagaState) {
	if t.plan == nil {
		return
	}
	if t.Definition != nil {
		c.backwards(t)
	}
	place := make(map[string]int, len(t.plan.Plan))
	for i, path := range t.plan.Plan {
		place[path] = i
	}
	settled := 0
	for at, r := range t.Records[t.planAt+1:] {
		i, planned := place[r.Path]
		switch {
		case r.Way != journal.Undo, turnedDown(t.data[t.planAt+1+at]):
			continue
		case !planned:
			c.say(9, r.Seq, "record %d undoes %s, which is not in the plan", r.Seq, r.Path)
		case i > settled:
			c.say(9, r.Seq, "record %d undoes %s while %s is not acknowledged", r.Seq, r.Path, t.plan.Plan[settled])
		case i == settled && ends(r, t.data[t.planAt+1+at]):
			settled++
		}
	}
}

// turnedDown reports whether a record is a rejected command.
func turnedDown(data any) bool {
	d, ok := data.(*saga.CommandData)
	return ok && d.Rejected != nil
}

// backwards compares the plan with the first records of the steps.
func (c *sagaCheck) backwards(t *sagaState) {
	var last *stepState
	for _, path := range t.plan.Plan {
		n := t.effect(path)
		if n == nil || n.step == nil || n.step.Compensate == nil {
			c.say(9, t.Records[t.planAt].Seq, "the plan has %s, which has no compensation", path)
			continue
		}
		if last != nil && n.step.Compensate.Order == last.step.Compensate.Order && t.began(n.path) > t.began(last.path) {
			c.say(9, t.Records[t.planAt].Seq, "the plan undoes %s before %s, which began later", last.path, n.path)
		}
		last = n
	}
}

// ends reports whether the record ends a compensation.
func ends(r journal.Record, data any) bool {
	switch d := data.(type) {
	case *saga.OutcomeData:
		return d.Next == saga.NextDone
	case *saga.CommandData:
		return r.Kind == journal.Operator && d.Rejected == nil && (d.Outcome == "compensated" || d.Outcome == "skip")
	}
	return r.Kind == journal.Skipped
}

// arrivals checks the same in the ledger: in the order of the plan, a compensation first arrives
// after the one before it had its effect.
func (c *sagaCheck) arrivals(t *sagaState) {
	if t.plan == nil {
		return
	}
	var before string
	var done int64
	for _, path := range t.plan.Plan {
		n := t.steps[path]
		if n == nil || len(n.undo) > 0 && n.undo[0].record.Seq <= int64(t.planAt) {
			continue // a session had begun to undo that call before
		}
		var last int64
		for _, k := range keysOf(n.undo) {
			for _, e := range c.ledger.of(k).requests {
				if e.N < done {
					c.say(9, t.Records[t.planAt].Seq, "the undo of %s arrived (ledger %d) before that of %s had its effect (%d)", path, e.N, before, done)
				}
			}
			for _, e := range c.ledger.of(k).undos {
				last = max(last, e.N)
			}
		}
		if last > 0 {
			before, done = path, last
		}
	}
}

// forward checks invariant 10: no step runs forward once compensation has begun.
func (c *sagaCheck) forward(t *sagaState) {
	if t.planAt < 0 {
		return
	}
	for _, r := range t.Records[t.planAt+1:] {
		if r.Kind == journal.Intent && r.Way == journal.Do && !t.final(r.Path) {
			c.say(10, r.Seq, "record %d runs %s forward after compensation had begun", r.Seq, r.Path)
		}
	}
}
