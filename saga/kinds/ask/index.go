package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/llm"
)

// Recorded is a request to a model in a session's journal.
type Recorded struct {
	Path     string
	Life     int
	identity string
	Question Question
	sent     time.Time     // by the journal
	Took     time.Duration // of the provider, once the request has ended
	Ended    bool
	Output   *Output // of its answer; nil: it has none
	Failure  *saga.OutcomeData
	// Inherited requests are those of a fork's original. Erased ones have lost their contents with
	// it: the fork asks again.
	Inherited, Erased bool
}

// Index finds a session's requests to models.
type Index struct {
	all        map[string]*Recorded   // by path
	identities map[string][]*Recorded // in the order of their records
	places     map[string][]*Recorded // likewise
	nodes      map[string]string      // the contents that end conversations, by Question.Chain
	rests      map[string]bool        // the stored contents that Question.Rest names
	// made has what the provider adds to a request that names a response of the session, or an
	// item of one; nil: unknown.
	made map[string]*llm.Tokens
}

// NewIndex returns an index without requests.
func NewIndex() *Index {
	return &Index{all: make(map[string]*Recorded), identities: make(map[string][]*Recorded), places: make(map[string][]*Recorded),
		nodes: make(map[string]string), rests: make(map[string]bool), made: make(map[string]*llm.Tokens)}
}

// Add adds a record, if it belongs to a request to a model. A fork begins with the requests of its
// original that had an answer.
func (x *Index) Add(r *journal.Record) error {
	switch r.Kind {
	case journal.Started:
		d, _ := history.DataOf[saga.StartedData](r)
		if d.Fork == nil {
			return nil
		}
		for i := range d.Origin {
			if err := x.Add(&d.Origin[i]); err != nil {
				return err
			}
		}
		clear(x.nodes) // the contents of the original may be erased while the fork runs
		clear(x.rests)
		for _, a := range x.all { // any order
			a.Inherited = true
			if !a.Ended {
				a.Ended, a.Failure = true, &saga.OutcomeData{}
			}
		}
	case journal.Called:
		d, ok := history.DataOf[saga.CalledData](r)
		if !ok || d.What != saga.ModelAsk {
			return nil
		}
		a := &Recorded{Path: r.Path, Life: d.Life, identity: d.Identity}
		if err := json.Unmarshal(d.Input, &a.Question); err != nil {
			return fmt.Errorf("%w: %s: %w", saga.ErrUnreadable, r.Path, err)
		}
		x.all[a.Path] = a
		x.identities[a.identity] = append(x.identities[a.identity], a)
		x.places[a.Question.Place] = append(x.places[a.Question.Place], a)
		x.rests[a.Question.Rest] = true
		if a.Question.Conversation != "" {
			x.nodes[a.Question.Chain] = a.Question.Conversation
		}
	case journal.Intent:
		if a := x.all[r.Path]; a != nil {
			a.sent = r.At
		}
	case journal.Outcome:
		a := x.all[r.Path]
		d, ok := history.DataOf[saga.OutcomeData](r)
		if a == nil || !ok {
			return nil
		}
		a.Took = r.At.Sub(a.sent)
		if a.Ended = true; r.Class != journal.Succeeded {
			a.Failure = &d
			return nil
		}
		a.Output = new(Output)
		if err := json.Unmarshal(d.Output, a.Output); err != nil {
			return fmt.Errorf("%w: %s: %w", saga.ErrUnreadable, r.Path, err)
		}
		x.named(a.Output)
	case journal.Skipped, journal.Decided:
		if a := x.all[r.Path]; a != nil { // it was never sent
			a.Ended, a.Failure = true, &saga.OutcomeData{}
		}
	}
	return nil
}

// Stands reports whether the request has an answer, or may get one.
func (a *Recorded) Stands() bool { return !a.Ended || a.Output != nil && !a.Erased }

// Answers returns the recorded request whose answer a request with this identity gets: the first
// that no other request of this life has. recording says that another request of this life with
// this identity is being recorded. Then there was none for it, so a record without a use is new,
// and may be its own. again says that the client sends a request again: then it gets the same one.
// nil: there is none.
func (x *Index) Answers(identity string, used map[string]Use, recording, again bool) *Recorded {
	var last *Recorded
	for _, a := range x.identities[identity] {
		use, is := used[a.Path]
		if recording && !is {
			continue
		}
		switch {
		case !a.Stands() && is:
			last = nil // the client sends this one again, not one before it
		case !a.Stands():
		case use == Left, !is && !(again && last != nil):
			return a
		case is:
			last = a
		}
	}
	if again {
		return last
	}
	return nil
}

// Fails returns the recorded request with this identity that has failed, and that no other request
// of this life has; after all of them, the last one. nil: there is none.
func (x *Index) Fails(identity string, used map[string]Use) (found *Recorded) {
	for _, a := range x.identities[identity] {
		if a.Stands() {
			continue
		}
		found = a
		if _, is := used[a.Path]; !is {
			return a
		}
	}
	return found
}

// Diverges returns the request of an earlier life at the place of p, which this life has not made
// and makes no more, because it makes p; nil: there is none.
func (x *Index) Diverges(p *Prompt, life int, used map[string]Use) *Recorded {
	for _, a := range x.places[p.Place] {
		if a.Life >= life {
			break // and so are those that follow
		}
		if _, is := used[a.Path]; !is && a.Ended && a.Stands() && a.Question.Route == p.Route {
			return a
		}
	}
	return nil
}

// Divergence says how p differs from this request, which an earlier life has made at its place. get
// finds contents by their hashes. Errors: those of get, except ErrErased.
func (a *Recorded) Divergence(p *Prompt, rules Rules, get func(hash string) ([]byte, error)) (*saga.Divergence, error) {
	d := &saga.Divergence{From: a.Path}
	body, err := a.Question.Assemble(get)
	switch {
	case err == nil:
		d.Pointer = p.Pointer(body, rules)
	case !errors.Is(err, ErrErased):
		return nil, err
	}
	return d, nil
}

// Use says what became of a recorded request in a life.
type Use int

// The values of Use.
const (
	Served Use = iota + 1 // a client gets its answer, or has got it
	Left                  // the client has left before the last byte
)

// At returns the request with this path; nil if there is none.
func (x *Index) At(path string) *Recorded { return x.all[path] }

// Any reports whether there are requests.
func (x *Index) Any() bool { return len(x.all) > 0 }

// named notes what a response, and each of its items, adds to a request that names it.
func (x *Index) named(o *Output) {
	var said, all *llm.Tokens
	if o.Tokens != nil {
		// The provider counts what its tools have found as input, too.
		said, all = &llm.Tokens{Output: o.Tokens.Output}, &llm.Tokens{Input: o.Tokens.Input, Output: o.Tokens.Output}
	}
	x.made[o.ID] = o.Tokens
	for _, item := range o.Items {
		if x.made[item.ID] = all; contents[item.Type] != "" {
			x.made[item.ID] = said
		}
	}
}
