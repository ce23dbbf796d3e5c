package invariant

import (
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// chain is invariant 2: seq dense, hash-chained, replayable, one terminal record and that last.
func (c *checker) chain(t *tale) {
	if err := journal.Verify(t.ID, nil, 1, t.Records); err != nil {
		c.say(2, t.ID, "%v", err)
	}
	if t.brokenAt != nil {
		c.say(2, t.ID, "it does not replay: %v", t.brokenAt)
	}
	ends := 0
	for i, r := range t.Records {
		if r.Kind != journal.Finished {
			continue
		}
		ends++
		if i != len(t.Records)-1 {
			c.say(2, t.ID, "record %d is terminal, and %d more follow", r.Seq, len(t.Records)-1-i)
		}
	}
	if ends > 1 {
		c.say(2, t.ID, "it ended %d times", ends)
	}
}

// keys is invariant 5: the key is a function of saga, path, way and generation.
func (c *checker) keys(t *tale) {
	of := make(map[step]string)
	for _, n := range t.order {
		for _, list := range [][]sent{n.do, n.undo} {
			for _, s := range list {
				r := s.record
				at := step{t.ID, r.Path, r.Way, r.Generation}
				if before, ok := of[at]; ok && before != r.Key {
					c.say(5, t.ID, "attempt %d of %s %s has another key than the one before", r.Attempt, r.Way, r.Path)
				}
				of[at] = r.Key
				if want := idempotency.Key(t.ID, r.Path, r.Way, r.Generation); derived(n.step, r.Way) && r.Key != want {
					c.say(5, t.ID, "attempt %d of %s %s has key %s, not %s", r.Attempt, r.Way, r.Path, r.Key, want)
				}
			}
		}
	}
}

// derived reports whether the definition leaves the key to recourse.
func derived(s *saga.Step, way journal.Way) bool {
	if s == nil {
		return false
	}
	if way == journal.Undo {
		return s.Compensate != nil && s.Compensate.Key == nil
	}
	return s.Key == nil
}

// order is invariant 9: the plan goes backwards, and each undo waits for the one before it.
func (c *checker) order(t *tale) {
	if t.plan == nil {
		return
	}
	c.backwards(t)
	place := make(map[string]int, len(t.plan.Plan))
	for i, path := range t.plan.Plan {
		place[path] = i
	}
	settled := 0
	for _, r := range t.Records[t.planAt+1:] {
		i, planned := place[r.Path]
		switch {
		case r.Way != journal.Undo:
			continue
		case !planned:
			c.say(9, t.ID, "record %d undoes %s, which is not in the plan", r.Seq, r.Path)
		case i > settled:
			c.say(9, t.ID, "record %d undoes %s while %s is not acknowledged", r.Seq, r.Path, t.plan.Plan[settled])
		case i == settled && ends(r):
			settled++
		}
	}
	c.arrivals(t)
}

// backwards checks the plan against the first records of the steps.
func (c *checker) backwards(t *tale) {
	var last *told
	for _, path := range t.plan.Plan {
		n := t.steps[path]
		if n == nil || n.step == nil || n.step.Compensate == nil {
			c.say(9, t.ID, "the plan has %s, which cannot be undone", path)
			continue
		}
		if last != nil && n.step.Compensate.Order == last.step.Compensate.Order && n.first > last.first {
			c.say(9, t.ID, "the plan undoes %s before %s, which began later", last.path, n.path)
		}
		last = n
	}
}

// ends reports whether the record brings an undo to its end.
func ends(r journal.Record) bool {
	switch r.Kind {
	case journal.Skipped:
		return true
	case journal.Outcome:
		var d saga.OutcomeData
		return decode(r, &d) == nil && d.Then == saga.ThenDone
	case journal.Operator:
		var d saga.OrderData
		return decode(r, &d) == nil && d.Rejected == nil && (d.Outcome == "compensated" || d.Outcome == "skip")
	}
	return false
}

// arrivals checks the same on the other side: in the order of the plan, first
// sends arrive after what the one before them undid.
func (c *checker) arrivals(t *tale) {
	var before string
	var done int64
	for _, path := range t.plan.Plan {
		n := t.steps[path]
		if n == nil {
			continue
		}
		var last int64
		for _, k := range keysOf(n.undo) {
			for _, e := range c.ledger.all.Key(k) {
				if e.N < done {
					c.say(9, t.ID, "the undo of %s arrived (ledger %d) before that of %s had its effect (%d)", path, e.N, before, done)
				}
			}
			for _, e := range c.ledger.undos[k] {
				last = max(last, e.N)
			}
		}
		if last > 0 {
			before, done = path, last
		}
	}
}

// forward is invariant 10: nothing is sent forward once undoing has begun.
func (c *checker) forward(t *tale) {
	if t.planAt < 0 {
		return
	}
	for _, r := range t.Records[t.planAt+1:] {
		if r.Kind == journal.Intent && r.Way == journal.Do && !t.finally[strings.TrimSuffix(r.Path, querySuffix)] {
			c.say(10, t.ID, "record %d goes forward with %s after undoing had begun", r.Seq, r.Path)
		}
	}
}
