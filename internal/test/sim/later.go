package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// An ended saga never changes. People let another saga follow it: one that undoes it, or one that
// goes on from one of its steps.

// undoWithin is how long after the end of its step a compensation can still be run, by definition
// and step. The actions of agents have undo_within themselves.
var undoWithin = map[string]map[string]time.Duration{
	"by-id":  {"a": time.Minute, "b": time.Minute, "c": 5 * time.Second},
	"by-key": {"a": time.Minute, "b": time.Minute, "c": 9 * time.Second},
	"asked":  {"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": time.Minute},
	"odd":    {"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": time.Minute},
	"nested": {"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": time.Minute, "e": time.Minute},
	"doubts": {"a": time.Minute, "b": time.Minute},
	"wide":   {"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": time.Minute, "e": time.Minute, "f": time.Minute},
	// loops has a pivot, so none of its sagas can be undone later.
	"loops":  {"a": time.Minute, "b": time.Minute, "verify": time.Minute, "g": time.Minute},
	"worked": {"a": time.Minute, "pack": time.Minute, "ship": time.Minute, "bill": time.Minute, "seal": time.Minute},
	"child":  {"x": 8 * time.Second, "y": 8 * time.Second},
}

// undoLater sets the undo windows of a definition.
func undoLater(def *saga.Definition) {
	for id, within := range undoWithin[def.Name] { // any order
		def.ByID[id].Compensate.UndoWithin = within
	}
}

// undo makes people undo sagas and sessions that have ended, at random times while faults strike:
// in time or too late, and some that cannot be undone.
func (s *sim) undo() {
	// It has random numbers of its own, so that it changes the timing of nothing else.
	random := aside{rand.New(rand.NewPCG(s.result.Seed, 0x1a7e4))}
	var some func()
	some = func() {
		s.after(random.between(300*time.Millisecond, 2*time.Second), func() {
			if s.healed {
				return
			}
			defer some()
			ended := slices.DeleteFunc(s.heads(), func(h journal.Head) bool { return h.Status != string(saga.Succeeded) })
			if sessions := slices.DeleteFunc(slices.Clone(ended), func(h journal.Head) bool { return s.defs[h.Definition].Session == nil }); len(sessions) > 0 && random.IntN(2) == 0 {
				ended = sessions // there are few
			}
			if len(ended) == 0 {
				return
			}
			h := ended[random.IntN(len(ended))]
			for range 1 + random.IntN(3)/2 { // two people at once
				s.follow(random, journal.UndoKey(h.ID), func(now time.Time) (*follower, bool) { return s.undoOf(h, now) })
			}
			if random.IntN(4) == 0 {
				s.after(random.between(0, 4*time.Second), func() { s.meddle(random, h.ID) })
			}
		})
	}
	some()
}

// meddle sends a command to the saga that undoes another one, if there is one.
func (s *sim) meddle(random aside, of uuid.UUID) {
	s.meddleWith(random, journal.UndoKey(of))
}

// meddleWith sends a command to the saga that was started with a key, if there is one.
func (s *sim) meddleWith(random aside, key string) {
	if by, err := s.store.SagaByKey(ctx, key); err == nil && by.EndedAt.IsZero() {
		s.send(by.ID, commands[random.IntN(len(commands))])
	}
}

// undoOf returns the saga that undoes another one, as the API begins it; false: it is refused.
func (s *sim) undoOf(h journal.Head, now time.Time) (*follower, bool) {
	if _, err := s.store.Saga(ctx, h.ID); err != nil {
		return nil, false // retention has deleted it meanwhile
	}
	def, records := s.defs[h.Definition], s.records(h.ID)
	m, err := machine.Replay(def, h.ID, records)
	if err != nil || m.PlanUndo(now).Refused != nil {
		return nil, false // the check will say so if the journal is wrong
	}
	data := machine.BeginUndo(m, records, machine.StartOptions{Actor: staff[0].name, Reason: "it was a mistake"})
	return &follower{def: def, data: data}, true
}

// follower is the start of a saga that follows an ended one.
type follower struct {
	def   *saga.Definition
	start journal.Start // what a client's start does not have
	data  saga.StartedData
}

// follow asks nodes to start a saga under a key until it, or another one, has the key. plan
// returns it as the node would begin it at a time by its clock; false: the node refuses to.
func (s *sim) follow(random aside, key string, plan func(now time.Time) (*follower, bool)) {
	s.followAgain(random, key, plan, 20)
}

func (s *sim) followAgain(random aside, key string, plan func(now time.Time) (*follower, bool), tries int) {
	if _, err := s.store.SagaByKey(ctx, key); err == nil || tries == 0 {
		return
	}
	again := func() { s.followAgain(random, key, plan, tries-1) }
	n := s.nodes[random.IntN(len(s.nodes))]
	if local := n.local(); n.alive && n.lease.Valid(local) {
		f, ok := plan(n.lease.Now(local))
		if !ok {
			return
		}
		f.start.Definition, f.start.Version, f.start.SHA256 = f.def.Name, 1, f.def.SHA256
		f.start.Key, f.start.CreatedAt = key, s.now
		id := random.id(s.now)
		n.later(0, func() {
			if !n.leaves {
				n.tell(id, engine.StartSaga{ID: id, Def: f.def, Start: f.start, Data: f.data, Reply: key})
			}
		})
	}
	s.after(random.between(200*time.Millisecond, 3*time.Second), again)
}

// takenFrom returns the saga whose effect a step of a saga is: the saga itself, unless it undoes
// another one, or has taken the outcome over.
func (s *sim) takenFrom(id uuid.UUID, path string) uuid.UUID {
	records := s.records(id)
	var d saga.StartedData
	mustRead(records[0], &d)
	switch {
	case d.UndoOf != "":
		return s.takenFrom(uuid.FromStringOrNil(d.UndoOf), path)
	case d.RetryFrom == "":
		return id
	}
	m, err := machine.Replay(s.defs[d.Definition], id, records)
	if err != nil {
		return id // the check will say so
	}
	steps, err := machine.Steps(m, records)
	if err != nil {
		return id
	}
	for _, step := range steps {
		if step.Path == path && step.ReusedFrom != "" {
			return uuid.FromStringOrNil(step.ReusedFrom)
		}
	}
	return id
}

// checkUndos checks invariant 29 by the true state of the world: at most one saga undoes another
// one, which has succeeded, and it undoes the whole of it, except what its `residual` names.
func (s *sim) checkUndos(machines map[uuid.UUID]*machine.Machine, journals map[uuid.UUID][]journal.Record) {
	by := make(map[uuid.UUID]uuid.UUID)
	for _, h := range s.everything() {
		m := machines[h.ID]
		if m == nil || m.UndoOf().IsNil() {
			continue
		}
		of := m.UndoOf()
		if other, twice := by[of]; twice {
			s.violate(of, "29: it was undone by %s and by %s", other, h.ID)
		}
		by[of] = h.ID
		if was := machines[of]; was != nil && m.Status().Terminal() {
			s.checkUndone(h.ID, m, was, journals[of])
		}
	}
}

// checkUndone checks that a saga that has ended has left nothing of the one that it undoes.
func (s *sim) checkUndone(id uuid.UUID, m, was *machine.Machine, records []journal.Record) {
	named := make(map[string]bool)
	for _, r := range m.Residual() {
		named[r.Path] = true
	}
	for _, path := range sent(records) {
		if named[path] || isFinal(was.Definition(), path) {
			continue
		}
		live := 0
		for g := range 4 {
			_, l := s.world.count(idempotency.Key(was.ID(), path, journal.Do, g))
			live += l
		}
		if live > 0 {
			s.violate(id, "29: it has undone saga %s, but %d effects of %s remain, and are not in residual", was.ID(), live, path)
		}
	}
}

// undoneLater reports whether another saga has undone one that has succeeded.
func (s *sim) undoneLater(id uuid.UUID) bool {
	for _, h := range s.everything() {
		if h.UndoOf() == id {
			return true
		}
	}
	return false
}
