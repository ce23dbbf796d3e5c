package world

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// state is all that the world remembers. Reset replaces it as a whole, so that a request still
// under way ends in the past that it came from.
type state struct {
	mu      sync.Mutex
	now     func() time.Time
	book    *book
	keys    keys
	rules   []*FaultState
	tokens  map[string]string    // by service
	byID    map[resource]*effect // the latest under its name
	byKey   map[resource][]*effect
	barred  map[resource]bool // keys that may make nothing any more
	counter int               // of ids
}

// resource names something of a collection: by its id, or by the key it was made under.
type resource struct {
	of   *collection
	name string
}

// effect is something that was done.
type effect struct {
	id     string // unique in the world
	of     *collection
	shown  fields
	undone bool
	under  *effect // what it replaced, if that was not undone: they are undone together
}

func newState(cfg Config, out io.Writer, base int64) *state {
	return &state{
		now:    cfg.Now,
		book:   newBook(cfg.Now, out, base),
		keys:   newKeys(cfg.KeyWindow),
		tokens: maps.Clone(cfg.Tokens),
		byID:   make(map[resource]*effect),
		byKey:  make(map[resource][]*effect),
		barred: make(map[resource]bool),
		// Each id has an entry, so that ids after base are new ones, after a reset too.
		counter: int(base),
	}
}

// arrive records the request and gives what a rule does to it. The error is the ledger's: nothing
// may be done then.
func (s *state) arrive(c *call) (Do, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do := choose(s.rules, c)
	c.fault = do.String()
	c.entries = append(c.entries, s.book.append(c.entry(Request)))
	return do, s.book.err
}

// arriveAgain records a delivery that the client did not ask for; no rule sees it.
func (s *state) arriveAgain(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entries = append(c.entries, s.book.append(c.entry(Request)))
	return s.book.err
}

// admit checks the credentials and takes the key. ok as in keys.take.
func (s *state) admit(c *call) (a answer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token := s.tokens[c.op.service]; token != "" && token != c.token {
		a := problem(http.StatusUnauthorized, "credentials refused",
			"send Authorization: Bearer with this service's token, or set another token with POST /_auth")
		a.header.Set("WWW-Authenticate", "Bearer")
		return a, false
	}
	if s.isBarred(c) {
		return gone(), false
	}
	return s.keys.take(c, s.now())
}

// perform does what the call asks. The effect, its ledger entries and its key change under one
// lock.
func (s *state) perform(c *call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := gone()
	if !s.isBarred(c) { // again: the key may have been undone while the call was delayed
		a = c.op.run(s, c)
	}
	s.keys.settle(c, a, s.now())
	return a
}

// answered records how the call ended.
func (s *state) answered(c *call, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.answered(c.entries, status, c.replayed)
}

func (s *state) isBarred(c *call) bool {
	return c.op.makes != nil && c.key != "" && s.barred[resource{c.op.makes, c.key}]
}

func gone() answer {
	return problem(http.StatusGone, "key was undone",
		"this key was undone before the request arrived, so nothing may be made under it: use a new key if it should be")
}

// made records an effect. A name makes or replaces the resource of that name; without, the effect's
// id is its name.
func (s *state) made(c *call, of *collection, name string, shown fields) {
	e := &effect{id: s.newID(of.prefix), of: of, shown: shown}
	if name == "" {
		name = e.id
	}
	shown.text("id", name)
	shown.text("status", of.made)
	at := resource{of, name}
	if old := s.byID[at]; old != nil && !old.undone {
		e.under = old
	}
	s.byID[at] = e
	if c.key != "" {
		by := resource{of, c.key}
		s.byKey[by] = append(s.byKey[by], e)
	}
	s.record(c, Effect, e.id, "")
}

// undo records that e, and what it replaced, is undone.
func (s *state) undo(c *call, e *effect) {
	for ; e != nil && !e.undone; e = e.under {
		e.undone = true
		e.shown = maps.Clone(e.shown)
		e.shown.text("status", e.of.undone)
		s.record(c, Undo, s.newID("undo"), e.id)
	}
}

func (s *state) record(c *call, k Kind, id, undoes string) {
	entry := c.entry(k)
	entry.Request, entry.EffectID, entry.Undoes = c.entries[0], id, undoes
	c.entries = append(c.entries, s.book.append(entry))
}

func (s *state) newID(prefix string) string {
	s.counter++
	return fmt.Sprintf("%s_%d", prefix, s.counter)
}

func (s *state) faults() []FaultState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]FaultState, len(s.rules))
	for i, f := range s.rules {
		out[i] = *f
	}
	return out
}
