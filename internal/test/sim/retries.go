package sim

import (
	"slices"
	"time"

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
	start := journal.Start{Hash: data.RetryFrom, RetryOf: h.ID}
	brief := *def
	brief.Retention = retention // the original stays for longer
	s.follow(s.aside, journal.RetryKey(h.ID), func(time.Time) (*follower, bool) { return &follower{&brief, start, data}, true })
}
