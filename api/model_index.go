package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
)

// recordedAsk is a request to a model in a session's journal.
type recordedAsk struct {
	path, key string
	life      int
	identity  string
	question  ask.Question
	ended     bool
	output    *ask.Output // of its answer; nil: it has none
	failure   *saga.OutcomeData
}

// modelIndex finds a session's requests to models.
type modelIndex struct {
	all        map[string]*recordedAsk   // by path
	identities map[string][]*recordedAsk // in the order of their records
	places     map[string][]*recordedAsk // likewise
	nodes      map[string]string         // the contents that end conversations, by Question.Chain
	responses  map[string]bool           // ids of the responses that the session's models have made
}

func newModelIndex() *modelIndex {
	return &modelIndex{all: make(map[string]*recordedAsk), identities: make(map[string][]*recordedAsk), places: make(map[string][]*recordedAsk),
		nodes: make(map[string]string), responses: make(map[string]bool)}
}

// add adds a record, if it belongs to a request to a model.
func (x *modelIndex) add(r *journal.Record) error {
	switch r.Kind {
	case journal.Called:
		d, ok := history.DataOf[saga.CalledData](r)
		if !ok || d.What != saga.ModelAsk {
			return nil
		}
		a := &recordedAsk{path: r.Path, life: d.Life, identity: d.Identity}
		if err := json.Unmarshal(d.Input, &a.question); err != nil {
			return fmt.Errorf("%w: %s: %w", saga.ErrUnreadable, r.Path, err)
		}
		x.all[a.path] = a
		x.identities[a.identity] = append(x.identities[a.identity], a)
		x.places[a.question.Place] = append(x.places[a.question.Place], a)
		if a.question.Conversation != "" {
			x.nodes[a.question.Chain] = a.question.Conversation
		}
	case journal.Intent:
		if a := x.all[r.Path]; a != nil {
			a.key = r.Key
		}
	case journal.Outcome:
		a := x.all[r.Path]
		d, ok := history.DataOf[saga.OutcomeData](r)
		if a == nil || !ok {
			return nil
		}
		if a.ended = true; r.Class != journal.Succeeded {
			a.failure = &d
			return nil
		}
		a.output = new(ask.Output)
		if err := json.Unmarshal(d.Output, a.output); err != nil {
			return fmt.Errorf("%w: %s: %w", saga.ErrUnreadable, r.Path, err)
		}
		x.responses[a.output.ID] = true
	case journal.Skipped, journal.Decided:
		if a := x.all[r.Path]; a != nil { // it was never sent
			a.ended, a.failure = true, &saga.OutcomeData{}
		}
	}
	return nil
}

// stands reports whether the request has an answer, or may get one.
func (a *recordedAsk) stands() bool { return !a.ended || a.output != nil }

// answers returns the recorded request whose answer a request with this identity gets: the first
// that no other request of this life has. again says that the client sends a request again: then it
// gets the same one. nil: there is none.
func (x *modelIndex) answers(identity string, used map[string]useOfAsk, again bool) *recordedAsk {
	var last *recordedAsk
	for _, a := range x.identities[identity] {
		use, is := used[a.path]
		switch {
		case !a.stands():
		case !is, use == askLeft:
			return a
		default:
			last = a
		}
	}
	if again {
		return last
	}
	return nil
}

// diverges returns the request of an earlier life at the place of p, which this life has not made
// and makes no more, because it makes p; nil: there is none.
func (x *modelIndex) diverges(p *ask.Prompt, life int, used map[string]useOfAsk) *recordedAsk {
	for _, a := range x.places[p.Place] {
		if _, is := used[a.path]; !is && a.life < life && a.output != nil && a.question.Route == p.Route {
			return a
		}
	}
	return nil
}

// useOfAsk says what became of a recorded request in a life.
type useOfAsk int

const (
	askServed useOfAsk = iota + 1 // a client gets its answer, or has got it
	askLeft                       // the client has left before the last byte
)

// content returns a content of the session by its hash. Errors: ask.ErrErased, those of the store.
func (l *live) content(ctx context.Context, hash string) ([]byte, error) {
	return Content(ctx, l.s.cfg.Store, l.id, hash)
}

// Content returns a content of a session by its hash, in hex. Errors: ask.ErrErased, those of the
// store.
func Content(ctx context.Context, store journal.Store, session uuid.UUID, hash string) ([]byte, error) {
	var sum [32]byte
	if n, err := hex.Decode(sum[:], []byte(hash)); err != nil || n != len(sum) {
		return nil, fmt.Errorf("%w: hash %q", saga.ErrUnreadable, hash)
	}
	blobs, err := store.Blobs(ctx, session, [][32]byte{sum})
	if err != nil {
		return nil, err
	}
	if len(blobs) == 0 {
		return nil, ask.ErrErased
	}
	return ask.Unpack(blobs[0])
}

// mostLives is how many sessions have the requests of their last life remembered.
const mostLives = 10_000

// lifeMemory remembers what the last life of each session has asked for. It is kept in memory:
// after a restart, or on another node, a request gets the response to an earlier one again, and
// never has a second effect.
type lifeMemory struct {
	mu       sync.Mutex
	sessions map[uuid.UUID]*lifeRequests // guarded by mu
}

type lifeRequests struct {
	life  int
	calls map[string]int      // calls whose ends the agent has got, by identity
	asks  map[string]useOfAsk // by path
}

// with passes what a life has asked for.
func (a *lifeMemory) with(session uuid.UUID, life int, do func(*lifeRequests)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.sessions[session]
	if l == nil || l.life != life {
		if a.sessions == nil {
			a.sessions = make(map[uuid.UUID]*lifeRequests)
		}
		for other := range a.sessions { // any of them
			if len(a.sessions) < mostLives {
				break
			}
			delete(a.sessions, other)
		}
		l = &lifeRequests{life: life, calls: make(map[string]int), asks: make(map[string]useOfAsk)}
		a.sessions[session] = l
	}
	do(l)
}

// count returns how many calls with this identity the life has made.
func (a *lifeMemory) count(session uuid.UUID, life int, identity string) (n int) {
	a.with(session, life, func(l *lifeRequests) { n = l.calls[identity] })
	return n
}

// add counts a call that came after so many others. Two requests at once are one call.
func (a *lifeMemory) add(session uuid.UUID, life int, identity string, before int) {
	a.with(session, life, func(l *lifeRequests) { l.calls[identity] = max(l.calls[identity], before+1) })
}
