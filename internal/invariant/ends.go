package invariant

import (
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// comparable reports whether the ledger shows the step's effects.
func (c *sagaCheck) comparable(n *stepState) bool {
	return n.wrote() && c.ledger.covers(n.do) && c.ledger.seen(keysOf(n.do))
}

// succeeded checks invariant 7: each step that succeeded has one effect, and it stands.
func (c *sagaCheck) succeeded(t *sagaState) {
	if t.ended() != saga.Succeeded {
		return
	}
	for _, n := range t.whole() {
		if n.state != journal.Succeeded || !n.wrote() || !c.ledger.covers(n.do) || n.undoneBefore {
			continue
		}
		keys, seq := keysOf(n.do), n.do[len(n.do)-1].record.Seq
		if !n.shown() && !c.ledger.seen(keys) {
			continue
		}
		switch made := c.ledger.made(keys); {
		case made == 0:
			c.say(7, seq, "step %s succeeded, but the remote service has no effect of it", n.path)
		case made > 1 && !c.ledger.keyless(keys):
			c.say(7, seq, "step %s took effect %d times", n.path, made)
		}
		if c.ledger.taken(keys) > 0 && !n.settled && !c.undoneLater(t, n) { // a session may have undone the call
			c.say(7, seq, "step %s succeeded, but its effect was undone", n.path)
		}
	}
}

// compensated checks invariant 8: every effect is undone, also of steps in doubt.
func (c *sagaCheck) compensated(t *sagaState) {
	if t.ended() != saga.Compensated {
		return
	}
	for _, n := range t.whole() {
		if t.final(n.path) || !c.comparable(n) || n.skippedByWhen() || n.undoneBefore {
			continue
		}
		if left := c.remaining(n); left > 0 {
			c.say(8, n.do[0].record.Seq, "the saga is compensated, but %d effect(s) of step %s remain", left, n.path)
		}
	}
}

// remaining counts the step's effects that stand. A compensation with an effect of its own, such as
// a refund, counts as undoing.
func (c *sagaCheck) remaining(n *stepState) int {
	keys := keysOf(n.do)
	left := -c.ledger.taken(keys)
	for _, k := range keys {
		left += len(c.ledger.of(k).effects)
	}
	for _, k := range keysOf(n.undo) {
		left -= len(c.ledger.of(k).effects)
	}
	return left
}

// remains checks the part of invariant 11 that the journal and the row show: a saga that has ended
// has no entry in the inbox, and a compensated one has no residual effects.
func (c *sagaCheck) remains(t *sagaState) {
	if t.finished == nil {
		return
	}
	seq := t.Records[len(t.Records)-1].Seq
	if t.Head != nil && len(t.Head.Inbox) > 0 {
		c.say(11, seq, "the saga has ended, but has %d entries in the inbox", len(t.Head.Inbox))
	}
	if t.ended() == saga.Compensated && len(t.finished.Residual) > 0 {
		c.say(11, seq, "the saga is compensated, but has residual effects")
	}
}

// residual checks the rest of invariant 11 for failed sagas: `residual` names every effect that
// remains, and no other.
func (c *sagaCheck) residual(t *sagaState) {
	if t.ended() != saga.Failed {
		return
	}
	named := make(map[string]string)
	for _, left := range t.finished.Residual {
		named[left.Path] = left.Why
	}
	for _, n := range t.whole() {
		if t.final(n.path) || !c.comparable(n) || n.undoneBefore {
			continue
		}
		why, ok := named[n.path]
		left, seq := c.remaining(n), n.do[0].record.Seq
		switch {
		case left > 0 && !ok && !n.skippedByWhen():
			c.say(11, seq, "an effect of step %s remains, but `residual` does not name it", n.path)
		case left <= 0 && strings.HasPrefix(why, "it happened") && !c.undoneLater(t, n):
			c.say(11, seq, "`residual` names step %s, but no effect of it remains", n.path)
		}
	}
}

// doubted checks the part of invariant 11 about sagas that succeed: `doubts` names every effect of
// a step that did not succeed.
func (c *sagaCheck) doubted(t *sagaState) {
	if t.ended() != saga.Succeeded {
		return
	}
	named := make(map[string]bool)
	for _, doubt := range t.finished.Doubts {
		named[doubt.Path] = true
	}
	for _, n := range t.whole() {
		if n.state == journal.Succeeded || named[n.path] || !c.comparable(n) || n.skippedByWhen() {
			continue
		}
		if c.remaining(n) > 0 {
			c.say(11, n.do[0].record.Seq, "an effect of step %s, which did not succeed, remains, but `doubts` does not name it", n.path)
		}
	}
}
