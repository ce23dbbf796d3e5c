package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// A saga that was started by another saga, its parent, does not end when it has reached its goal.
// It waits until the parent releases or reverts it, so that it can still be undone. The parent
// releases it when the parent ends. So a parent that fails undoes its children as it undoes its own
// steps.
//
// A parent that ends sends a message to every child that may exist. It reverts the child of a step
// that it continued without, and releases the others. No child can start after its parent's end
// (journal.ErrParentEnded), so the message reaches all of them.
//
// No child can start either, except one of `finally`, once its parent's row has a reason, which is
// written together with the record that begins the undoing. And a child is not deleted while its
// parent lives (journal.Index.Delete). So if a parent undoes a step in doubt and does not find the
// child, the child has never started and never will, and the step is undone.

// kin returns the root `child`, which kinds read and templates cannot name: the ids of the step's
// child and of its parent.
func (m *Machine) kin(n *node) map[string]any {
	id := n.child
	if id.IsNil() || n.forward.state == ready { // of this generation
		id = m.childID(n)
	}
	depth := 1
	if p := m.started.Parent; p != nil {
		depth += p.Depth
	}
	return map[string]any{"id": id.String(), "parent": m.id.String(), "path": n.path, "depth": json.Number(strconv.Itoa(depth)), "starter": m.Starter(), "final": n.in.final}
}

// Starter returns the actor who started the saga; for a child saga, the actor who started the
// outermost saga.
func (m *Machine) Starter() string { return m.started.Starter() }

// IsChild reports whether another saga has started this one.
func (m *Machine) IsChild() bool { return m.started.Parent != nil }

// childID returns the id of the saga that a step starts: a UUIDv7 (RFC 9562) of the journal's time.
// Repeated calls return the same id.
func (m *Machine) childID(n *node) uuid.UUID {
	at := m.at
	if !n.forward.firstSent.IsZero() {
		at = n.forward.firstSent
	}
	sum := sha256.Sum256(slices.Concat(m.id[:], []byte(n.path+":"+strconv.Itoa(n.forward.generation))))
	return idAt(at, sum)
}

// idAt returns a UUIDv7 (RFC 9562) of this time, with bits of a hash in place of random ones.
func idAt(at time.Time, sum [sha256.Size]byte) (id uuid.UUID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], sum[:10])
	id.SetVersion(uuid.V7)
	id.SetVariant(uuid.VariantRFC9562)
	return id
}

// outside reports whether workers or other sagas perform the step's attempts, which continue when
// this process dies.
func outside(s *saga.Step) bool {
	switch s.Body.(type) {
	case saga.Queued, saga.Spawner, saga.Own:
		return true
	}
	return false
}

// Respawn lists the requests to other sagas that are in flight. After a crash it is unknown whether
// they were sent, and sending them again is safe.
func (m *Machine) Respawn() []Send {
	var list []Send
	for _, n := range m.touched {
		if _, ok := n.step.Body.(saga.Spawner); !ok {
			continue
		}
		if n.forward.state == inFlight {
			list = append(list, m.resend(n, &n.forward, journal.Do))
		}
		if n.compensation.state == inFlight {
			list = append(list, m.resend(n, &n.compensation, journal.Undo))
		}
	}
	return list
}

func (m *Machine) resend(n *node, s *track, way journal.Way) Send {
	step := m.stepOf(n, way)
	return Send{Path: n.path, Way: way, Attempt: s.attempts, Generation: s.generation, Key: s.key, Kind: step.Kind, Request: *s.request, Timeout: step.Timeout, Trace: &m.trace, Lives: true}
}

// InFlightAttempt returns the number of the attempt in which a step waits for a saga, 0 for none.
func (m *Machine) InFlightAttempt(path string, way journal.Way, child string) int {
	n := m.steps[path]
	if n == nil || n.child.String() != child {
		return 0
	}
	s := &n.forward
	if way == journal.Undo {
		s = &n.compensation
	}
	if s.state != inFlight {
		return 0
	}
	return s.attempts
}

// decideAwaitParent records that the goal is reached, and waits for the parent's decision.
func (m *Machine) decideAwaitParent() []Decision {
	if m.awaitingParent {
		return nil
	}
	d := saga.DecidedData{By: byParent, Next: saga.NextAwaitParent}
	d.Output, d.Error = m.result()
	return []Decision{Write{Record: Draft{Kind: journal.Decided, Data: d}}}
}

// byParent is the By of a child's decision to wait for its parent.
const byParent = "parent"

// Report returns the result that the saga reports to its parent now; nil if there is none yet, or
// no parent. A saga that has reached its goal, but has no output because that could not be
// evaluated, is in doubt for its parent, as a write of which the same holds is for its saga.
func (m *Machine) Report() *saga.TaskResult {
	noOutput := m.noOutput
	if m.finished != nil {
		noOutput = m.finished.OutputError
	}
	switch {
	case m.started.Parent == nil, m.finished == nil && (!m.awaitingParent || m.reverted):
		return nil
	case noOutput != nil:
		f := &saga.Failure{Code: noOutput.Code, Title: "saga " + m.id.String() + " of " + m.started.Definition + " has reached its goal, but its " + noOutput.Title, Detail: noOutput.Detail}
		return &saga.TaskResult{Outcome: saga.TaskFailed, Error: f, InDoubt: true, Child: m.childCost()}
	case m.finished == nil, m.finished.Status == saga.Succeeded, m.reverted && m.finished.Status == saga.Compensated:
		return &saga.TaskResult{Outcome: saga.TaskCompleted, Output: m.outputForParent, Child: m.childCost()}
	}
	f := &saga.Failure{Code: "child_failed", Title: "saga " + m.id.String() + " of " + m.started.Definition + " did not reach its goal"}
	if r := m.finished.Reason; r != nil {
		f.Code, f.Detail = r.Code, r.Title
	}
	if m.finished.Status == saga.Failed {
		f.Code = "child_not_undone"
		for _, left := range m.finished.Residual {
			f.Detail += "; " + left.Path + " remains: " + left.Why
		}
	}
	return &saga.TaskResult{Outcome: saga.TaskFailed, Error: f, InDoubt: m.finished.Status == saga.Failed && !m.reverted, Child: m.childCost()}
}

// Messages lists the messages to other sagas that are sent with the record that was applied last.
func (m *Machine) Messages(r journal.Record) []journal.Message {
	var list []journal.Message
	if reported := m.Report(); reported != nil && (r.Kind == journal.Finished && (m.reverted || !m.awaitingParent) || r.Kind == journal.Decided && r.Path == "") {
		way := journal.Do
		if m.reverted {
			way = journal.Undo
		}
		parent := uuid.FromStringOrNil(m.started.Parent.Saga)
		reported.Saga = m.id.String()
		list = append(list, m.message(parent, "told:"+string(way), saga.Command{Do: saga.EndTask{Way: way, Result: *reported}, Path: m.started.Parent.Path}))
	}
	if r.Kind != journal.Finished || m.origin != nil {
		return list
	}
	if b := m.started.BelongsTo; b != nil {
		list = append(list, m.message(uuid.FromStringOrNil(b.Saga), "settle", saga.Command{Do: saga.Settle{Key: b.Key, Session: m.id.String(), Cost: *m.childCost()}}))
	}
	for _, n := range m.touched {
		switch {
		case !n.childLeft() || n.taken != nil: // the original has told it
		case m.disowns(n), n.neverStarted: // a lookup may have read a database that was later replaced after a failover
			list = append(list, m.message(n.child, "revert", saga.Command{Do: saga.Revert{}, Reason: "its parent has ended as " + string(m.finished.Status) + " without it"}))
		default:
			list = append(list, m.message(n.child, "release", saga.Command{Do: saga.Release{}, Reason: "its parent has ended as " + string(m.finished.Status)}))
		}
	}
	return list
}

// disowns reports whether a saga that has ended must revert the child of a step, if there is one:
// the saga continued although the step had not succeeded, and did not undo the step itself.
func (m *Machine) disowns(n *node) bool {
	if n.forward.state == done || n.step.NoCompensation {
		return false
	}
	return m.finished.Status == saga.Succeeded || n.in.final
}

// childLeft reports whether the step may have started a saga that has reported neither a failure
// nor that it is undone. If a person has settled the step, that saga still waits for a message.
func (n *node) childLeft() bool {
	undone := n.compensation.state == done && n.compensation.class == journal.Succeeded && !n.neverStarted
	return !n.child.IsNil() && !undone && !(n.forward.state == failed && n.forward.class == journal.Refused)
}

// message returns a message to another saga. Repeated calls return the same id.
func (m *Machine) message(to uuid.UUID, what string, c saga.Command) journal.Message {
	c.Actor = "saga " + m.id.String()
	return journal.Message{ID: uuid.NewV5(to, what+":"+m.id.String()), Saga: to, Kind: saga.CommandMessage, Data: saga.Encode(c)}
}

// Orphaned lists the messages that cancel children whose results are no longer of use.
func (m *Machine) Orphaned() []journal.Message {
	if m.undoing || m.finished != nil {
		return nil
	}
	var list []journal.Message
	m.forward.walk(func(n *node) bool {
		if _, ok := n.step.Body.(saga.Spawner); ok && n.forward.state == inFlight && m.ending(n) {
			var cancel saga.Cancel
			if m.stop {
				cancel.Mode = "stop"
			}
			list = append(list, m.message(n.child, "cancel", saga.Command{Do: cancel, Reason: "its parent no longer needs it"}))
		}
		return true
	})
	return list
}

// validateParent accepts the parent's decision, once. It may come before the saga has reached its
// goal, because a parent whose start of the saga ended in doubt does not wait for it.
func (m *Machine) validateParent(ending bool) *Refusal {
	if m.started.Parent == nil || m.reverted || m.released || ending {
		return refusal("not_awaiting_parent", "the saga does not wait for its parent", "")
	}
	return nil
}

// applyAwaitParent applies the record that a child has reached its goal.
func (m *Machine) applyAwaitParent(r journal.Record) error {
	var d saga.DecidedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	m.awaitingParent, m.outputForParent, m.noOutput = true, d.Output, d.Error
	if m.outputForParent == nil {
		m.outputForParent = json.RawMessage("null")
	}
	return nil
}
