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
	outline *outline // of a plan; nil: the saga is a real one

	started StartedData
	trace   Trace
	input   any
	vars    map[string]any
	labels  map[string]string
	account retry.Account
	tokens  tokens
	models  map[string]modelUse // by name
	short   bool                // while deciding: an attempt waits for money, so none behind it is looked at that may cost some
	raise   struct {            // Machine.raises, as of a seq
		seq   int64
		paths map[string]bool
	}
	// underway is the part of what the account has reserved that is of attempts under way.
	inFlight retry.Money

	forward     *group
	finally     *group
	steps       map[string]*node // by path; only those that a record touched
	due         map[string]*node // steps inside blocks that may get their first record now
	touched     []*node          // the touched ones, by their first record
	failedSteps []*node          // those that have failed, in their order; a person may have settled one since
	pivot       *node            // nil: not touched yet

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
	applied  map[string]bool              // orders that records have folded in
	signals  map[string][]json.RawMessage // that nobody has waited for yet, by name, the oldest first
	// Of a saga with a parent: it has reached its goal and waits for the parent's word, and which
	// that was.
	awaitingParent, released, reverted bool
	outputForParent                    json.RawMessage
	lastCommand                        int64 // the seq of the last record that a person's order has made
	inboxRevision                      int   // how often what waits for people has changed
}

// New returns the machine of a saga without records.
func New(def *Definition, id uuid.UUID) *Machine {
	m := &Machine{
		def: def, id: id,
		steps:   make(map[string]*node),
		applied: make(map[string]bool),
		forward: &group{steps: def.Steps},
		finally: &group{steps: def.Finally, final: true},
	}
	m.enter(m.forward)
	m.enter(m.finally)
	return m
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

// Applied reports whether a record has folded in the order with this id.
func (m *Machine) Applied(mail uuid.UUID) bool { return m.applied[mail.String()] }

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
func (m *Machine) Status() Status { return m.status(m.waits) }

// status derives it with what counts as waiting.
func (m *Machine) status(waits func(*node) bool) Status {
	switch {
	case m.finished != nil:
		return m.finished.Status
	case m.paused:
		return PausedStatus
	case m.undoing && m.undone < len(m.plan):
		if m.plan[m.undone].compensation.state.inbox() {
			return Stuck
		}
		return Undoing
	}
	if m.awaitsParent() {
		return Waiting
	}
	status := Succeeded // of no step at all
	m.currentSteps(func(n *node) bool {
		switch s := m.inboxTrack(n); {
		case s.state.inbox() && m.hidden(n): // others are under way, and it is left behind when they have ended
			status = Running
		case s.state.inbox():
			status = Stuck
		case waits(n):
			if status == Succeeded {
				status = Waiting
			}
		default:
			status = Running
		}
		return status != Stuck
	})
	if status == Succeeded {
		return Running
	}
	return status
}

// awaitsParent reports whether the saga waits for its parent's word.
func (m *Machine) awaitsParent() bool { return m.awaitingParent && !m.released && !m.reverted }

// waits reports whether the step goes on at some time, or at somebody's word, and not by itself.
func (m *Machine) waits(n *node) bool {
	switch n.forward.state {
	case backoff, sleeping, awaiting:
		return true
	case checking:
		return n.statusCheck.state == backoff
	case ready:
		return m.asksForRaise() && m.raises()[n.path]
	case inFlight:
		return outside(n.step)
	}
	return false
}

// hidden reports whether nobody is asked about a step although it waits for a person: the saga, or
// a block around it, fails without it.
func (m *Machine) hidden(n *node) bool {
	if !m.ending(n) || m.reason != nil && m.unsettled() == n {
		return false
	}
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.closing() {
			return !n.forward.doubt || !g.owner.goesOn()
		}
	}
	return true
}

// waitsForOthers is waits without a look at the budget, which would render templates.
func (m *Machine) waitsForOthers(n *node) bool { return n.forward.state != ready && m.waits(n) }

// currentSteps visits the steps that the saga stands at: those that may go on, or
// wait, now; of a saga that fails, first of all the one that keeps it from being undone.
// visit says whether to go on.
func (m *Machine) currentSteps(visit func(*node) bool) {
	if m.reason != nil && !m.undoing {
		if n := m.unsettled(); n != nil {
			visit(n)
			return
		}
	}
	if m.undoing || m.reason == nil && m.forward.over() {
		m.finally.walk(visit)
		return
	}
	m.forward.walk(visit)
}

// currentPath returns the path of the step that the saga stands at, or of the first of several; ""
// for none.
func (m *Machine) currentPath() (path string) {
	if m.undoing && m.undone < len(m.plan) {
		return m.plan[m.undone].path
	}
	m.currentSteps(func(n *node) bool {
		if n.first != 0 {
			path = n.path
		}
		return path == ""
	})
	return path
}

// inboxTrack returns the side of n that waits for a person, if one does: the query's or its own.
func (m *Machine) inboxTrack(n *node) *track {
	if n.forward.state == checking && n.statusCheck.state.inbox() {
		return &n.statusCheck
	}
	return &n.forward
}

// locate finds the step that a path names: one that was touched before, or one
// that is the next of a group that is running.
func (m *Machine) locate(path string) (*node, error) {
	if n := m.steps[path]; n != nil {
		return n, nil
	}
	for _, g := range []*group{m.forward, m.finally} {
		if g.cur != nil && g.cur.path == path {
			return g.cur, nil
		}
	}
	if n := m.due[path]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: no step %q is due", ErrImpossible, path)
}

func (m *Machine) touch(n *node, seq int64) {
	if n.first != 0 {
		return
	}
	n.first = seq
	m.steps[n.path] = n
	m.touched = append(m.touched, n)
	if n.step.Pivot {
		m.pivot = n
	}
	if n.in.owner == nil {
		return
	}
	delete(m.due, n.path)
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.layout.Loop != nil {
			g.nodes = append(g.nodes, n)
			break
		}
	}
}

// pin takes in what templates read of the start.
func (m *Machine) pin(d StartedData) error {
	m.started, m.input, m.labels = d, raw(d.Input), d.Labels
	m.trace = NewTrace(m.id, d)
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
	if b := m.def.Budget; b != nil {
		m.tokens.budget = b.Tokens
		if b.Amount != nil {
			m.account.Budget = b.Amount
		}
	}
	return m.rebudget(d.Budget)
}

// rebudget replaces what a budget names: its amount, its tokens.
func (m *Machine) rebudget(b *BudgetData) error {
	if b == nil {
		return nil
	}
	if b.Tokens > 0 {
		m.tokens.budget = b.Tokens
	}
	if b.Amount == "" {
		return nil
	}
	amount, err := retry.Amount(b.Amount, b.Currency)
	if err != nil {
		return fmt.Errorf("%w: budget: %w", ErrUnreadable, err)
	}
	m.account.Budget = &amount
	return nil
}
