package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// payer returns a random saga that has not ended, and mostly one with a budget; Nil: there is none.
func (s *sim) payer(rng *rand.Rand) uuid.UUID {
	unlimited := rng.IntN(3) == 0
	heads := slices.DeleteFunc(s.heads(), func(h journal.Head) bool {
		return !h.EndedAt.IsZero() || !unlimited && s.defs[h.Definition].Budget == nil && !strings.HasPrefix(h.Definition, saga.SessionPrefix)
	})
	if len(heads) == 0 {
		return uuid.Nil
	}
	return heads[rng.IntN(len(heads))].ID
}

// openBelow opens a session that belongs to another saga, as package api does: the parent reserves
// a part of its budget under the session's key, and then the session is started. It calls then once
// the session exists, or with Nil once the parent has refused it.
func (s *sim) openBelow(parent uuid.UUID, key string, a *agent, then func(session uuid.UUID)) {
	again := func() { s.openBelow(parent, key, a, then) }
	def, data := a.started()
	head, err := s.store.Saga(ctx, parent)
	if err != nil || !head.EndedAt.IsZero() {
		then(uuid.Nil)
		return
	}
	m, err := machine.Replay(s.defs[head.Definition], parent, s.records(parent))
	if err != nil {
		panic(err)
	}
	if id, part, ok := m.Guest(key); ok {
		data.BelongsTo, data.Budget = &saga.BelongsTo{Saga: parent.String(), Key: key, Budget: part}, part
		s.startBelow(id, parent, key, def, data, func(started bool) {
			if !started {
				then(uuid.Nil)
				return
			}
			a.work(id)
			then(id)
		})
		return
	}
	c := saga.Command{Do: saga.Reserve{Key: key, Part: data.Budget}, Actor: client.name}
	if s.aside.IntN(3) == 0 {
		c.Do = saga.Reserve{Key: key} // all that is left
	}
	message := s.message(parent, c)
	if _, err := m.Validate(message.ID, c); err != nil {
		then(uuid.Nil)
		return
	}
	if !s.fault(AskLost, "open") {
		s.deliver(message)
	}
	if s.aside.IntN(4) == 0 { // a request with the same key at the same time
		s.deliver(s.message(parent, c))
	}
	if m.Cost().Budget == "" && s.aside.IntN(2) == 0 { // a person sets the first limit
		s.after(s.aside.between(0, 5*time.Second), func() { s.send(parent, s.raise(parent, []string{"0.02", "1.00"}[s.aside.IntN(2)])) })
	}
	s.after(s.aside.between(200*time.Millisecond, 4*time.Second), again)
}

// startBelow asks nodes to start a session for which its parent has reserved a part, until it
// exists, or the parent has ended.
func (s *sim) startBelow(id, parent uuid.UUID, key string, def *saga.Definition, data saga.StartedData, then func(started bool)) {
	_, err := s.store.Saga(ctx, id)
	if err == nil {
		then(true)
		return
	}
	head, err := s.store.Saga(ctx, parent)
	if errors.Is(err, journal.ErrNotFound) || err == nil && (!head.EndedAt.IsZero() || head.Reason != "") {
		then(false)
		return
	}
	n := s.nodes[s.aside.IntN(len(s.nodes))]
	start := journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, Key: key, Parent: parent, CreatedAt: s.now}
	n.later(0, func() {
		if !n.leaves {
			n.tell(id, engine.StartSaga{ID: id, Def: def, Start: start, Data: data, Reply: "nobody"})
		}
	})
	s.after(s.aside.between(time.Second, 3*time.Second), func() { s.startBelow(id, parent, key, def, data, then) })
}
