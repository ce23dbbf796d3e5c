// Package saga is the pure core: what a definition is, what a journal means, and
// what to do next. It has no clock, no randomness and no IO; times come from
// records, chance from the caller.
//
// A [Machine] is made by applying a saga's records in order. [Machine.Decide]
// reads it and says what comes next: a request to send, behind its intent; a
// record that follows at once; a time to wait for; or a person to wait for.
// Whoever drives it appends what was decided, applies it, and asks again.
// [Machine.Settle] turns the answer to a request into its outcome record, and
// [Machine.Admit] turns a person's order into one. Recovery is not a special
// case: it is applying the records again.
package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga/expr"
)

// Errors of a Machine.
var (
	// ErrImpossible: the record cannot follow the records before it. The journal is
	// another definition's, a later program's, or damaged.
	ErrImpossible = errors.New("record cannot follow")
	// ErrUnreadable: the record's kind or data is not known to this program.
	ErrUnreadable = errors.New("record cannot be read")
	// ErrStale: the answer is to an attempt that is not under way any more.
	ErrStale = errors.New("attempt is not under way")
)

// Machine is the state of one saga. It is not safe for concurrent use.
type Machine struct {
	def *Definition
	id  uuid.UUID

	seq     int64
	at      time.Time
	hash    []byte
	created time.Time
	timeout []Decision // the saga's time-out, which every decision until then has; nil: not made yet
	made    made

	started StartedData
	input   any
	vars    map[string]any
	labels  map[string]string
	account retry.Account

	forward *group
	finally *group
	steps   map[string]*node // by path; only those that a record touched
	next    *node            // the last one that was made and that no record has touched yet
	order   []*node          // the same, by their first record

	paused   bool
	pivoted  bool
	reason   *Reason // why it goes to its end without having reached its goal
	stop     bool    // and that nothing is undone
	forced   bool    // an operator's compensate: the pivot does not hold it
	plan     []*node // frozen by `compensating`
	undone   int     // how many of the plan are settled
	undoing  bool
	residual []compensation.Residue
	finished *FinishedData
	mail     map[string]bool // orders that records have folded in
}

// group is a list of steps that run one after another.
type group struct {
	steps  []*Step
	next   int
	owner  *node // the switch around it; nil at the top
	broken *node // the step whose failure ended it
	final  bool  // the definition's `finally`
}

func (g *group) over() bool { return g.next >= len(g.steps) || g.broken != nil }

// node is one step of this saga.
type node struct {
	step   *Step
	path   string
	in     *group
	first  int64 // the seq of its first record
	do     side
	undo   side
	query  side // the status query of `verify`
	child  *group
	branch int
	output json.RawMessage
	passed bool // its group has moved on
	// given replaces output in the compensation's templates: an operator's word.
	given json.RawMessage
}

// New returns the machine of a saga without records.
func New(def *Definition, id uuid.UUID) *Machine {
	return &Machine{
		def: def, id: id,
		steps:   make(map[string]*node),
		mail:    make(map[string]bool),
		forward: &group{steps: def.Steps},
		finally: &group{steps: def.Finally, final: true},
	}
}

// Replay returns the machine that records make.
func Replay(def *Definition, id uuid.UUID, records []journal.Record) (*Machine, error) {
	m := New(def, id)
	for i := range records {
		if err := m.Apply(records[i]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ID returns the saga's id.
func (m *Machine) ID() uuid.UUID { return m.id }

// Definition returns what the saga is pinned to.
func (m *Machine) Definition() *Definition { return m.def }

// Seq returns the journal's length.
func (m *Machine) Seq() int64 { return m.seq }

// At returns the time of the last record.
func (m *Machine) At() time.Time { return m.at }

// Folded reports whether a record has folded in the order with this id.
func (m *Machine) Folded(mail uuid.UUID) bool { return m.mail[mail.String()] }

// Labels returns the saga's labels; the caller does not change them.
func (m *Machine) Labels() map[string]string { return m.labels }

// Seal completes a record to be the journal's next: its seq, its time (never
// before the last record's, whole milliseconds), its writer and its hash.
func (m *Machine) Seal(r journal.Record, at time.Time, writer string) journal.Record {
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(m.at) {
		at = m.at
	}
	r.Seq, r.At, r.Node = m.seq+1, at, writer
	journal.Seal(m.id, m.hash, &r)
	return r
}

// Status derives the saga's status.
func (m *Machine) Status() Status {
	switch {
	case m.finished != nil:
		return m.finished.Status
	case m.paused:
		return PausedStatus
	}
	n, s := m.current()
	switch {
	case s != nil && s.state.inbox():
		return Stuck
	case m.undoing && m.undone < len(m.plan):
		return Undoing
	case n != nil && (s.state == backoff || s.state == sleeping):
		return Waiting
	case n != nil && s.state == checking && n.query.state == backoff:
		return Waiting
	case m.needsRaise():
		return Waiting
	}
	return Running
}

// current returns the step that the saga stands at, and the way of it that counts.
func (m *Machine) current() (*node, *side) {
	if m.undoing {
		if m.undone < len(m.plan) {
			n := m.plan[m.undone]
			return n, &n.undo
		}
		if n := m.frontier(m.finally); n != nil {
			return n, m.asked(n)
		}
		return nil, nil
	}
	if m.reason != nil {
		if n := m.unsettled(); n != nil {
			return n, m.asked(n)
		}
	}
	for _, g := range []*group{m.forward, m.finally} {
		if n := m.frontier(g); n != nil {
			return n, m.asked(n)
		}
	}
	return nil, nil
}

// asked returns the side of n that waits for a person, if one does: the query's or its own.
func (m *Machine) asked(n *node) *side {
	if n.do.state == checking && n.query.state.inbox() {
		return &n.query
	}
	return &n.do
}

// frontier returns the innermost step of g that a record touched and that has not ended.
func (m *Machine) frontier(g *group) *node {
	for !g.over() {
		n := m.steps[g.steps[g.next].ID]
		if n == nil || n.do.state != chosen || n.child.over() {
			return n
		}
		g = n.child
	}
	return nil
}

// node returns the step's node, made on its first record.
func (m *Machine) node(path string, g *group, step *Step) *node {
	if n := m.steps[path]; n != nil {
		return n
	}
	if n := m.next; n == nil || n.path != path || n.in != g {
		m.next = &node{step: step, path: path, in: g}
	}
	return m.next
}

// locate finds the step that a path names, where the saga now stands: only the
// next step of a group that is running may get its first record.
func (m *Machine) locate(path string) (*node, error) {
	if n := m.steps[path]; n != nil {
		return n, nil
	}
	for _, g := range []*group{m.forward, m.finally} {
		for g != nil && !g.over() {
			next := g.steps[g.next]
			if next.ID == path {
				return m.node(path, g, next), nil
			}
			n := m.steps[next.ID]
			if n == nil {
				break
			}
			g = n.child
		}
	}
	return nil, fmt.Errorf("%w: no step %q is due", ErrImpossible, path)
}

func (m *Machine) touch(n *node, seq int64) {
	if n.first == 0 {
		n.first = seq
		m.steps[n.path] = n
		m.order = append(m.order, n)
	}
}

// pin takes in what templates read of the start.
func (m *Machine) pin(d StartedData) error {
	m.started, m.input, m.labels = d, raw(d.Input), d.Labels
	m.vars = make(map[string]any, len(m.def.Vars)+len(d.Vars))
	for _, v := range m.def.Vars {
		m.vars[v.Name] = v.Value
	}
	for name, raw := range d.Vars { // any order
		v, err := expr.Decode(raw)
		if err != nil {
			return fmt.Errorf("%w: var %s: %w", ErrUnreadable, name, err)
		}
		m.vars[name] = v
	}
	if b := m.def.Budget; b != nil && b.Amount != nil {
		m.account.Budget = b.Amount
	}
	return m.rebudget(d.Budget)
}

// rebudget replaces the amount of the budget.
func (m *Machine) rebudget(b *BudgetData) error {
	if b == nil || b.Amount == "" {
		return nil
	}
	amount, err := retry.Amount(b.Amount, b.Currency)
	if err != nil {
		return fmt.Errorf("%w: budget: %w", ErrUnreadable, err)
	}
	m.account.Budget = &amount
	return nil
}
