package saga

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/mutant"
	"recourse/journal"
)

// A saga that another has started, its parent, does not end when it has reached its goal: it is
// held, so that it can still be undone, until the parent says that it is released, which the parent
// does as it ends, or reverted. So a parent that fails undoes its children as it undoes its own
// steps.
//
// A parent that ends has a word for every child that may exist: the child of a step that it went on
// without is reverted. No child can start after its parent's end (journal.ErrParentEnded), so the
// word reaches all of them.
//
// Nor can a child start, except one of `finally`, once its parent's row has a reason, which it has
// together with the record that begins the undoing. And a child is kept as long as its parent lives
// (journal.Index.Delete). So if a parent undoes a step in doubt and does not find the child, the
// child never started and never will, and the step is undone.

// Spawner is implemented by calls that another saga performs: run, and its undoing. An
// attempt is under way until that saga tells what has become of it.
type Spawner interface {
	// Child returns the id of the saga that a request is about.
	Child(r Request) uuid.UUID
}

// Spawned is the code of the answer to a request to another saga that will tell by itself.
const Spawned = "spawned"

// NoSaga is the code of the answer to a request to undo a saga that is not there.
const NoSaga = "saga_not_found"

// MaxDepth is how deep sagas may start others.
const MaxDepth = 16

// ParentData names the step that has started a saga.
type ParentData struct {
	Saga  string `json:"saga"`
	Path  string `json:"path"`
	Depth int    `json:"depth"` // 1: the parent has none itself
	// Starter is who has started the outermost of them.
	Starter string `json:"starter,omitempty"`
}

// kin is the root `child`, which kinds see and templates cannot name: who a step has to do with.
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

// Starter is who has started the saga; of one that another saga runs, who has started the
// outermost.
func (m *Machine) Starter() string { return m.started.Starter() }

// childID makes the id of the saga that a step starts: a UUIDv7 (RFC 9562) of the journal's time,
// and the same whenever it is made.
func (m *Machine) childID(n *node) uuid.UUID {
	at := m.at
	if !n.forward.firstSent.IsZero() {
		at = n.forward.firstSent
	}
	sum := sha256.Sum256(slices.Concat(m.id[:], []byte(n.path+":"+strconv.Itoa(n.forward.generation))))
	var id uuid.UUID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], sum[:10])
	id.SetVersion(uuid.V7)
	id.SetVariant(uuid.VariantRFC9562)
	return id
}

// outside reports whether others perform the step's attempts, which live on when this process dies.
func outside(s *Step) bool {
	switch s.Body.(type) {
	case Queued, Spawner:
		return true
	}
	return false
}

// Respawn lists the requests to other sagas that are under way: sending them again does no harm,
// and after a crash nobody knows whether they were sent.
func (m *Machine) Respawn() []Send {
	var list []Send
	for _, n := range m.touched {
		if _, ok := n.step.Body.(Spawner); !ok {
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

// InFlightAttempt returns the number of the attempt for which a step waits for a saga, 0 for none.
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

// decideAwaitParent tells the parent that the goal is reached, and waits for its word.
func (m *Machine) decideAwaitParent() []Decision {
	if m.awaitingParent {
		return nil
	}
	d := DecidedData{By: byParent, Next: NextAwaitParent}
	d.Output, d.Error = m.result()
	return []Decision{Write{Record: journal.Record{Kind: journal.Decided, Data: encode(d)}}}
}

// byParent is what decides a child's end.
const byParent = "parent"

// Report is what the saga's parent is told of it now; nil: nothing yet, or there is no parent.
func (m *Machine) Report() *TaskResult {
	switch {
	case m.started.Parent == nil:
		return nil
	case m.finished == nil && m.awaitingParent && !m.reverted:
		return &TaskResult{Outcome: TaskCompleted, Output: m.outputForParent}
	case m.finished == nil:
		return nil
	case m.finished.Status == Succeeded, m.reverted && m.finished.Status == Compensated:
		return &TaskResult{Outcome: TaskCompleted, Output: m.outputForParent}
	}
	f := &Failure{Code: "child_failed", Title: "saga " + m.id.String() + " of " + m.started.Definition + " did not reach its goal"}
	if r := m.finished.Reason; r != nil {
		f.Code, f.Detail = r.Code, r.Title
	}
	if m.finished.Status == Failed {
		f.Code = "child_not_undone"
		for _, left := range m.finished.Residual {
			f.Detail += "; " + left.Path + " remains: " + left.Why
		}
	}
	return &TaskResult{Outcome: TaskFailed, Error: f, InDoubt: m.finished.Status == Failed && !m.reverted}
}

// Messages lists the messages to other sagas that go with a record, which was applied last.
func (m *Machine) Messages(r journal.Record) []journal.Message {
	var list []journal.Message
	if told := m.Report(); told != nil && (r.Kind == journal.Finished && (m.reverted || !m.awaitingParent) || r.Kind == journal.Decided && r.Path == "") {
		way := journal.Do
		if m.reverted {
			way = journal.Undo
		}
		parent := uuid.FromStringOrNil(m.started.Parent.Saga)
		told.Saga = m.id.String()
		list = append(list, m.message(parent, "told:"+string(way), Command{Kind: "task", Path: m.started.Parent.Path, Way: way, Task: told}))
	}
	if r.Kind != journal.Finished {
		return list
	}
	for _, n := range m.touched {
		switch {
		case !n.childLeft():
		case m.disowns(n), n.neverStarted: // the look may have been at a database that was left behind
			list = append(list, m.message(n.child, "revert", Command{Kind: "revert", Reason: "its parent has ended as " + string(m.finished.Status) + " without it"}))
		default:
			list = append(list, m.message(n.child, "release", Command{Kind: "release", Reason: "its parent has ended as " + string(m.finished.Status)}))
		}
	}
	return list
}

// disowns reports whether a saga that has ended has the child of a step undone, if there is one:
// the saga went on although the step had not succeeded, and its own undoing did not come by the
// step.
func (m *Machine) disowns(n *node) bool {
	if n.forward.state == done || n.step.NoCompensation || mutant.On("all-children-released") {
		return false
	}
	return m.finished.Status == Succeeded || n.in.final
}

// childLeft reports whether the step may have started a saga that has neither told how it failed
// nor that it is undone: one that a person has settled the step for still waits for a word.
func (n *node) childLeft() bool {
	undone := n.compensation.state == done && n.compensation.class == journal.Succeeded && !n.neverStarted
	return !n.child.IsNil() && !undone && !(n.forward.state == failed && n.forward.class == journal.Refused)
}

// message makes a message to another saga, the same whenever it is made.
func (m *Machine) message(to uuid.UUID, what string, c Command) journal.Message {
	c.Actor = "saga " + m.id.String()
	return journal.Message{ID: uuid.NewV5(to, what+":"+m.id.String()), Saga: to, Kind: CommandMessage, Data: encode(c)}
}

// Orphaned lists the messages that cancel children whose work would be of no use any more.
func (m *Machine) Orphaned() []journal.Message {
	if m.undoing || m.finished != nil {
		return nil
	}
	var list []journal.Message
	m.forward.walk(func(n *node) bool {
		if _, ok := n.step.Body.(Spawner); ok && n.forward.state == inFlight && m.ending(n) {
			c := Command{Kind: "cancel", Reason: "its parent does not need it any more"}
			if m.stop {
				c.Mode = "stop"
			}
			list = append(list, m.message(n.child, "cancel", c))
		}
		return true
	})
	return list
}

// validateParent lets the parent's word through, once. It may come before the saga has reached its
// goal: a parent whose start of it ended in doubt does not wait for it.
func (m *Machine) validateParent(do string) *Refusal {
	if m.started.Parent == nil || m.reverted || m.released || do == "release" && m.reason != nil {
		return refusal("not_awaiting_parent", "the saga does not wait for its parent", "")
	}
	return nil
}

// applyAwaitParent takes in that a child has reached its goal.
func (m *Machine) applyAwaitParent(r journal.Record) error {
	var d DecidedData
	if err := read(r, &d); err != nil {
		return err
	}
	m.awaitingParent, m.outputForParent = true, d.Output
	if m.outputForParent == nil {
		m.outputForParent = json.RawMessage("null")
	}
	return nil
}

// RunTarget takes apart what a run names: "refund" or "refund@v3". Version 0 is the newest.
func RunTarget(text string) (name string, version int, ok bool) {
	name, number, pinned := strings.Cut(text, "@")
	if !pinned {
		return name, 0, true
	}
	v, err := strconv.Atoi(strings.TrimPrefix(number, "v"))
	return name, v, err == nil && v > 0
}
