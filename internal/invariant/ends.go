package invariant

import (
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// comparable reports whether the ledger can tell what the step did.
func (c *sagaCheck) comparable(n *stepState) bool {
	return n.wrote() && c.ledger.covers(n.do) && c.ledger.seen(keysOf(n.do))
}

// succeeded is invariant 7: each step that succeeded has one effect, and it stands.
func (c *sagaCheck) succeeded(t *sagaState) {
	if t.ended() != saga.Succeeded {
		return
	}
	for _, n := range t.order {
		if n.state != journal.Succeeded || !n.wrote() || !c.ledger.covers(n.do) {
			continue
		}
		keys, seq := keysOf(n.do), n.do[len(n.do)-1].record.Seq
		if !n.shown() && !c.ledger.seen(keys) {
			continue
		}
		switch made := c.ledger.made(keys); {
		case made == 0:
			c.say(7, seq, "step %s succeeded, but the other side has no effect of it", n.path)
		case made > 1 && !c.ledger.keyless(keys):
			c.say(7, seq, "step %s took effect %d times", n.path, made)
		}
		if c.ledger.taken(keys) > 0 {
			c.say(7, seq, "step %s succeeded, and was undone", n.path)
		}
	}
}

// compensated is invariant 8: whatever took effect, in doubt or not, is undone.
func (c *sagaCheck) compensated(t *sagaState) {
	if t.ended() != saga.Compensated {
		return
	}
	for _, n := range t.order {
		if t.final(n.path) || !c.comparable(n) || n.skippedByWhen() {
			continue
		}
		if left := c.left(n); left > 0 {
			c.say(8, n.do[0].record.Seq, "the saga is compensated, but %d effect(s) of step %s stand", left, n.path)
		}
	}
}

// left counts the step's effects that stand. A compensation that makes something
// of its own, such as a refund, counts as undoing.
func (c *sagaCheck) left(n *stepState) int {
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

// remains is the part of invariant 11 that the journal and the row show: a saga
// that has ended has nothing in the inbox, and nothing remains of one that is compensated.
func (c *sagaCheck) remains(t *sagaState) {
	if t.finished == nil {
		return
	}
	seq := t.Records[len(t.Records)-1].Seq
	if t.Head != nil && len(t.Head.Inbox) > 0 {
		c.say(11, seq, "the saga has ended, and %d entries of it are in the inbox", len(t.Head.Inbox))
	}
	if t.ended() == saga.Compensated && len(t.finished.Residual) > 0 {
		c.say(11, seq, "the saga is compensated, and yet effects remain")
	}
}

// residual is the rest of it: what remains is named, and nothing else is.
func (c *sagaCheck) residual(t *sagaState) {
	if t.ended() != saga.Failed {
		return
	}
	named := make(map[string]string)
	for _, left := range t.finished.Residual {
		named[left.Path] = left.Why
	}
	for _, n := range t.order {
		if t.final(n.path) || !c.comparable(n) {
			continue
		}
		why, ok := named[n.path]
		left, seq := c.left(n), n.do[0].record.Seq
		switch {
		case left > 0 && !ok && !n.skippedByWhen():
			c.say(11, seq, "an effect of step %s stands, and `residual` does not name it", n.path)
		case left <= 0 && strings.HasPrefix(why, "it happened"):
			c.say(11, seq, "`residual` names step %s, and nothing of it stands", n.path)
		}
	}
}

// doubted is the part of invariant 11 about sagas that succeed: what stands of a step that did not
// is named in `doubts`.
func (c *sagaCheck) doubted(t *sagaState) {
	if t.ended() != saga.Succeeded {
		return
	}
	named := make(map[string]bool)
	for _, open := range t.finished.Doubts {
		named[open.Path] = true
	}
	for _, n := range t.order {
		if n.state == journal.Succeeded || named[n.path] || !c.comparable(n) || n.skippedByWhen() {
			continue
		}
		if c.left(n) > 0 {
			c.say(11, n.do[0].record.Seq, "an effect of step %s, which did not succeed, stands, and `doubts` does not name it", n.path)
		}
	}
}
