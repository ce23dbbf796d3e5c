package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// Errors of a Machine.
var (
	// ErrImpossible says that the record cannot follow the records before it. The journal belongs
	// to another definition, was written by a later program, or is damaged.
	ErrImpossible = errors.New("record cannot follow")
	// ErrStale says that the answer belongs to an attempt that is no longer in flight.
	ErrStale = errors.New("attempt is not in flight")
	// ErrTooLate says that a saga was to begin that undoes another one whose undo window is over.
	ErrTooLate = errors.New("the undo window is over")
)

// Machine is the state of one saga. It is not safe for concurrent use.
type Machine struct {
	def *saga.Definition
	id  uuid.UUID

	seq     int64
	at      time.Time
	latest  time.Time // see Clock
	hash    []byte
	created time.Time
	begun   time.Time  // when the saga's timeout begins
	timeout []Decision // the saga's timeout, which is part of every decision until it fires; nil: not built yet
	// appended is the data of the draft that Append is applying, if decoding the record would give
	// the same; nil otherwise.
	appended any
	outline  *outline // for a plan; nil: a real saga

	started saga.StartedData
	trace   saga.Trace
	input   any
	vars    map[string]any
	labels  map[string]string
	account retry.Account
	// children and childTokens are the part of what is spent that child sagas have spent.
	children    retry.Money
	childTokens saga.TokensView
	guests      []*guest // sessions that belong to the saga, in the order of their reservations
	tokens      tokens
	models      map[string]modelUse // by name
	// While deciding, short says that an attempt waits for money, so later attempts that may cost
	// some are not decided.
	short bool
	raise struct { // caches Machine.raises for the journal's length seq
		seq   int64
		paths map[string]bool
	}
	// inFlight is the part of the account's reservations that belongs to attempts in flight.
	inFlight retry.Money

	origin      *origin         // nil: the saga does not undo another one
	taken       map[string]bool // ids of steps of the top level whose outcomes are another saga's
	forked      *forked         // nil: not a fork
	session     *session        // nil: not a session
	forward     *group
	finally     *group
	steps       map[string]*node // by path; only steps that have a record
	due         map[string]*node // steps inside blocks that may get their first record now
	touched     []*node          // steps in the order of their first records
	failedSteps []*node          // steps that failed, in their order; a person may have settled one since
	pivot       *node            // nil: the pivot has no record yet

	paused   bool
	pivoted  bool
	reason   *saga.Reason // why the saga ends without having reached its goal
	stop     bool         // the saga ends without undoing
	forced   bool         // an operator's compensate command: undo although the pivot has passed
	plan     []*node      // fixed by the record `compensating`
	undone   int          // how many steps of the plan are settled
	undoing  bool
	residual []compensation.Residue
	finished *saga.FinishedData
	applied  map[string]bool              // ids of the messages that records have applied
	signals  map[string][]json.RawMessage // signals that no step has received yet, by name, the oldest first
	// For a saga with a parent: it has reached its goal and awaits its parent's decision, and which
	// decision came. noOutput says why it has no output for its parent; nil: it has one.
	awaitingParent, released, reverted bool
	outputForParent                    json.RawMessage
	noOutput                           *saga.Failure
	lastCommand                        int64 // the seq of the last record that was written for a person's command
	inboxRevision                      int   // how often the items that need a person have changed
}

// New returns the machine of a saga without records.
func New(def *saga.Definition, id uuid.UUID) *Machine {
	m := &Machine{
		def: def, id: id,
		steps:   make(map[string]*node),
		applied: make(map[string]bool),
		forward: &group{steps: def.Steps},
		finally: &group{steps: def.Finally, final: true},
	}
	if def.Session != nil {
		m.session = newSession(def.Session)
		m.forward.session = m.session
	}
	m.enter(m.forward)
	m.enter(m.finally)
	return m
}

// Replay returns a machine to which the records are applied.
func Replay(def *saga.Definition, id uuid.UUID, records []journal.Record) (*Machine, error) {
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

// Definition returns the definition that the saga is pinned to.
func (m *Machine) Definition() *saga.Definition { return m.def }

// Seq returns the seq of the last record, 0 for none.
func (m *Machine) Seq() int64 { return m.seq }

// Hash returns the hash of the last record, nil for none.
func (m *Machine) Hash() []byte { return m.hash }

// At returns the time of the last record.
func (m *Machine) At() time.Time { return m.at }

// Applied reports whether a record has applied the message with this id.
func (m *Machine) Applied(message uuid.UUID) bool { return m.applied[message.String()] }

// Labels returns the saga's labels. The caller must not change them.
func (m *Machine) Labels() map[string]string { return m.labels }

// Draft is a record that is not appended yet, so it has no seq, time, writer and hash.
type Draft struct {
	Kind       journal.Kind
	Path       string
	Way        journal.Way
	Attempt    int
	Generation int
	Key        string
	Class      journal.Class
	Data       any            // one of the types of package saga whose names end in Data; nil: none
	Blobs      []journal.Blob // content to store with the record
}

// Append completes a draft to the journal's next record, and applies it. The record's time is at,
// in whole milliseconds, but never before the last record's. The caller must store the record
// before it acts on anything that follows from it. Errors are those of Apply; the machine must not
// be used after one.
func (m *Machine) Append(d Draft, at time.Time, writer string) (journal.Record, error) {
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(m.at) {
		at = m.at
	}
	r := journal.Record{Seq: m.seq + 1, At: at, Node: writer, Kind: d.Kind, Path: d.Path, Way: d.Way, Attempt: d.Attempt, Generation: d.Generation, Key: d.Key, Class: d.Class}
	if d.Data != nil {
		r.Data = saga.Encode(d.Data)
		if saga.RoundTrips(d.Data, r.Data) {
			m.appended = d.Data
		}
	}
	journal.Seal(m.id, m.hash, &r)
	err := m.Apply(r)
	m.appended = nil
	return r, err
}

// Status returns the saga's status.
func (m *Machine) Status() saga.Status { return m.status(m.waits) }

// status derives the status. waits says which steps count as waiting.
func (m *Machine) status(waits func(*node) bool) saga.Status {
	switch {
	case m.finished != nil:
		return m.finished.Status
	case m.paused:
		return saga.PausedStatus
	case m.undoing && m.undone < len(m.plan):
		if m.plan[m.undone].compensation.state.inbox() {
			return saga.Stuck
		}
		return saga.Undoing
	}
	switch {
	case m.origin != nil:
		return saga.Undoing
	case m.awaitsParent():
		return saga.Waiting
	}
	status := saga.Succeeded // there is no current step
	m.currentSteps(func(n *node) bool {
		switch s := m.inboxTrack(n); {
		case n.own != nil && s == &n.forward && !s.state.inbox(): // the agent is at work, if its process lives
		case s.state.inbox() && m.hidden(n): // other steps are in flight; this one is abandoned when they have ended
			status = saga.Running
		case s.state.inbox() && s.state != exhausted:
			status = saga.Stuck
		case waits(n):
			if status == saga.Succeeded {
				status = saga.Waiting
			}
		default:
			status = saga.Running
		}
		return status != saga.Stuck
	})
	if m.session != nil && m.open() == nil {
		return m.session.status(status)
	}
	if status == saga.Succeeded {
		return saga.Running
	}
	return status
}

// awaitsParent reports whether the saga awaits its parent's decision to confirm or revert it.
func (m *Machine) awaitsParent() bool { return m.awaitingParent && !m.released && !m.reverted }

// waits reports whether the step continues only at a later time or after an outside event.
func (m *Machine) waits(n *node) bool {
	switch n.forward.state {
	case backoff, sleeping, awaiting, resembling, exhausted:
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

// hidden reports whether a step that would need a person is not shown to anybody, because the saga,
// or a block around the step, fails without it.
func (m *Machine) hidden(n *node) bool {
	if !m.ending(n) || n.forward.state == checking || m.reason != nil && m.unsettled() == n {
		return false // the saga waits for it, also for the status check
	}
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.closing() {
			return !n.forward.doubt || !g.owner.goesOn()
		}
	}
	return true
}

// waitsForOthers is waits without the check of the budget, which would render templates.
func (m *Machine) waitsForOthers(n *node) bool { return n.forward.state != ready && m.waits(n) }

// currentSteps visits the steps that the saga is at: those that may continue, or that wait. If a
// failing saga cannot be undone before a step in doubt is settled, that step is the only one. visit
// says whether to continue.
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

// currentPath returns the path of the first step that the saga is at, "" for none.
func (m *Machine) currentPath() (path string) {
	m.currentSteps(func(n *node) bool {
		if n.first != 0 {
			path = n.path
		}
		return path == ""
	})
	return path
}

// inboxTrack returns the track of n that needs a person, if one does: its compensation while it is
// being undone, its status check, or its forward track.
func (m *Machine) inboxTrack(n *node) *track {
	switch {
	case m.undoes(n):
		return &n.compensation
	case n.forward.state == checking && n.statusCheck.state.inbox():
		return &n.statusCheck
	}
	return &n.forward
}

// undoes reports whether the step is being undone now.
func (m *Machine) undoes(n *node) bool {
	if m.undoing {
		return m.undone < len(m.plan) && m.plan[m.undone] == n
	}
	return m.session != nil && slices.Contains(m.session.undos, n)
}

// locate returns the step with this path: a step that has records, or the next step of a running
// group.
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
	delete(m.due, n.path)
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.layout.Loop != nil {
			g.nodes = append(g.nodes, n)
			break
		}
	}
}

// pin stores the parts of the start that templates read.
func (m *Machine) pin(d saga.StartedData) error {
	m.started, m.input, m.labels = d, raw(d.Input), d.Labels
	m.trace = saga.NewTrace(m.id, d)
	m.vars = make(map[string]any, len(m.def.Vars)+len(d.Vars))
	for _, v := range m.def.Vars {
		m.vars[v.Name] = v.Value
	}
	for name, raw := range d.Vars { // any order
		v, err := expr.Decode(raw)
		if err != nil {
			return fmt.Errorf("%w: var %s: %w", saga.ErrUnreadable, name, err)
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

// rebudget replaces the limits that b names: the amount, the tokens.
func (m *Machine) rebudget(b *saga.BudgetData) error {
	if b == nil {
		return nil
	}
	if b.Tokens > 0 {
		m.tokens.budget = b.Tokens
	}
	if b.Amount == "" {
		return nil
	}
	amount, err := retry.Total(b.Amount, b.Currency)
	if err != nil {
		return fmt.Errorf("%w: budget: %w", saga.ErrUnreadable, err)
	}
	m.account.Budget = &amount
	return nil
}
