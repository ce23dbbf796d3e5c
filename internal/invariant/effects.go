package invariant

import (
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

// asked checks the second part: with `ask`, a step is not sent again while it is in doubt.
func (c *sagaCheck) asked(t *sagaState) {
	for _, n := range t.order {
		if n.step == nil || len(n.do) < 2 || n.step.InDoubt.Policy != saga.Ask {
			continue
		}
		doubt := false
		for _, r := range t.Records {
			if r.Path != n.path || r.Way == journal.Undo {
				continue
			}
			switch r.Kind {
			case journal.Outcome:
				doubt = doubt || r.Class == journal.InDoubt
			case journal.Operator:
				doubt = false
			case journal.Intent:
				if doubt {
					c.say(6, r.Seq, "record %d sends %s again although it is in doubt, without a command", r.Seq, n.path)
				}
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
