package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

func groupCount(l saga.Layout) int {
	if l.Loop != nil {
		return l.Loop.Count
	}
	return len(l.Groups)
}

// group is a list of steps that run one after another.
type group struct {
	steps   []*saga.Step
	next    int
	cur     *node   // the step at next; nil if the group is over
	waiting *node   // while an approval is asked again: the step whose request waits for it
	rereads []*node // of the top level: steps that are read again, while a request waits for them
	owner   *node   // the block around it; nil at the top level
	broken  *node   // the step whose failure ended the group
	final   bool    // it belongs to the definition's `finally`
	prefix  string  // the prefix of its steps' paths: "pages[3]."
	index   int     // among its owner's groups
	nodes   []*node // for an iteration: the steps that have records, so that release can free them

	session *session // the group of a session, whose calls are groups of their own; nil for others
	call    *session // for the group of one call: its session
}

func (g *group) over() bool {
	if g.session != nil {
		return g.session.committed
	}
	return g.next >= len(g.steps) || g.broken != nil
}

// walk visits the innermost steps of the group that may continue, or that wait, in order.
func (g *group) walk(visit func(*node) bool) bool {
	if g.session != nil {
		return g.session.walk(visit)
	}
	for _, n := range g.rereads {
		if !n.forward.state.ended() && !visit(n) {
			return false
		}
	}
	switch {
	case g.cur == nil:
		return true
	case g.cur.forward.state != entered:
		return visit(g.cur)
	}
	for _, inner := range g.cur.block.active {
		if !inner.walk(visit) {
			return false
		}
	}
	return true
}

// iteration returns the path of an iteration. The record that ends the iteration has this path.
func (g *group) iteration() string { return strings.TrimSuffix(g.prefix, ".") }

// node is one step of this saga.
type node struct {
	step         *saga.Step
	path         string
	in           *group
	first        int64 // the seq of its first record
	forward      track
	compensation track
	statusCheck  track  // the status check of `verify`
	block        *block // set once a block was entered
	output       json.RawMessage
	taken        *taken // nil: this saga has reached it itself
	passed       bool   // its group has moved on or has ended
	abandoned    bool   // a block around it failed while it was running; or its answer has changed
	// reread is the answer of a step that was read again, and difference says where it differs from
	// output. redo says that the step runs again, or that its `when` is still to be evaluated, and
	// stale, for an approval, why.
	reread     json.RawMessage
	answeredAt time.Time // while it is read again: the time of the answer before
	difference string
	redo       bool
	stale      *saga.Stale
	// override replaces output in the compensation's templates, if an operator set it.
	override json.RawMessage
	// child is the last saga that the step started; the nil UUID: none.
	child        uuid.UUID
	childSpent   retry.Money     // what was booked for it before it was undone
	childTokens  saga.TokensView // likewise
	neverStarted bool            // its compensation found that this saga does not exist
	stubbed      bool            // of a fork: its outcome is a stub
	// awaited says what the step waits for.
	awaited  *saga.Awaited
	approval bool     // of a call of an agent, or a step of a fork: a person has to approve it first
	identity string   // of a call of a session that is a fork
	own      *ownStep // of a step that the agent does itself; nil for others
	model    bool     // of a session: a request to a model
	life     int      // of a session's call: the life that has made it
	repeat   *repeat  // of a session's call that may repeat an earlier one; nil for others
}

// block is the state of a block that was entered.
type block struct {
	saga.Entered
	layout       saga.Layout
	begun        int               // how many groups have begun
	active       []*group          // groups whose end was not applied yet
	outputs      []json.RawMessage // outputs of the groups that succeeded, by index
	skippedItems []SkippedItem     // iterations that failed and were left out
	broken       *node             // the step whose failure ends the block
	failure      *saga.Failure     // a failure of the block itself that ends it
	ended        bool              // no iteration follows: `until` was true
}

// SkippedItem is an iteration that failed and was left out, because of on_item_error: collect.
type SkippedItem struct {
	Index   int          `json:"index"`
	Error   saga.Failure `json:"error"`
	InDoubt bool         `json:"in_doubt"` // it may have had an effect
}

// closing reports whether the block is failing: it only waits for its attempts in flight.
func (b *block) closing() bool { return b.broken != nil || b.failure != nil }

// closing reports whether a block around the step is failing.
func (n *node) closing() bool {
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.closing() {
			return true
		}
	}
	return false
}

// ending reports whether the step's result is no longer needed, because the saga, or a block around
// the step, is failing.
func (m *Machine) ending(n *node) bool {
	return m.reason != nil && !n.in.final || n.closing()
}

// enter makes the group's next step the current one.
func (m *Machine) enter(g *group) {
	g.cur = nil
	if g == m.forward {
		m.pass()
	}
	if g.over() || g.session != nil {
		return
	}
	step := g.steps[g.next]
	if n := m.steps[step.ID]; n != nil && g == m.forward { // it runs again
		g.cur = n
		return
	}
	g.cur = m.next(g, step)
	m.expect(g.cur)
}

// expect makes locate find a node that has no record yet. At the top level it is found as the
// current step.
func (m *Machine) expect(n *node) {
	if n.in.owner == nil && n.in.call == nil {
		return
	}
	if m.due == nil {
		m.due = make(map[string]*node)
	}
	m.due[n.path] = n
}

// next returns the node of a step that the group is about to reach.
func (m *Machine) next(g *group, step *saga.Step) *node {
	return &node{step: step, path: g.prefix + step.ID, in: g, approval: step.Approve || m.forked.holds(step)}
}

// begin enters a block.
func (m *Machine) begin(n *node, e saga.Entered) error {
	body, ok := n.step.Body.(saga.Block)
	if !ok {
		return fmt.Errorf("%w: a step of kind %s has no steps of its own", ErrImpossible, n.step.Kind)
	}
	layout, err := body.Layout(e)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	n.block = &block{Entered: e, layout: layout, outputs: make([]json.RawMessage, groupCount(layout))}
	m.fill(n)
	return nil
}

// fill begins as many of the block's groups as may run.
func (m *Machine) fill(n *node) {
	b := n.block
	for b.begun < groupCount(b.layout) && !b.ended && !b.closing() && (b.layout.Limit == 0 || len(b.active) < b.layout.Limit) {
		g := &group{owner: n, final: n.in.final, prefix: n.in.prefix, index: b.begun}
		if l := b.layout.Loop; l != nil {
			g.steps, g.prefix = l.List(b.begun), n.path+"["+strconv.Itoa(b.begun)+"]."
		} else {
			g.steps = b.layout.Groups[b.begun]
		}
		b.begun++
		b.active = append(b.active, g)
		m.enter(g)
		if g.over() {
			m.groupOver(g)
		}
	}
}

// groupOver applies the end of a group.
func (m *Machine) groupOver(g *group) {
	if g.call != nil {
		g.call.drop(g)
		return
	}
	if g.owner == nil {
		if g.broken != nil {
			m.abortBy(m.failure(g.broken))
		}
		return
	}
	b := g.owner.block
	l := b.layout.Loop
	if g.broken != nil && (l == nil || !l.Collect) {
		if b.broken == nil {
			b.broken = g.broken
			m.inboxRevision++ // items of abandoned steps leave the inbox
		}
		b.drop(g)
		return
	}
	if l != nil {
		return // a record of its own ends the iteration
	}
	b.outputs[g.index] = m.lastOutput(g)
	b.drop(g)
	m.fill(g.owner)
}

func (b *block) drop(g *group) {
	b.active = slices.DeleteFunc(b.active, func(o *group) bool { return o == g })
}

// decideGroup decides the group's current step.
func (m *Machine) decideGroup(g *group) []Decision {
	if g.session != nil {
		return m.decideSession(g.session)
	}
	return m.decideStep(g.cur)
}

// decides reports whether the last of the decisions is to be carried out at once. What follows it
// is decided after that.
func decides(ds []Decision) bool {
	if len(ds) == 0 {
		return false
	}
	switch ds[len(ds)-1].(type) {
	case Dispatch, Write:
		return true
	}
	return false
}

// decideBlock decides the steps in a block, or the end of the block.
func (m *Machine) decideBlock(n *node) []Decision {
	b := n.block
	if b.closing() {
		if ds, pending := m.settleInFlight(b.active, n.goesOn()); pending {
			return ds
		}
		if b.failure != nil {
			return m.outcome(n, journal.Do, journal.Refused, saga.OutcomeData{Error: b.failure, Next: m.endFailed(n)})
		}
		return m.outcome(n, journal.Do, journal.Refused, saga.OutcomeData{Error: b.broken.cause(), Next: saga.NextFail})
	}
	if len(b.active) == 0 {
		return m.endBlock(n)
	}
	var ds []Decision
	for _, g := range b.active {
		if g.over() {
			return append(ds, m.endIteration(g))
		}
		if ds = append(ds, m.decideGroup(g)...); decides(ds) {
			return ds
		}
	}
	return ds
}

// goesOn reports whether the saga continues although the step fails.
func (n *node) goesOn() bool { return n.step.Continue || n.in.final || n.contained() }

// settleInFlight waits for attempts in flight, and for status checks, in groups that are ending.
// With whole, it also waits for every other step in doubt, because nothing will settle it later.
// pending is false if there is nothing to wait for.
func (m *Machine) settleInFlight(groups []*group, whole bool) (ds []Decision, pending bool) {
	for _, g := range groups {
		g.walk(func(n *node) bool {
			switch n.forward.state {
			case inFlight, checking:
				pending = true
				ds = append(ds, m.decideStep(n)...)
			default:
				if whole && n.forward.doubt && !n.forward.state.ended() {
					pending = true
					ds = append(ds, m.decideStep(n)...)
				}
			}
			return !decides(ds)
		})
		if decides(ds) {
			break
		}
	}
	return ds, pending
}

// endIteration returns the record that ends an iteration.
func (m *Machine) endIteration(g *group) Decision {
	l := g.owner.block.layout.Loop
	var d saga.DecidedData
	if g.broken != nil {
		d.Error = g.broken.cause()
	} else {
		d.Output, d.Last, d.Error = m.iterated(g, l)
	}
	return Write{Record: Draft{Kind: journal.Decided, Path: g.iteration(), Way: journal.Do, Data: d}}
}

// iterated evaluates an iteration's output, and whether it was the last iteration.
func (m *Machine) iterated(g *group, l *saga.Loop) (json.RawMessage, *bool, *saga.Failure) {
	e := m.envOf(g)
	if talk, ok := g.owner.step.Body.(saga.Conversation); ok {
		out, last, err := talk.Turn(e, g.owner.block.Entered, g.index)
		if err != nil {
			return nil, nil, asFailure(g.owner.step.Kind, err)
		}
		return out, last, nil
	}
	out := m.lastOutput(g)
	if l.Output != nil {
		var err error
		if out, err = l.Output.JSON(e); err != nil {
			return nil, nil, expressionFailure("output", err)
		}
	}
	if l.Until == nil {
		return out, nil, nil
	}
	last, err := l.Until.Bool(e)
	if m.outline != nil && errors.Is(err, expr.ErrUnknown) {
		m.outline.vague[g.owner.path] = fmt.Sprintf("until %s, at most %d times", strings.TrimSpace(l.Until.Source()), l.Count)
		last, err = true, nil
	}
	if err != nil {
		return nil, nil, expressionFailure("until", err)
	}
	return out, &last, nil
}

// applyIteration applies the record that ends an iteration.
func (m *Machine) applyIteration(r journal.Record) error {
	from := strings.LastIndexByte(r.Path, '[')
	if from < 0 {
		return fmt.Errorf("%w: %q names no iteration", ErrImpossible, r.Path)
	}
	owner, index := r.Path[:from], strings.TrimSuffix(r.Path[from+1:], "]")
	var d saga.DecidedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	n := m.steps[owner]
	if n == nil || n.block == nil || n.forward.state != entered || n.block.layout.Loop == nil || n.block.closing() {
		return fmt.Errorf("%w: %q is no loop that runs", ErrImpossible, owner)
	}
	b := n.block
	at := slices.IndexFunc(b.active, func(g *group) bool { return strconv.Itoa(g.index) == index })
	if at < 0 || !b.active[at].over() {
		return fmt.Errorf("%w: iteration %s is not at its end", ErrImpossible, r.Path)
	}
	g := b.active[at]
	switch {
	case d.Error == nil:
		b.outputs[g.index] = d.Output
		if d.Output == nil {
			b.outputs[g.index] = json.RawMessage("null")
		}
	case b.layout.Loop.Collect:
		b.skippedItems = append(b.skippedItems, SkippedItem{Index: g.index, Error: *d.Error, InDoubt: g.broken != nil && g.broken.deepest().forward.state == doubted})
	default:
		b.failure = d.Error
		m.inboxRevision++
	}
	b.ended = b.ended || d.Last != nil && *d.Last
	b.drop(g)
	g.release()
	m.fill(n)
	return nil
}

// deepest returns the innermost step whose failure made n fail, or n itself.
func (n *node) deepest() *node {
	for n.block != nil && n.block.broken != nil {
		n = n.block.broken
	}
	return n
}

// cause returns why the step failed.
func (n *node) cause() *saga.Failure {
	if n.forward.failure != nil {
		return n.forward.failure
	}
	return &saga.Failure{Code: "step_failed", Title: "step " + n.path + " failed"}
}

// release frees the state of an iteration that has ended. Only compensations of its steps, and of
// steps in loops inside it, may still read the iteration.
func (g *group) release() {
	if slices.ContainsFunc(g.nodes, func(n *node) bool { return undoable(n.step) }) {
		return
	}
	for _, n := range g.nodes {
		n.output, n.forward.actionInput = nil, nil
		if a := n.awaited; a != nil && a.Approval != nil && len(a.Approval.Covers) > 0 {
			short := *a.Approval
			short.Covers = nil
			n.awaited = &saga.Awaited{Approval: &short}
		}
	}
	g.nodes = nil
}

// undoable reports whether a step, or a step inside it, has a compensation.
func undoable(s *saga.Step) bool {
	if b, ok := s.Body.(saga.Block); ok {
		for _, list := range b.Lists() {
			if slices.ContainsFunc(list, undoable) {
				return true
			}
		}
	}
	return s.Compensate != nil
}

// endBlock ends a block whose groups have all ended.
func (m *Machine) endBlock(n *node) []Decision {
	b := n.block
	if l := b.layout.Loop; l != nil && l.Until != nil && !b.ended {
		return m.refuse(n, &saga.Failure{Code: "max_reached", Title: fmt.Sprintf("`until` of step %s does not hold after %d iterations, which are its `max`", n.path, l.Count)})
	}
	out := b.output()
	if talk, ok := n.step.Body.(saga.Conversation); ok {
		var err error
		if out, err = talk.Total(b.outputs[:b.begun]); err != nil {
			return m.refuse(n, asFailure(n.step.Kind, err))
		}
	}
	return m.outcome(n, journal.Do, journal.Succeeded, saga.OutcomeData{Output: out})
}

func (b *block) output() json.RawMessage {
	switch {
	case b.layout.Loop != nil:
		list := make([]json.RawMessage, 0, b.begun)
		for _, out := range b.outputs[:b.begun] {
			if out != nil {
				list = append(list, out)
			}
		}
		return saga.Encode(list)
	case b.layout.Named:
		fields := make([]string, 0, len(b.outputs))
		for i, out := range b.outputs {
			list := b.layout.Groups[i]
			fields = append(fields, strconv.Quote(list[len(list)-1].ID)+":"+string(out))
		}
		return json.RawMessage("{" + strings.Join(fields, ",") + "}")
	case len(b.outputs) == 1:
		return b.outputs[0]
	}
	return json.RawMessage("null")
}

// history returns the outputs of the iterations before index.
func (b *block) history(index int) any {
	list := make([]any, 0, index)
	for _, out := range b.outputs[:index] {
		list = append(list, raw(out))
	}
	return list
}

// abandon marks the unfinished steps of a block that has failed.
func (m *Machine) abandon(b *block) {
	for _, g := range b.active {
		m.leaveWaiting(g)
		n := g.cur
		if n == nil {
			continue
		}
		delete(m.due, n.path)
		g.cur, n.passed, n.abandoned = nil, true, true
		if n.first == 0 {
			continue
		}
		if n.block != nil {
			m.abandon(n.block)
		}
		m.giveUp(n)
	}
	b.active = nil
}

// giveUp abandons a step that the saga does not continue.
func (m *Machine) giveUp(n *node) {
	if n.forward.state.ended() {
		return
	}
	if n.forward.doubt {
		n.forward.state = doubted
		n.statusCheck.request = nil
		return
	}
	switch n.forward.state {
	case sleeping, woken, awaiting, resembling, expired: // it only waited, so nothing failed and nothing happened
		n.forward.state = skipped
	default:
		n.forward.state = failed
	}
	n.forward.request, n.statusCheck.request = nil, nil
}
