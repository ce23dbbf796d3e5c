package invariant

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// intended is an intent whose request eachSend looks for in the ledger.
type intended struct {
	like likeness
	saga uuid.UUID
	seq  int64
	at   time.Time
	// For a saga that may be running, open is the time of its last record. A later request may have
	// a later intent.
	open time.Time
	used bool
}

// sent collects the intents of the saga for eachSend.
func (c *sagaCheck) sent(t *sagaState) {
	for _, n := range t.order {
		for _, list := range [][]sent{n.do, n.undo} {
			if !c.ledger.covers(list) {
				continue
			}
			for _, s := range list {
				if s.data.Request.Own != nil {
					continue // the agent does it, and sends what it likes
				}
				in := intended{like: likenessOf(s.record.Key, s.data.Request), saga: t.ID, seq: s.record.Seq, at: s.record.At}
				if c.mayContinue(t) {
					in.open = t.last()
				}
				c.v.sends = append(c.v.sends, in)
			}
		}
	}
}

// mayContinue reports whether more may have happened than the journal says.
func (c *sagaCheck) mayContinue(t *sagaState) bool { return c.cfg.Clock.IsZero() && t.finished == nil }

// eachSend checks invariant 4: each write that arrived has an earlier intent of its own with the
// same content. Requests that the network delivered twice do not count. Reads are left out, because
// they have no effect and may come from people.
func (c *Checker) eachSend() {
	byKey := make(map[string][]*intended)
	for i := range c.sends {
		in := &c.sends[i]
		byKey[in.like.key] = append(byKey[in.like.key], in)
	}
	var all []*intended // for requests without a key
	for i := range c.ledger.Entries {
		e := &c.ledger.Entries[i]
		if e.Kind != world.Request || !effectful(e.Method) || e.Fault == world.Duplicate {
			continue
		}
		candidates := byKey[e.Key]
		if e.Key == "" {
			if all == nil {
				all = pointers(c.sends)
			}
			candidates = all
		}
		c.match(e, candidates)
	}
}

func pointers(list []intended) []*intended {
	all := make([]*intended, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// match assigns the first matching intent to a request.
func (c *Checker) match(e *world.Entry, candidates []*intended) {
	var alike, other *intended
	for _, in := range candidates {
		other = in
		if !in.like.matches(e) {
			continue
		}
		alike = in
		// Journals have whole milliseconds, and are written before the request is sent.
		if !in.used && !e.At.Add(c.ledger.Skew).Before(in.at) {
			in.used = true
			return
		}
	}
	strange := e.Key == "" && !c.ledger.Complete // another client may have sent it
	switch {
	case alike != nil && !strange:
		if later(e, candidates) {
			return
		}
		c.unsent(alike, "%s %s (ledger %d, key %q) arrived more often than it was intended, or before its intent", e)
	case other != nil && e.Key != "":
		c.unsent(other, "%s %s (ledger %d, key %q) differs from its intent", e)
	case c.ledger.Complete:
		c.say(4, "%s %s (ledger %d, key %q) arrived without an intent", e.Method, e.Path, e.N, e.Key)
	default:
		c.foreign++
	}
}

func (c *Checker) unsent(in *intended, format string, e *world.Entry) {
	at := len(c.found)
	c.say(4, format, e.Method, e.Path, e.N, e.Key)
	c.found[at].Saga, c.found[at].Seq = in.saga, in.seq
}

// later reports whether a request may belong to an intent that was written after its saga was read.
func later(e *world.Entry, candidates []*intended) bool {
	return slices.ContainsFunc(candidates, func(in *intended) bool { return !in.open.IsZero() && e.At.After(in.open) })
}

// unintended finds writes under a key of this saga that no intent has. If the ledger is complete,
// eachSend finds them, together with the writes that have no key of any saga.
func (c *sagaCheck) unintended(t *sagaState) {
	if c.ledger.Complete || t.Definition == nil {
		return
	}
	paths := make(map[string]bool)
	for id, step := range t.Definition.ByID { // any order
		paths[id] = step != nil
	}
	for path := range t.steps { // any order
		paths[path] = true
	}
	for path := range paths { // any order
		for _, way := range []journal.Way{journal.Do, journal.Undo} {
			c.unintendedWay(t, path, way)
		}
	}
}

func (c *sagaCheck) unintendedWay(t *sagaState, path string, way journal.Way) {
	var list []sent
	if n := t.steps[path]; n != nil {
		list = *n.intents(way)
	}
	next := 0
	if len(list) > 0 {
		next = list[len(list)-1].record.Generation + 1
	}
	known := keysOf(list)
	for g := range next + 1 {
		key := idempotency.Key(t.ID, path, way, g)
		if n := t.steps[path]; n != nil && way == journal.Undo && (t.ended() == saga.Succeeded || t.ended() == saga.Failed) && undoKeyOf(t, n, key) {
			continue // the saga that undoes this one, or goes on from it, has the intent
		}
		if slices.Contains(known, key) {
			continue
		}
		for _, e := range c.ledger.of(key).requests {
			if effectful(e.Method) && !(c.mayContinue(t) && e.At.After(t.last())) {
				c.say(4, 0, "%s %s (ledger %d) arrived under the key of %s %s, without an intent", e.Method, e.Path, e.N, way, path)
			}
		}
	}
}
