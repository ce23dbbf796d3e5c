package machine

import (
	"time"

	"recourse/journal"
	"recourse/saga"
)

// A step with on_error: hold does not fail. When its attempts, its deadline or its budget are used
// up, it waits in the state exhausted, and everything before it stays as it is. It begins a new
// round of attempts when a person resumes the saga, or when the time of hold_for has passed. Those
// have the same key and, if an earlier attempt is in doubt, the same request: a hold settles no
// doubt. Only a person's retry with a new key raises the generation, after a definite failure.

// holds reports whether a step that would fail now waits instead. While the saga, or a block around
// the step, is failing, nothing waits for the step any longer.
func (m *Machine) holds(n *node) bool { return n.step.Hold && !m.ending(n) }

// resends reports whether the step's policy allows another round of attempts while it is in doubt.
func (n *node) resends() bool {
	p := n.step.InDoubt.Policy
	return p == "" || p == saga.RetrySame || p == saga.VerifyIt && n.step.InDoubt.Otherwise == saga.RetrySame
}

// heldUntil returns when a step that is held since a time tries again, zero if only a person makes
// it.
func (n *node) heldUntil(since time.Time) time.Time {
	if n.step.HoldFor == 0 {
		return time.Time{}
	}
	return since.Add(n.step.HoldFor)
}

// decideHeld decides a step that is held. If the saga, or a block around the step, fails in the
// meantime, a step in doubt ends as one without on_error: hold.
func (m *Machine) decideHeld(n *node) []Decision {
	s := &n.forward
	if m.ending(n) {
		if !s.doubt {
			return nil
		}
		return m.decided(n, journal.Do, saga.DecidedData{By: "undo", Next: m.endInDoubt(n), Detail: "nothing waits for it any longer"})
	}
	ds := m.escalate(n, s, journal.Do)
	if !s.retryAt.IsZero() {
		ds = append(ds, s.wake(n.path, journal.Do, saga.TimerHold)...)
	}
	return ds
}

// held lists the steps that are held, in the order of their first records.
func (m *Machine) held() (list []*node) {
	if m.undoing {
		return nil
	}
	for _, n := range m.touched {
		if n.forward.state == exhausted && !m.ending(n) {
			list = append(list, n)
		}
	}
	return list
}

// resumeHeld begins a new round of attempts of every step that is held.
func (m *Machine) resumeHeld(r journal.Record) error {
	for _, n := range m.held() {
		n.forward.again(false)
		if err := m.move(&n.forward, evAgain, r); err != nil {
			return err
		}
	}
	return nil
}
