package machine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/compensation"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// View is a saga as users see it.
type View struct {
	ID         string                 `json:"id"`
	Definition string                 `json:"definition"`
	Version    string                 `json:"version"`
	SHA256     string                 `json:"sha256"`
	Status     saga.Status            `json:"status"`
	Reason     *saga.Reason           `json:"reason,omitempty"`
	Input      json.RawMessage        `json:"input,omitempty"`
	Output     json.RawMessage        `json:"output,omitempty"`
	OutputErr  *saga.Failure          `json:"output_error,omitempty"`
	Labels     map[string]string      `json:"labels"`
	Cost       saga.CostView          `json:"cost"`
	Residual   []compensation.Residue `json:"residual,omitempty"`
	Doubts     []compensation.Residue `json:"doubts,omitempty"`
	Open       []string               `json:"open,omitempty"`   // ids of inbox entries
	Parent     string                 `json:"parent,omitempty"` // the saga that started it
	RetryOf    string                 `json:"retry_of,omitempty"`
	RetryFrom  string                 `json:"retry_from,omitempty"` // the step of RetryOf; "": the first one
	UndoOf     string                 `json:"undo_of,omitempty"`    // the saga that it undoes
	ForkedFrom string                 `json:"forked_from,omitempty"`
	// ForkedAt is the seq of the record of ForkedFrom after which the fork goes on; absent in
	// lists.
	ForkedAt  int64        `json:"forked_at,omitempty"`
	Effects   saga.Effects `json:"effects,omitempty"` // of a fork; absent in lists
	WakeAt    *saga.Time   `json:"wake_at,omitempty"`
	CreatedAt saga.Time    `json:"created_at"`
	UpdatedAt saga.Time    `json:"updated_at"`
	EndedAt   *saga.Time   `json:"ended_at,omitempty"`
	Seq       int64        `json:"seq"`
	TraceID   string       `json:"trace_id,omitempty"` // absent in lists
	Archived  *Archived    `json:"archived,omitempty"` // nil: it is in the database
}

// Archived says where a saga is that has left the database.
type Archived struct {
	Object string    `json:"object"` // the key of the object in the archive
	At     saga.Time `json:"at"`
}

// View returns the saga as users see it.
func (m *Machine) View() View {
	v := View{
		ID: m.id.String(), Definition: m.started.Definition, Version: m.started.Version.String(), SHA256: m.started.SHA256,
		Status: m.Status(), Reason: m.Reason(), Input: m.started.Input, Labels: m.labels, Cost: m.Cost(),
		RetryOf: m.started.RetryOf, RetryFrom: m.started.RetryFrom, UndoOf: m.started.UndoOf, CreatedAt: saga.Time{Time: m.created}, UpdatedAt: saga.Time{Time: m.at}, Seq: m.seq, TraceID: m.trace.ID.String(),
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	v.Parent, _ = m.started.Payer()
	if f := m.forked; f != nil {
		v.ForkedFrom, v.ForkedAt, v.Effects = f.of.String(), f.at, f.effects
	}
	if f := m.finished; f != nil {
		v.Output, v.OutputErr, v.Residual, v.EndedAt = f.Output, f.OutputError, f.Residual, &saga.Time{Time: m.at}
		v.Doubts = f.Doubts
		return v
	}
	if m.undoing {
		v.Residual = m.residual
	}
	for _, e := range m.Inbox() {
		v.Open = append(v.Open, e.ID.String())
	}
	if v.Status == saga.Waiting {
		if at := m.WakeAt(); !at.IsZero() {
			v.WakeAt = &saga.Time{Time: at}
		}
	}
	return v
}

// Revision identifies what the inbox of a saga was at a time. The zero Revision is that of a saga
// that has needed no person yet.
type Revision struct {
	changes int
	raises  string // the steps that wait for a higher budget, which no record says
}

// InboxRevision differs whenever the items that need a person may have changed, unless the saga's
// status says so, which then is or was stuck.
func (m *Machine) InboxRevision() Revision {
	r := Revision{changes: m.inboxRevision}
	if m.asksForRaise() && m.finished == nil {
		r.raises = strings.Join(slices.Sorted(maps.Keys(m.raises())), " ")
	}
	return r
}

// Cost returns what the saga has cost so far.
func (m *Machine) Cost() saga.CostView {
	c := saga.CostView{Currency: m.currency(), Spent: m.account.Spent.Decimal(), Reserved: m.account.Reserved.Decimal(), Wasted: m.account.Wasted.Decimal(), Models: m.modelViews()}
	if m.account.Budget != nil {
		c.Budget = m.account.Budget.Decimal()
	}
	if t := m.childTokens; !m.children.IsZero() || t != (saga.TokensView{}) {
		c.Children = &saga.ChildrenView{Spent: m.children.Decimal(), Tokens: t}
	}
	c.Tokens = saga.TokensView{Input: m.tokens.input, Output: m.tokens.output, Reserved: m.tokens.reserved, Budget: m.tokens.budget}
	return c
}

// Ended reports whether the saga has ended.
func (m *Machine) Ended() bool { return m.finished != nil }

// DefinitionVersion returns the name and the version of the saga's definition.
func (m *Machine) DefinitionVersion() (name string, version saga.Version) {
	return m.started.Definition, m.started.Version
}

// WakeAt returns the earliest time that the saga waits for, zero for none.
func (m *Machine) WakeAt() time.Time {
	var at time.Time
	for _, d := range m.Decide() {
		if w, ok := d.(WakeAt); ok && (at.IsZero() || w.At.Before(at)) {
			at = w.At
		}
	}
	return at
}

// Reason returns why the saga will not reach, or has not reached, its goal; nil if it may.
func (m *Machine) Reason() *saga.Reason {
	if m.origin != nil && m.finished == nil {
		return nil // undoing is its goal
	}
	return m.reason
}

// Residual lists the effects that remain, as far as is known.
func (m *Machine) Residual() []compensation.Residue { return m.residual }

// Doubts lists the steps in doubt that an ended saga continued without resolving; nil before its
// end.
func (m *Machine) Doubts() []compensation.Residue {
	if m.finished == nil {
		return nil
	}
	return m.finished.Doubts
}

// StepStatus is a step's status.
type StepStatus string

// The statuses of a step.
const (
	Pending       StepStatus = "pending"
	StepRunning   StepStatus = "running"
	StepWaiting   StepStatus = "waiting"
	StepSucceeded StepStatus = "succeeded"
	StepFailed    StepStatus = "failed"
	StepSkipped   StepStatus = "skipped"
	StepInDoubt   StepStatus = "in_doubt"
	StepHeld      StepStatus = "held"
	StepUndoing   StepStatus = "undoing"
	StepUndone    StepStatus = "undone"
	StepUndoFail  StepStatus = "undo_failed"
)

func (m *Machine) stepStatus(n *node) StepStatus {
	switch {
	case n.compensation.state == done:
		return StepUndone
	case n.compensation.state == blocked || n.compensation.state == awaitingCredentials:
		return StepUndoFail
	case n.compensation.state == skipped && n.compensation.attempts > 0:
		return StepUndoFail
	case n.compensation.attempts > 0:
		return StepUndoing
	}
	switch n.forward.state {
	case ready:
		if n.redo {
			return Pending
		}
		if n.forward.doubt {
			return StepInDoubt
		}
		return StepRunning
	case inFlight, entered, woken, expired:
		return StepRunning
	case backoff, sleeping, checking, awaiting, resembling, exhausted:
		if n.forward.doubt {
			return StepInDoubt
		}
		return StepWaiting
	case awaitingResolution, doubted:
		return StepInDoubt
	case awaitingCredentials:
		return StepHeld
	case done:
		return StepSucceeded
	case skipped:
		return StepSkipped
	}
	return StepFailed // also a step that failed and needs a person
}

// untouched returns the status of a step without records, as a template in a group sees it: skipped
// if a block around it ended, or chose another branch.
func (m *Machine) untouched(id string, g *group) StepStatus {
	if left, _ := m.passedBy(slices.Concat(m.def.Steps, m.def.Finally), id, "", g); left {
		return StepSkipped
	}
	return Pending
}

// passedBy searches a step among those with one prefix, and reports whether a block around it has
// left it out.
func (m *Machine) passedBy(steps []*saga.Step, id, prefix string, g *group) (left, found bool) {
	for _, s := range steps {
		if s.ID == id {
			return false, true
		}
		b, ok := s.Body.(saga.Block)
		if !ok {
			continue
		}
		n := m.steps[prefix+s.ID]
		inner := prefix
		if b.Loops() {
			inner = loopPrefix(g, s)
		}
		for i, list := range b.Lists() {
			if left, found = m.passedBy(list, id, inner, g); found {
				return left || n.passes(i), true
			}
		}
	}
	return false, false
}

// loopPrefix returns the prefix of the iteration of a loop that a group is in. If it is in none, it
// returns a prefix that no path has.
func loopPrefix(g *group, loop *saga.Step) string {
	for ; g != nil && g.owner != nil; g = g.owner.in {
		if g.owner.step == loop {
			return g.prefix
		}
	}
	return "?"
}

// passes reports whether the block has left out its list i.
func (n *node) passes(i int) bool {
	switch {
	case n == nil:
		return false
	case n.forward.state == skipped:
		return true
	}
	return n.block != nil && n.block.Branch != nil && *n.block.Branch != i
}

// StepView is a step as users see it.
type StepView struct {
	Path     string            `json:"path"`
	Kind     string            `json:"kind"`
	Use      string            `json:"use,omitempty"` // the action that it uses, with its version
	Status   StepStatus        `json:"status"`
	Attempts []history.Attempt `json:"attempts"`
	Input    json.RawMessage   `json:"input,omitempty"` // the last request
	Output   json.RawMessage   `json:"output,omitempty"`
	Error    *saga.Failure     `json:"error,omitempty"`
	Key      string            `json:"key"`
	Cost     string            `json:"cost"`
	// ReusedFrom is the saga whose outcome it is, if this saga did not run the step itself.
	ReusedFrom string `json:"reused_from,omitempty"`
	// Stubbed says, in a fork, that the outcome is a stub, or the output was replaced by one.
	Stubbed bool `json:"stubbed,omitempty"`
}

// Steps returns every step of the definition, in its order, including steps that were not reached.
// Steps in loops are listed once for each iteration that has begun. records are the records that
// were applied to the machine. An error wraps saga.ErrUnreadable.
func Steps(m *Machine, records []journal.Record) ([]StepView, error) {
	var log history.Steps
	for i := range records {
		if err := log.Add(&records[i]); err != nil {
			return nil, err
		}
	}
	return StepsOf(m, &log), nil
}

// StepsOf lists the steps as Steps does. log must have the records that were applied to m. The list
// is valid until more records are added to log.
func StepsOf(m *Machine, log *history.Steps) []StepView {
	l := &lister{m: m, log: log, list: make([]StepView, 0, len(m.steps))}
	l.steps(m.def.Steps, "", false)
	if m.session != nil {
		for _, n := range m.session.steps {
			l.step(n.step, n.path, false)
		}
	}
	l.steps(m.def.Finally, "", false)
	return l.list
}

// lister makes the views of steps.
type lister struct {
	m    *Machine
	log  *history.Steps
	list []StepView
}

// steps lists steps under a prefix; left says that the steps were left out.
func (l *lister) steps(steps []*saga.Step, prefix string, left bool) {
	for _, s := range steps {
		n := l.step(s, prefix+s.ID, left)
		b, ok := s.Body.(saga.Block)
		if !ok {
			continue
		}
		for i, list := range b.Lists() {
			if !b.Loops() {
				l.steps(list, prefix, left || n.passes(i))
				continue
			}
			for k := 0; n != nil && n.block != nil && k < n.block.begun; k++ {
				l.steps(list, prefix+s.ID+"["+strconv.Itoa(k)+"].", false)
			}
		}
	}
}

func (l *lister) step(s *saga.Step, path string, left bool) *node {
	m, n := l.m, l.m.steps[path]
	v := StepView{Path: path, Kind: s.Kind, Use: s.Use.String(), Status: Pending, Attempts: []history.Attempt{}, Cost: "0"}
	if left {
		v.Status = StepSkipped
	}
	if n != nil {
		v.Status, v.Output, v.Key = m.stepStatus(n), n.output, n.forward.key
		if n.taken != nil && !n.taken.again {
			v.ReusedFrom = n.taken.by.String()
		}
		v.Stubbed = n.stubbed
		if n.forward.state != done {
			v.Error = n.forward.failure
		}
		if n.compensation.failure != nil && n.compensation.state != done {
			v.Error = n.compensation.failure
		}
	}
	if v.Key == "" {
		v.Key = idempotency.Key(m.effectsOf(n), path, journal.Do, 0)
	}
	if said := l.log.Step(path); said != nil {
		v.Attempts, v.Input, v.Cost = said.Attempts, said.Input, said.Cost()
		if v.Output == nil { // for an iteration that has ended
			v.Output = said.Output
		}
	}
	l.list = append(l.list, v)
	return n
}
