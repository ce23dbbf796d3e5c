package machine

import (
	"fmt"
	"slices"
	"strconv"

	"recourse/journal"
	"recourse/saga"
)

// repeat is the part of a call that only a call has that may repeat the effect of an earlier life's
// call. It waits until a person has compared the two.
type repeat struct {
	of   *node // the earlier call
	same bool  // a person has said that both mean the same effect, so the earlier call answers this one
}

// guarded reports whether new calls are compared with those of earlier lives. A later life may be
// answered with what a diverged request was answered, and then it does not diverge itself, so one
// divergence holds for all lives that follow.
func (s *session) guarded() bool {
	policy := s.policy.Data.OnDivergence
	return s.diverged != nil && (policy == "" || policy == saga.DivergenceGuard)
}

// Resembles returns the path of the oldest call that a new call of an action may repeat: one of an
// earlier life that had, or may have, an effect, and that this life has not asked for. asked says
// for which calls it has; a caller that does not know says no. "": there is none.
func (m *Machine) Resembles(action string, life int, asked func(path string) bool) string {
	if m.session == nil {
		return ""
	}
	known := make(map[*node]bool)
	for _, n := range m.session.calls {
		if n.step.Use.Action == action && asked(n.path) {
			known[n.answerer()] = true
		}
	}
	for _, n := range m.session.calls {
		if n.resembles(action, life) && !known[n] {
			return n.path
		}
	}
	return ""
}

// resembles reports whether a new call of an action in this life may repeat the effect of n.
func (n *node) resembles(action string, life int) bool {
	return n.step.Use.Action == action && n.life < life && !reads(n.step) && !n.noEffect() && n.compensation.state != done
}

// mayRepeat returns the path of the call that a new one may repeat, so that a person has to compare
// them; "" for none. The caller names the oldest one. Only if that has lost its effect since, it is
// a later one, for which this life may even have asked.
func (m *Machine) mayRepeat(c saga.CallAction) string {
	s := m.session
	if c.Resembles == "" || !s.guarded() {
		return ""
	}
	from := max(slices.IndexFunc(s.calls, func(n *node) bool { return n.path == c.Resembles }), 0)
	for _, n := range s.calls[from:] {
		if n.resembles(c.Action, c.Life) {
			return n.path
		}
	}
	return ""
}

// applyResembles lets a new call wait for a person.
func (m *Machine) applyResembles(n *node, d *saga.CalledData, r journal.Record) error {
	if d.Resembles == "" {
		return nil
	}
	of := m.call(d.Resembles)
	if of == nil || !m.session.guarded() || !of.resembles(d.Action, d.Life) {
		return fmt.Errorf("%w: %s cannot repeat %q", ErrImpossible, n.path, d.Resembles)
	}
	n.repeat = &repeat{of: of}
	return m.move(&n.forward, evResemble, r)
}

// resembling returns the call with this path if a person has to compare it with an earlier one; nil
// otherwise.
func (m *Machine) resembling(path string) *node {
	if n := m.call(path); n != nil && n.forward.state == resembling {
		return n
	}
	return nil
}

// answerer returns the call whose answer this call has: an earlier one, if a person has said that
// both mean the same effect.
func (n *node) answerer() *node {
	for n.repeat != nil && n.repeat.same {
		n = n.repeat.of
	}
	return n
}

// escalateRepeat asks a person whether a call repeats an earlier one.
func (m *Machine) escalateRepeat(n *node) []Decision {
	type call struct {
		Call  string `json:"call"`
		Life  int    `json:"life"`
		Input any    `json:"input"`
	}
	of := n.repeat.of
	e := m.entry(n, &n.forward, journal.Do)
	e.Kind = saga.InboxRepeat
	e.Title = "Session " + m.session.policy.Name + ": does the call " + n.path + " repeat " + of.path + "?"
	sent := "it is sent"
	if n.approval {
		sent = "it is sent once it is approved"
	}
	e.Detail = "In life " + strconv.Itoa(of.life) + ", the agent called " + of.step.Use.String() + ", which had, or may have, an effect. Then a process of the agent asked a model something else than an earlier one, and now the agent makes another call of this action. " +
		"Compare the inputs. Resolve the call as same if it means the effect of " + of.path + ": nothing is sent, and the agent gets the answer of that call, also if it asks again. Resolve it as new if it means another effect: " + sent + "."
	e.Shown = saga.Encode(struct {
		Action   string `json:"action"`
		New      call   `json:"new"`
		Earlier  call   `json:"earlier"`
		Diverged any    `json:"diverged"`
	}{n.step.Use.String(), call{n.path, n.life, saga.Visible(n.forward.actionInput)},
		call{of.path, of.life, saga.Visible(of.forward.actionInput)}, saga.Visible(saga.Encode(m.session.diverged))})
	e.Actions = []string{saga.SameEffect, saga.NewEffect}
	return []Decision{Escalate{e}}
}

func (m *Machine) validateRepeat(n *node, o saga.Resolve) *Refusal {
	switch {
	case m.ending(n):
		return refusal("not_waiting", "the session is ending, and call "+n.path+" is not sent", "")
	case o.Outcome != saga.SameEffect && o.Outcome != saga.NewEffect:
		return refusal("bad_outcome", "call "+n.path+" may repeat "+n.repeat.of.path+": resolve it as same or new", "same: nothing is sent, and the answer is that of the earlier call; new: it is sent")
	}
	return nil
}

// applyRepeat applies what a person has found.
func (m *Machine) applyRepeat(n *node, d saga.CommandData, r journal.Record) error {
	switch d.Outcome {
	case saga.NewEffect:
		return m.move(&n.forward, evApprove, r)
	case saga.SameEffect:
		m.touch(n, r.Seq)
		n.repeat.same = true
		if err := m.move(&n.forward, evSkipByPerson, r); err != nil {
			return err
		}
		m.advance(n, &n.forward, r)
		return nil
	}
	return fmt.Errorf("%w: outcome %q", saga.ErrUnreadable, d.Outcome)
}
