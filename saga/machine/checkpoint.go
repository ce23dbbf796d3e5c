package machine

import (
	"recourse/journal"
	"recourse/saga"
)

// early reports whether an attempt may be sent before its intent is durable: by the definition's
// checkpoint, only a read without cost, which may safely be repeated.
func (m *Machine) early(n *node, way journal.Way, u saga.Usage) bool {
	if m.def.Checkpoint == "" || m.def.Checkpoint == saga.CheckpointStep || way != journal.Do {
		return false
	}
	step := n.step
	return step.Body.(saga.Call).ReadOnly() && u == (saga.Usage{}) && step.Compensate == nil && !step.Pivot && step.InDoubt.Policy != saga.Ask
}

// Waits reports whether an early request must wait until these records are durable, by the
// definition's checkpoint.
func (m *Machine) Waits(pending []journal.Record) bool {
	for _, r := range pending {
		switch r.Kind {
		case journal.Started, journal.Operator, journal.Cancelled, journal.Compensating, journal.Signalled:
			return true
		case journal.Intent:
			continue
		}
		path, _ := saga.SplitQuery(r.Path)
		n := m.steps[path]
		switch {
		case n == nil:
			return true
		case m.def.Checkpoint == saga.CheckpointPhase && n.in.owner == nil && n.forward.state.ended():
			return true
		case m.def.Checkpoint == saga.CheckpointDecision && (r.Kind == journal.Decided || m.def.Decides[n.step.ID] || n.awaited != nil):
			return true
		}
	}
	return false
}
