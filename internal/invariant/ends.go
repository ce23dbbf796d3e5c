package invariant

import (
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// comparable reports whether the ledger can tell what the step did.
func (c *checker) comparable(n *told) bool { return n.named() && c.ledger.seen(keysOf(n.do)) }

// named reports whether the step wrote, under a key that the ledger shows.
func (n *told) named() bool {
	if _, writes := n.call(); !writes || len(n.do) == 0 {
		return false
	}
	switch p := n.step.Idempotency; p.In {
	case idempotency.Header:
		return strings.EqualFold(p.Name, idempotency.DefaultPlacement.Name)
	case idempotency.Body:
		return true
	}
	return false
}

// ended returns how the saga ended, "" if it has not.
func (t *tale) ended() saga.Status {
	if t.finished == nil {
		return ""
	}
	return t.finished.Status
}

// succeeded is invariant 7: each step that succeeded has one effect, and it stands.
func (c *checker) succeeded(t *tale) {
	if t.ended() != saga.Succeeded {
		return
	}
	for _, n := range t.order {
		if n.state != journal.Succeeded || !n.named() {
			continue
		}
		keys := keysOf(n.do)
		switch made := c.ledger.made(keys); {
		case made == 0:
			c.say(7, t.ID, "step %s succeeded, but the other side has no effect of it", n.path)
		case made > 1 && !c.atLeastOnce(keys):
			c.say(7, t.ID, "step %s took effect %d times", n.path, made)
		}
		if undone := c.ledger.undone(keys); undone > 0 {
			c.say(7, t.ID, "step %s succeeded, and was undone", n.path)
		}
	}
}

// atLeastOnce reports whether the service takes no notice of keys: there, sending again was the author's choice.
func (c *checker) atLeastOnce(keys []string) bool {
	for _, k := range keys {
		for _, e := range c.ledger.effects[k] {
			if !keyless[e.Service] {
				return false
			}
		}
	}
	return true
}

// compensated is invariant 8: whatever took effect, in doubt or not, is undone.
func (c *checker) compensated(t *tale) {
	if t.ended() != saga.Compensated {
		return
	}
	for _, n := range t.order {
		if t.finally[n.path] || !c.comparable(n) || n.skippedByWhen() {
			continue
		}
		if left := c.left(n); left > 0 {
			c.say(8, t.ID, "the saga is compensated, but %d effect(s) of step %s stand", left, n.path)
		}
	}
}

// skippedByWhen reports whether the compensation's own `when` said that nothing is to be done.
func (n *told) skippedByWhen() bool { return n.lifted && n.settled && len(n.undo) == 0 }

// left counts the step's effects that stand. A compensation that makes something
// of its own, such as a refund, counts as undoing.
func (c *checker) left(n *told) int {
	keys := keysOf(n.do)
	left := 0
	for _, k := range keys {
		left += len(c.ledger.effects[k])
	}
	left -= c.ledger.undone(keys)
	for _, k := range keysOf(n.undo) {
		left -= len(c.ledger.effects[k])
	}
	return left
}

// residual is invariant 11: what remains is named, nothing else is, and a saga
// that has ended has nothing in the inbox.
func (c *checker) residual(t *tale) {
	if t.finished == nil {
		return
	}
	if t.Head != nil && len(t.Head.Inbox) > 0 {
		c.say(11, t.ID, "the saga has ended, and %d entries of it are in the inbox", len(t.Head.Inbox))
	}
	if t.ended() == saga.Compensated && len(t.finished.Residual) > 0 {
		c.say(11, t.ID, "the saga is compensated, and yet effects remain")
	}
	if t.ended() != saga.Failed {
		return
	}
	named := make(map[string]string)
	for _, left := range t.finished.Residual {
		named[left.Path] = left.Why
	}
	for _, n := range t.order {
		if t.finally[n.path] || !c.comparable(n) {
			continue
		}
		why, ok := named[n.path]
		left := c.left(n)
		switch {
		case left > 0 && !ok && !n.skippedByWhen():
			c.say(11, t.ID, "an effect of step %s stands, and `residual` does not name it", n.path)
		case left <= 0 && strings.HasPrefix(why, "it happened"):
			c.say(11, t.ID, "`residual` names step %s, and nothing of it stands", n.path)
		}
	}
}
