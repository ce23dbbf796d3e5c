package world

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// state is the whole state of the world. Reset replaces it, so that a request in flight ends in the
// old state.
type state struct {
	mu      sync.Mutex
	now     func() time.Time
	book    *book
	keys    keys
	rules   []*FaultState
	tokens  map[string]string    // tokens by service
	byID    map[resource]*effect // the latest effect with its name
	byKey   map[resource][]*effect
	barred  map[resource]bool // keys that can no longer create anything
	counter int               // counter of ids
}

// resource identifies a resource of a collection: by its id, or by its key.
type resource struct {
	of   *collection
	name string
}

// effect is an effect of a request.
type effect struct {
	id     string // unique in this world
	of     *collection
	shown  fields
	undone bool
	under  *effect // the effect that it replaced, unless undone: both are undone together
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
		// Each id has an entry, so ids after base are new, even after a reset.
		counter: int(base),
	}
}

// arrive records the request and returns the effect of a rule. An error of the ledger stops the
// request.
func (s *state) arrive(c *call) (Do, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do := choose(s.rules, c)
	c.fault = do.String()
	c.entries = append(c.entries, s.book.append(c.entry(Request)))
	return do, s.book.err
}

// arriveAgain records a duplicated delivery; rules do not apply to it.
func (s *state) arriveAgain(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entries = append(c.entries, s.book.append(c.entry(Request)))
	return s.book.err
}

// admit checks the credentials and claims the key. ok as in keys.take.
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

// perform applies the call. The effect, its ledger entries and its key change under one lock.
func (s *state) perform(c *call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := gone()
	if !s.isBarred(c) { // checked again: the key may have been undone while the call was delayed
		a = c.op.run(s, c)
	}
	s.keys.settle(c, a, s.now())
	return a
}

// answered records the status of the call.
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

// made records an effect. With a name it creates or replaces the resource of that name; otherwise
// the effect's id is its name.
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

// undo records that e, and the effects it replaced, are undone.
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
