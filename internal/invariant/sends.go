package invariant

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
)

// intended is an intent, waiting for its request to be found.
type intended struct {
	like likeness
	at   time.Time
	used bool
}

// eachSend is invariant 4: each write that arrived maps to one earlier intent of
// its own with the same content; what the network delivered twice does not count. Reads leave
// no effect and may be people's, so they are left out.
func (c *checker) eachSend(tales []*tale) {
	var list []*intended
	byKey := make(map[string][]*intended)
	for _, t := range tales {
		for _, n := range t.order {
			for _, sent := range slices.Concat(n.do, n.undo) {
				in := &intended{like: likenessOf(sent.record.Key, sent.data.Request), at: sent.record.At}
				list = append(list, in)
				byKey[in.like.key] = append(byKey[in.like.key], in)
			}
		}
	}
	for _, e := range c.ledger.all.Requests() {
		if !effectful(e.Method) || e.Fault == world.Duplicate {
			continue
		}
		candidates := byKey[e.Key]
		if e.Key == "" {
			candidates = list
		}
		c.match(e, candidates)
	}
}

// match takes the first intent that is left for a request.
func (c *checker) match(e world.Entry, candidates []*intended) {
	looks := false
	for _, in := range candidates {
		if !in.like.matches(e) {
			continue
		}
		looks = true
		// Journals keep whole milliseconds, and are written before the request leaves.
		if !in.used && !e.At.Before(in.at) {
			in.used = true
			return
		}
	}
	switch {
	case looks:
		c.say(4, uuid.Nil, "%s %s (ledger %d, key %q) arrived more often than it was intended, or before", e.Method, e.Path, e.N, e.Key)
	case len(candidates) > 0 && e.Key != "":
		c.say(4, uuid.Nil, "%s %s (ledger %d, key %q) is not what its intent says", e.Method, e.Path, e.N, e.Key)
	default:
		c.say(4, uuid.Nil, "%s %s (ledger %d, key %q) arrived without an intent", e.Method, e.Path, e.N, e.Key)
	}
}

// effects is the first half of invariant 6: a key has at most one effect.
func (c *checker) effects() {
	said := make(map[string]bool)
	for _, e := range c.ledger.all.Effects() {
		n := len(c.ledger.effects[e.Key])
		if e.Key == "" || n < 2 || keyless[e.Service] || said[e.Key] {
			continue
		}
		said[e.Key] = true
		c.say(6, uuid.Nil, "key %s had %d effects at %s (%s)", e.Key, n, e.Service, e.Op)
	}
}

// asked is the second half of invariant 6, per step: `ask` sends nothing again
// while it is not known what the last send did; `verify` has at most one effect, whatever the service.
func (c *checker) asked(t *tale) {
	for _, n := range t.order {
		if n.step == nil || len(n.do) == 0 {
			continue
		}
		switch n.step.InDoubt.Policy {
		case saga.Ask:
			c.askedFirst(t, n.path)
		case saga.VerifyIt:
			for _, key := range keysOf(n.do) {
				if e := c.ledger.effects[key]; len(e) > 1 {
					c.say(6, t.ID, "step %s asks before it sends again, and yet had %d effects", n.path, len(e))
				}
			}
		}
	}
}

func (c *checker) askedFirst(t *tale, path string) {
	doubt := false
	for _, r := range t.Records {
		if r.Path != path || r.Way == journal.Undo {
			continue
		}
		switch r.Kind {
		case journal.Outcome:
			doubt = doubt || r.Class == journal.InDoubt
		case journal.Operator:
			doubt = false
		case journal.Intent:
			if doubt {
				c.say(6, t.ID, "record %d sends %s again although it is in doubt and nobody was asked", r.Seq, path)
			}
		}
	}
}
