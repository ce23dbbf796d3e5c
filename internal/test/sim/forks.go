package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// forks makes people fork sagas and sessions, live ones and ended ones, after random records, at
// random times while faults strike.
func (s *sim) forks() {
	// It has random numbers of its own, so that it changes the timing of nothing else.
	random := aside{rand.New(rand.NewPCG(s.result.Seed, 0xf04c5))}
	var some func()
	some = func() {
		s.after(random.between(500*time.Millisecond, 3*time.Second), func() {
			if s.healed {
				return
			}
			defer some()
			// Child sagas are deleted a second after their end, and a start that comes later than
			// that would begin a fork of one once more.
			heads := slices.DeleteFunc(s.heads(), func(h journal.Head) bool { return !h.UndoOf().IsNil() || !h.Parent.IsNil() })
			if len(heads) == 0 {
				return
			}
			h := heads[random.IntN(len(heads))]
			key := fmt.Sprintf("/fork:%s:%d", h.ID, random.IntN(1000))
			if f, ok := s.forkOf(random, h); ok {
				s.follow(random, key, func(time.Time) (*follower, bool) { return f, true })
				s.sendAgent(random, key, h.ID, 20)
			}
			if random.IntN(4) == 0 {
				s.after(random.between(0, 4*time.Second), func() { s.meddleWith(random, key) })
			}
		})
	}
	some()
}

// sendAgent starts an agent for the fork of a session, once it exists, with the program of the
// original's agent.
func (s *sim) sendAgent(random aside, key string, of uuid.UUID, tries int) {
	was := s.agents[of]
	if was == nil || tries == 0 || s.healed {
		return
	}
	s.after(random.between(200*time.Millisecond, 2*time.Second), func() {
		h, err := s.store.SagaByKey(ctx, key)
		switch {
		case err != nil:
			s.sendAgent(random, key, of, tries-1)
		case s.agents[h.ID] == nil:
			a := was.again()
			a.session, a.m = h.ID, machine.New(s.defs[h.Definition], h.ID)
			s.agents[h.ID] = a
			a.begin("")
		}
	})
}

// forkOf returns a fork of a saga after a random record, as the API begins it; false: there is
// none.
func (s *sim) forkOf(random aside, h journal.Head) (*follower, bool) {
	def, records := s.defs[h.Definition], s.records(h.ID)
	last := machine.LastFork(def, h.ID, records)
	m, err := machine.Replay(def, h.ID, records)
	if err != nil || last == 0 {
		return nil, false // the check will say so if the journal is wrong
	}
	o := machine.ForkOptions{At: 1 + random.Int64N(last), Effects: saga.HoldEffects}
	switch random.IntN(4) {
	case 0:
		o.Effects = saga.StubEffects
	case 1:
		if m.Status().Terminal() {
			o.Effects = saga.RealEffects
		}
	}
	data, _, wrong := m.BeginFork(o, records, machine.StartOptions{Actor: staff[0].name, Reason: "what if"})
	if wrong != nil {
		panic(fmt.Sprintf("fork of %s after %d of %d: %v", h.ID, o.At, last, wrong))
	}
	return &follower{def: def, start: journal.Start{ForkedFrom: h.ID}, data: data}, true
}

// checkFork checks invariant 34 by the true state of the world: a fork sends nothing under a key of
// the saga that it is a fork of, and undoes no effect of it.
func (s *sim) checkFork(h journal.Head, records []journal.Record) {
	var d saga.StartedData
	mustRead(records[0], &d)
	if d.Fork == nil {
		return
	}
	theirs := make(map[string]bool)
	for of := range s.originsOf(d) {
		for _, r := range s.records(of) {
			if r.Kind == journal.Intent && r.Key != "" {
				theirs[r.Key] = true
			}
		}
	}
	for _, r := range records {
		if r.Kind == journal.Intent && theirs[r.Key] {
			s.violate(h.ID, "34: it sends %s %s under a key of the saga that it is a fork of", r.Way, r.Path)
		}
	}
}

// originsOf returns the saga that d is a fork of, and those whose outcomes that one had taken over.
func (s *sim) originsOf(d saga.StartedData) map[uuid.UUID]bool {
	list := make(map[uuid.UUID]bool)
	for {
		switch {
		case d.Fork != nil:
			list[uuid.FromStringOrNil(d.Fork.Of)] = true
		case d.RetryFrom != "":
			list[uuid.FromStringOrNil(d.RetryOf)] = true
		}
		if len(d.Origin) == 0 {
			return list
		}
		var next saga.StartedData
		mustRead(d.Origin[0], &next)
		d = next
	}
}

// askedBy returns the session that has asked a question: the given one, or the one that it is a
// fork of.
func (s *sim) askedBy(id uuid.UUID, path string) uuid.UUID {
	var d saga.StartedData
	mustRead(s.records(id)[0], &d)
	for d.Fork != nil {
		of, origin := uuid.FromStringOrNil(d.Fork.Of), d.Origin
		if slices.ContainsFunc(origin, func(r journal.Record) bool { return r.Path == path && r.Kind == journal.Called }) {
			id = of
		}
		d = saga.StartedData{}
		mustRead(origin[0], &d)
	}
	return id
}

// contentLost reports whether a session is a fork of one that was deleted, and its contents with
// it.
func (s *sim) contentLost(id uuid.UUID) bool {
	records := s.records(id)
	if len(records) == 0 {
		return true
	}
	var d saga.StartedData
	mustRead(records[0], &d)
	return d.Fork != nil && s.contentLost(uuid.FromStringOrNil(d.Fork.Of))
}

// inherited returns the records with which a fork begins.
func inherited(records []journal.Record) []journal.Record {
	if records[0].Kind != journal.Started {
		return nil
	}
	var d saga.StartedData
	mustRead(records[0], &d)
	if d.Fork == nil {
		return nil
	}
	return append(inherited(d.Origin), d.Origin...)
}
