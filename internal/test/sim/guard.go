package sim

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// rivals is what the simulation knows of a session's calls that may repeat each other. It reads
// the records as they are committed, and does not ask the machine.
type rivals struct {
	lives    map[int]*agentProcess
	diverged bool
	calls    []*rival
	of       map[string]string    // the earlier call that a call is compared with
	same     map[string]bool      // calls that a person has said to be the same as that one
	allowed  map[string]time.Time // when a person has first said that a call is another one
}

// rival is a call of a session.
type rival struct {
	path, action string
	life         int
	// earlier lists the calls that it may repeat: of earlier lives and of the same action, for
	// which its own life has not asked, and whose effects were not undone when it was made.
	earlier []string
}

func newRivals() rivals {
	return rivals{lives: make(map[int]*agentProcess), of: make(map[string]string), same: make(map[string]bool), allowed: make(map[string]time.Time)}
}

// resembles returns the call that a new one may repeat, as package api finds it. A server may have
// forgotten what the life has asked for.
func (p *agentProcess) resembles(action string) string {
	if p.a.s.aside.IntN(16) == 0 {
		clear(p.known)
	}
	p.a.read()
	return p.a.m.Resembles(action, p.life, func(path string) bool { return p.known[path] })
}

// compared reads what was committed of sessions.
func (s *sim) compared(batch []journal.Append, results []journal.Result) {
	for i, b := range batch {
		a := s.agents[b.Saga]
		if a == nil || i >= len(results) || results[i].Err != nil {
			continue
		}
		for _, r := range b.Records {
			switch r.Kind {
			case journal.Called:
				var d saga.CalledData
				mustRead(r, &d)
				a.rivals.called(a, r.Path, &d)
			case journal.Operator:
				var d saga.CommandData
				mustRead(r, &d)
				if d.Rejected == nil && d.Outcome == saga.SameEffect {
					a.rivals.same[r.Path] = true
				}
			}
		}
	}
}

// called adds a call, unless its commit was repeated.
func (v *rivals) called(a *agent, path string, d *saga.CalledData) {
	if d.What == saga.ModelAsk {
		v.diverged = v.diverged || d.Diverged != nil
	}
	if d.What != saga.ActionCall || d.Action == "look" || slices.ContainsFunc(v.calls, func(c *rival) bool { return c.path == path }) {
		return
	}
	c := &rival{path: path, action: d.Action, life: d.Life}
	v.of[path] = d.Resembles
	asked := make(map[string]bool)
	if p := v.lives[d.Life]; p != nil {
		for path := range p.got { // any order
			for v.same[path] {
				path = v.of[path]
			}
			asked[path] = true
		}
	}
	for _, e := range v.calls {
		if v.diverged && e.action == d.Action && e.life < d.Life && !asked[e.path] && !a.s.undone(a.session, e.path) {
			c.earlier = append(c.earlier, e.path)
		}
	}
	v.calls = append(v.calls, c)
}

// forwardKeys returns the keys that requests of a step may have.
func forwardKeys(id uuid.UUID, path string) (keys []string) {
	for g := range 4 {
		keys = append(keys, idempotency.Key(id, path, journal.Do, g))
	}
	return keys
}

// undone reports whether a step had an effect, and has it no longer.
func (s *sim) undone(id uuid.UUID, path string) bool {
	return s.happened(id, path) && !s.liveForward(id, path)
}

// happened reports whether a step had an effect.
func (s *sim) happened(id uuid.UUID, path string) bool {
	return slices.ContainsFunc(forwardKeys(id, path), func(key string) bool {
		effects, _ := s.world.count(key)
		return effects > 0
	})
}

// checkGuard checks invariant 28 by what the remote service has seen: after a divergence, no call
// that may repeat an effect has reached it before a person has said that it is another one.
func (s *sim) checkGuard(id uuid.UUID) {
	a := s.agents[id]
	if a == nil || a.policy.OnDivergence != "" && a.policy.OnDivergence != saga.DivergenceGuard {
		return
	}
	for _, c := range a.rivals.calls {
		i := slices.IndexFunc(c.earlier, func(path string) bool { return s.happened(id, path) })
		if i < 0 {
			continue
		}
		keys, allowed := forwardKeys(id, c.path), a.rivals.allowed[c.path]
		for _, e := range s.world.ledger {
			if e.Method == "POST" && slices.Contains(keys, e.Key) && (allowed.IsZero() || e.At.Before(allowed)) {
				s.violate(id, "28: %s was sent, although it may repeat %s, and no person had said that it is another call", c.path, c.earlier[i])
				break
			}
		}
	}
}

// verdict returns what a person finds who compares two calls.
func (s *sim) verdict() string {
	return []string{saga.SameEffect, saga.NewEffect}[s.aside.IntN(2)]
}

// compare makes a person compare a call with an earlier one. They may be late, or two of them may
// find different things, or one sends what is no answer to the question.
func (s *sim) compare(in journal.Entry) {
	found := s.verdict()
	var delay time.Duration
	if s.fault(DecidedLate, in.Path) {
		delay = s.aside.between(time.Second, 15*time.Second)
	}
	if s.fault(NotAllowed, in.Path) {
		s.judge(in, "retry", 0)
	}
	s.judge(in, found, delay)
	if s.fault(DecidedTwice, in.Path) {
		s.judge(in, found, delay+s.aside.between(0, 2*time.Second))
	}
	if s.fault(DecidedBoth, in.Path) {
		s.judge(in, saga.SameEffect, delay)
		s.judge(in, saga.NewEffect, delay)
	}
}

// judge sends what a person has found.
func (s *sim) judge(in journal.Entry, outcome string, delay time.Duration) {
	m := s.message(in.Saga, saga.Command{Do: saga.Resolve{Outcome: outcome}, Path: in.Path, Actor: "ann", Role: "ops", Reason: "compared"})
	s.after(delay, func() {
		if v := s.agents[in.Saga].rivals; outcome == saga.NewEffect && v.allowed[in.Path].IsZero() {
			v.allowed[in.Path] = s.now
		}
		s.deliver(m)
	})
}
