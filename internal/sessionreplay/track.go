package sessionreplay

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"sync"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
)

// step is a recorded step: a call, an own step, or a request to a model.
type step struct {
	path   string
	before int // how many records there are before it
	called saga.CalledData
	// expected: an agent that runs from its beginning asks for the step.
	expected bool
	// inherited: a fork has it from its original. The agent in the fork need not have asked for it.
	inherited bool
	found     bool // the replayed agent has asked for it
	// undone is how many records there are before the agent's request to undo it; 0: there is none
	// that an agent that runs from its beginning makes.
	undone int
}

// tracker knows what the session consists of, and what the replayed agent has asked for.
type tracker struct {
	steps   []*step // in the order of their records
	byPath  map[string]*step
	asks    *ask.Index
	answers map[[sha256.Size]byte]string // the requests to models that have an answer, by its hash
	undone  map[string]bool              // the steps whose undo the agent has asked for in the recorded session

	mu     sync.Mutex
	used   map[string]ask.Use // as the API counts it. Guarded by mu
	undos  map[string]bool    // the steps whose undo the replayed agent has asked for. Guarded by mu
	open   string             // the first step without an end that it has asked for; "": none. Guarded by mu
	timer  *time.Timer        // ends the replay if nothing more happens. Guarded by mu
	closed bool               // nothing more can be found. Guarded by mu
	found  *Difference        // guarded by mu
	failed error              // the replay could not go on. Guarded by mu
}

// read reads the records of the agent's work.
func (t *tracker) read(records []journal.Record) error {
	*t = tracker{byPath: make(map[string]*step), asks: ask.NewIndex(), answers: make(map[[sha256.Size]byte]string), undone: make(map[string]bool),
		used: make(map[string]ask.Use), undos: make(map[string]bool)}
	for i := range records {
		if err := t.asks.Add(&records[i]); err != nil { // with those of a fork's original
			return err
		}
		t.add(&records[i], i, false)
	}
	t.withoutFailed()
	for _, s := range t.steps {
		if a := t.asks.At(s.path); a != nil && a.Output != nil {
			var hash [sha256.Size]byte
			if n, err := hex.Decode(hash[:], []byte(a.Output.Answer)); err == nil && n == len(hash) && t.answers[hash] == "" {
				t.answers[hash] = s.path
			}
		}
	}
	return nil
}

// add adds a record. inherited: it is one of the original of a fork.
func (t *tracker) add(rec *journal.Record, before int, inherited bool) {
	if d, ok := history.DataOf[saga.StartedData](rec); ok && d.Fork != nil {
		for i := range d.Origin {
			t.add(&d.Origin[i], before, true)
		}
	}
	if d, ok := history.DataOf[saga.CommandData](rec); ok && d.Kind == (saga.UndoCall{}).Verb() && d.Actor == agentActor {
		t.undone[rec.Path] = true
		if s := t.byPath[rec.Path]; s != nil && !inherited {
			s.undone = before
		}
	}
	d, ok := history.DataOf[saga.CalledData](rec)
	if !ok {
		return
	}
	if d.Diverged != nil {
		t.diverged(d)
	}
	// Otherwise it is another attempt of an own step.
	if old := t.byPath[rec.Path]; old == nil || old.inherited && !inherited {
		s := &step{path: rec.Path, before: before, called: d, expected: true, inherited: inherited}
		t.steps, t.byPath[s.path] = append(t.steps, s), s
	}
}

// own reports whether the session itself has a step, and not only the original of a fork.
func (t *tracker) own() bool {
	return slices.ContainsFunc(t.steps, func(s *step) bool { return !s.inherited })
}

// agentActor is the actor of what an agent asks for with its token.
const agentActor = "agent"

// diverged drops what earlier lives have asked for from the request on that a later life has made
// otherwise: the later lives may not have asked for it.
func (t *tracker) diverged(d saga.CalledData) {
	from := t.byPath[d.Diverged.From]
	if from == nil {
		return
	}
	for _, s := range t.steps[slices.Index(t.steps, from):] {
		if s.called.Life < d.Life {
			s.expected = false
		}
	}
	for _, s := range t.steps {
		if s.undone > from.before {
			s.undone = 0
		}
	}
}

// withoutFailed drops the requests to models that have failed, if the same request has an answer,
// or failed before: clients repeat such requests.
func (t *tracker) withoutFailed() {
	type state struct{ answered, failed bool }
	same := make(map[string]*state)
	for _, s := range t.steps {
		if a := t.asks.At(s.path); a != nil && a.Stands() {
			same[s.called.Identity] = &state{answered: true}
		}
	}
	for _, s := range t.steps {
		a := t.asks.At(s.path)
		if a == nil || a.Stands() {
			continue
		}
		of := same[s.called.Identity]
		if of == nil {
			of = &state{}
			same[s.called.Identity] = of
		}
		s.expected = s.expected && !of.answered && !of.failed
		of.failed = true
	}
}

// missing reports whether the agent has to ask for the step, and has not.
func (s *step) missing() bool { return s.expected && !s.inherited && !s.found }

// notUndone returns the first step whose undo the agent has asked for in the recorded session, and
// not in the replay; nil: there is none. t.mu is held.
func (t *tracker) notUndone() *step {
	for _, s := range t.steps {
		if s.expected && !s.inherited && s.undone > 0 && !t.undos[s.path] {
			return s
		}
	}
	return nil
}

// next returns the first expected step that the agent has not asked for, among those that match;
// nil: there is none. t.mu is held.
func (t *tracker) next(match func(*step) bool) *step {
	for _, s := range t.steps {
		if s.missing() && (match == nil || match(s)) {
			return s
		}
	}
	return nil
}

// differing returns the recorded request in whose place the agent makes another one; nil: it is not
// known. t.mu is held.
func (t *tracker) differing(p *ask.Prompt) *step {
	if a := t.asks.Diverges(p, math.MaxInt, t.used); a != nil && t.byPath[a.Path].expected {
		return t.byPath[a.Path]
	}
	return t.next(func(s *step) bool {
		a := t.asks.At(s.path)
		return a != nil && a.Question.Route == p.Route
	})
}

// Found implements api.Replay.
func (r *Replay) Found(path string, ended bool) {
	t := &r.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.byPath[path].found = true
	if t.asks.At(path) != nil {
		t.used[path] = ask.Served
	}
	if !ended && t.open == "" {
		t.open = path
	}
	switch {
	case t.open == "":
	case t.next(nil) == nil:
		r.close()
	case t.timer == nil:
		t.timer = time.AfterFunc(r.quiet, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			r.close()
		})
	default:
		t.timer.Reset(r.quiet)
	}
}

// Undo implements api.Replay.
func (r *Replay) Undo(path string) {
	r.track.mu.Lock()
	defer r.track.mu.Unlock()
	r.track.undos[path] = true
}

// Undone implements api.Replay: what a person has undone is undone from the beginning, because it
// is not known when the agent has noticed it.
func (r *Replay) Undone(path string) bool {
	r.track.mu.Lock()
	defer r.track.mu.Unlock()
	return r.track.undos[path] || !r.track.undone[path]
}

// close ends the replay. r.track.mu is held.
func (r *Replay) close() {
	if t := &r.track; !t.closed {
		t.closed = true
		close(r.over)
	}
}

// Failed implements api.Replay: agents repeat such a request.
func (r *Replay) Failed(err error) { r.fail(err) }

// fail ends a replay that cannot go on.
func (r *Replay) fail(err error) {
	r.track.mu.Lock()
	defer r.track.mu.Unlock()
	if !r.track.closed {
		r.track.failed = err
		r.close()
	}
}
