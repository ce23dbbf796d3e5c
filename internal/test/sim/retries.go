package sim

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// retry makes people retry sagas that have ended without success from one of their steps, at random
// times while faults strike.
func (s *sim) retry() {
	s.after(s.aside.between(time.Second, 3*time.Second), func() {
		if s.healed {
			return
		}
		defer s.retry()
		found, err := s.store.Sagas(ctx, journal.Filter{Limit: 100})
		if err != nil {
			panic(err)
		}
		ended := slices.DeleteFunc(found.Heads, func(h journal.Head) bool {
			return h.EndedAt.IsZero() || h.Status == string(saga.Succeeded) || !h.Parent.IsNil() || !h.UndoOf().IsNil() || s.defs[h.Definition].Session != nil
		})
		if len(ended) == 0 {
			return
		}
		h := ended[s.aside.IntN(len(ended))]
		s.retryFrom(h)
		if s.aside.IntN(3) == 0 { // two people at once, perhaps from different steps
			s.retryFrom(h)
		}
	})
}

// retryFrom starts a saga that goes on from a random step of another one, as the API does: under a
// key that makes it the only one.
func (s *sim) retryFrom(h journal.Head) {
	def, records := s.defs[h.Definition], s.records(h.ID)
	m, err := machine.Replay(def, h.ID, records)
	if err != nil {
		return // the check will say so
	}
	var plans []machine.RetryPlan
	for _, step := range def.Steps {
		if p := m.PlanRetry(step.ID); p.Refused == nil {
			plans = append(plans, p)
		}
	}
	if len(plans) == 0 {
		return
	}
	// A late step is the rule: it has most to take over.
	at := max(s.aside.IntN(len(plans)), s.aside.IntN(len(plans)))
	data, _, wrong := m.BeginRetry(plans[at], records, machine.StartOptions{Actor: staff[0].name, Reason: "it may work now"})
	if wrong != nil {
		panic(wrong)
	}
	s.goOn(journal.RetryKeyPrefix+h.ID.String(), h.ID, def, data)
}

// goOn asks nodes to start the saga until it, or another one, has the key.
func (s *sim) goOn(key string, of uuid.UUID, def *saga.Definition, data saga.StartedData) {
	if _, err := s.store.SagaByKey(ctx, key); err == nil {
		return
	}
	n := s.nodes[s.aside.IntN(len(s.nodes))]
	start := journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, Key: key, Hash: data.RetryFrom, RetryOf: of, CreatedAt: s.now}
	n.later(0, func() {
		if !n.leaves {
			id := s.id()
			n.tell(id, engine.StartSaga{ID: id, Def: def, Start: start, Data: data, Reply: key})
		}
	})
	s.after(s.aside.between(time.Second, 3*time.Second), func() { s.goOn(key, of, def, data) })
}

// takenFrom returns the saga whose outcome a step of a saga is: the saga itself, unless it has
// taken the outcome over.
func (s *sim) takenFrom(id uuid.UUID, path string) uuid.UUID {
	records := s.records(id)
	var d saga.StartedData
	if mustRead(records[0], &d); d.RetryFrom == "" {
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
