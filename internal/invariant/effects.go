package invariant

import (
	"cmp"

	"recourse/journal"
	"recourse/saga"
)

// effects checks the first part of invariant 6: a key has at most one effect.
func (c *Checker) effects() {
	if c.ledger.RequestsOnly {
		return
	}
	own := make(map[string]*intended)
	for i := range c.sends {
		own[c.sends[i].like.key] = &c.sends[i]
	}
	for i := range c.ledger.Entries {
		e := &c.ledger.Entries[i]
		list := c.ledger.of(e.Key).effects
		in := own[e.Key]
		if e.Key == "" || len(list) < 2 || list[0] != e || c.ledger.Keyless[e.Service] || in == nil && !c.ledger.Complete {
			continue
		}
		at := len(c.found)
		c.say(6, "key %s had %d effects at %s (%s)", e.Key, len(list), e.Service, e.Op)
		if in != nil {
			c.found[at].Saga, c.found[at].Seq = in.saga, in.seq
		}
	}
}

// asked checks the second part: a request is sent again while it is in doubt only if its policy
// allows that. With `ask`, a person has to say so. So also for the call of a tool that is neither
// read-only nor idempotent, unless the definition says that it may be sent again.
func (c *sagaCheck) asked(t *sagaState) {
	for _, n := range t.order {
		if n.step == nil {
			continue
		}
		c.askedOf(t, n, journal.Do, &n.step.InDoubt)
		if undo := n.step.Compensate; undo != nil {
			c.askedOf(t, n, journal.Undo, &undo.InDoubt)
		}
	}
}

func (c *sagaCheck) askedOf(t *sagaState, n *stepState, way journal.Way, policy *saga.InDoubt) {
	list := *n.intents(way)
	if len(list) < 2 || policy.Policy != saga.Ask && (policy.Policy != saga.RetrySame || policy.Declared) {
		return
	}
	doubt, next := false, 0
	var hint saga.Hint // what is known of the tool
	for _, r := range t.Records {
		if r.Path != n.path || r.Kind != journal.Operator && r.Way != way {
			continue
		}
		switch r.Kind {
		case journal.Outcome:
			doubt = doubt || r.Class == journal.InDoubt
			if next > 0 && list[next-1].result != nil && list[next-1].outcome.Seq == r.Seq {
				hint = cmp.Or(list[next-1].result.Hint, hint)
			}
		case journal.Operator:
			doubt = false
		case journal.Intent:
			if next == len(list) || list[next].record.Seq != r.Seq {
				continue // it is sent once it is approved
			}
			tool := list[next].data.Request.Tool
			if doubt && (policy.Policy == saga.Ask || tool != nil && hint != saga.HintRead && hint != saga.HintIdempotent) {
				c.say(6, r.Seq, "record %d sends %s again although it is in doubt, without a command", r.Seq, n.path)
			}
			if next++; tool != nil {
				hint = cmp.Or(tool.Hint, hint)
			}
		}
	}
}

// verified checks the last part: with `verify`, a step has at most one effect, whatever the service
// does.
func (c *sagaCheck) verified(t *sagaState) {
	for _, n := range t.order {
		if n.step == nil || n.step.InDoubt.Policy != saga.VerifyIt {
			continue
		}
		for _, key := range keysOf(n.do) {
			if e := c.ledger.of(key).effects; len(e) > 1 {
				c.say(6, n.do[0].record.Seq, "step %s verifies before it sends again, but had %d effects", n.path, len(e))
			}
		}
	}
}
