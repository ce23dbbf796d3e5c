package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/mutant"
	"recourse/journal"
	"recourse/saga/expr"
)

// Block is the shape of kinds that run steps of their own: switch, parallel,
// foreach, repeat. A saga itself is a group of steps that run one after another; a block has
// several such groups, which may run side by side.
type Block interface {
	// Enter decides what runs. It is asked once; what it returns is recorded.
	Enter(env expr.Env) (Entered, error)
	// Layout says how the block's groups run, given what was recorded. An error means that this was
	// recorded of another block.
	Layout(e Entered) (Layout, error)
	// Lists returns every list of steps there is inside, in the order of the definition.
	Lists() [][]*Step
	// Loops reports whether the lists run once for each iteration: the paths of their steps have
	// its index then.
	Loops() bool
}

// Entered is what a block has decided when it began.
type Entered struct {
	Branch *int              // of a switch: which list; -1: none
	Items  []json.RawMessage // of a foreach
	Vague  string            // in a plan: how often its steps run, or which of them, is not known, and what can be said of it
}

// Chooser is implemented by blocks that run one of their lists of steps: switch.
type Chooser interface {
	// Condition is that of one of [Block.Lists], for people.
	Condition(list int) string
}

// Layout is how a block runs: groups, or a loop.
type Layout struct {
	Groups [][]*Step // each runs once
	Named  bool      // the output is a map of the groups' outputs by the id of their last step; else that of the one group
	Loop   *Loop     // takes the place of Groups
	Limit  int       // how many groups run at once; 0: all
}

// Loop is a list of steps that runs several times. The output of the block is the list of
// the iterations' outputs.
type Loop struct {
	Steps   []*Step
	Count   int               // how many times, at most
	As      string            // what templates call the item; "" for none
	Items   []json.RawMessage // one for each iteration, with As
	History bool              // templates see the outputs of the iterations so far as `history`
	Output  *expr.Template    // of an iteration; nil: that of its last step
	Until   *expr.Program     // after an iteration: it was the last. nil: Count alone ends the loop
	Collect bool              // an iteration that fails is left out of the output, and the others go on
}

func (l Layout) count() int {
	if l.Loop != nil {
		return l.Loop.Count
	}
	return len(l.Groups)
}

// group is a list of steps that run one after another.
type group struct {
	steps  []*Step
	next   int
	cur    *node   // the step at next; nil when the group is over
	owner  *node   // the block around it; nil at the top
	broken *node   // the step whose failure ended it
	final  bool    // it belongs to the definition's `finally`
	prefix string  // of its steps' paths: "pages[3]."
	index  int     // among its owner's groups
	nodes  []*node // of an iteration: those that were touched, to be let go of at its end
}

func (g *group) over() bool { return g.next >= len(g.steps) || g.broken != nil }

// walk visits the group's innermost steps that may go on, or wait, in their order.
func (g *group) walk(visit func(*node) bool) bool {
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

// iteration is the path of an iteration of a loop, which the record that ends it has.
func (g *group) iteration() string { return strings.TrimSuffix(g.prefix, ".") }

// node is one step of this saga.
type node struct {
	step         *Step
	path         string
	in           *group
	first        int64 // the seq of its first record
	forward      track
	compensation track
	statusCheck  track  // the status query of `verify`
	block        *block // of a block that was entered
	output       json.RawMessage
	passed       bool // its group has moved on, or is no more
	abandoned    bool // a block around it has failed before it had ended
	// given replaces output in the compensation's templates: an operator's word.
	override json.RawMessage
	// child is the saga that the step has started last; the nil UUID: none.
	child        uuid.UUID
	neverStarted bool // its undo has found that there is no such saga
	// awaited is what a step that waits for a message waits for.
	awaited *Awaited
}

// block is the running part of a step that has steps of its own.
type block struct {
	Entered
	layout       Layout
	begun        int               // how many groups have begun
	active       []*group          // those whose end has not been taken in
	outputs      []json.RawMessage // of the groups that have ended well, by index
	skippedItems []SkippedItem     // iterations that were left out
	broken       *node             // the step whose failure ends the block
	failure      *Failure          // or what else does
	ended        bool              // no iteration follows: `until` holds
}

// SkippedItem is an iteration that failed and was left out, because of on_item_error: collect.
type SkippedItem struct {
	Index   int     `json:"index"`
	Error   Failure `json:"error"`
	InDoubt bool    `json:"in_doubt"` // it may have happened all the same
}

// closing reports whether the block only waits for what is under way in it, to fail then.
func (b *block) closing() bool { return b.broken != nil || b.failure != nil }

// closing reports whether a block around the step is.
func (n *node) closing() bool {
	for g := n.in; g.owner != nil; g = g.owner.in {
		if g.owner.block.closing() {
			return true
		}
	}
	return false
}

// ending reports whether there is nothing left to go on for: the saga, or a block around the step,
// fails.
func (m *Machine) ending(n *node) bool {
	return m.reason != nil && !n.in.final || n.closing()
}

// enter makes the group's next step the one that may go on.
func (m *Machine) enter(g *group) {
	g.cur = nil
	if g.over() {
		return
	}
	step := g.steps[g.next]
	g.cur = &node{step: step, path: g.prefix + step.ID, in: g}
	if g.owner != nil {
		if m.due == nil {
			m.due = make(map[string]*node)
		}
		m.due[g.cur.path] = g.cur
	}
}

// begin enters a block.
func (m *Machine) begin(n *node, e Entered) error {
	body, ok := n.step.Body.(Block)
	if !ok {
		return fmt.Errorf("%w: a step of kind %s has no steps of its own", ErrImpossible, n.step.Kind)
	}
	layout, err := body.Layout(e)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	n.block = &block{Entered: e, layout: layout, outputs: make([]json.RawMessage, layout.count())}
	m.fill(n)
	return nil
}

// fill begins as many of the block's groups as may run.
func (m *Machine) fill(n *node) {
	b := n.block
	for b.begun < b.layout.count() && !b.ended && !b.closing() && (b.layout.Limit == 0 || len(b.active) < b.layout.Limit || mutant.On("limit-ignored")) {
		g := &group{owner: n, final: n.in.final, prefix: n.in.prefix, index: b.begun}
		if l := b.layout.Loop; l != nil {
			g.steps, g.prefix = l.Steps, n.path+"["+strconv.Itoa(b.begun)+"]."
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

// groupOver takes in that a group has come to its end, one way or the other.
func (m *Machine) groupOver(g *group) {
	if g.owner == nil {
		if g.broken != nil && m.reason == nil {
			m.reason = m.failure(g.broken)
			m.inboxRevision++
		}
		return
	}
	b := g.owner.block
	l := b.layout.Loop
	if g.broken != nil && (l == nil || !l.Collect) {
		if b.broken == nil {
			b.broken = g.broken
			m.inboxRevision++ // nobody is asked any more about what is left behind
		}
		b.drop(g)
		return
	}
	if l != nil {
		return // a record ends the iteration
	}
	b.outputs[g.index] = m.lastOutput(g)
	b.drop(g)
	m.fill(g.owner)
}

func (b *block) drop(g *group) {
	b.active = slices.DeleteFunc(b.active, func(o *group) bool { return o == g })
}

// decideGroup goes on with the step that a group stands at.
func (m *Machine) decideGroup(g *group) []Decision { return m.decideStep(g.cur) }

// decides reports whether the last of the decisions is to be carried out at once: what comes
// behind it is decided when it is.
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

// decideBlock goes on inside a block, or ends it.
func (m *Machine) decideBlock(n *node) []Decision {
	b := n.block
	if b.closing() {
		if ds, pending := m.settleInFlight(b.active, n.goesOn()); pending {
			return ds
		}
		if b.failure != nil {
			return m.outcome(n, journal.Do, journal.Refused, OutcomeData{Error: b.failure, Next: m.endFailed(n)})
		}
		return m.outcome(n, journal.Do, journal.Refused, OutcomeData{Error: b.broken.cause(), Next: NextFail})
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

// goesOn reports whether the saga goes on although the step fails.
func (n *node) goesOn() bool { return n.step.Continue || n.in.final || n.contained() }

// settleInFlight waits for what is under way in groups whose end is decided: attempts, and queries
// about attempts in doubt; with whole, for all that is in doubt, since nothing else will come back
// to it. pending is false when there is nothing of that.
func (m *Machine) settleInFlight(groups []*group, whole bool) (ds []Decision, pending bool) {
	if mutant.On("siblings-not-awaited") {
		return nil, false
	}
	for _, g := range groups {
		g.walk(func(n *node) bool {
			switch n.forward.state {
			case inFlight:
				pending = true
			case checking:
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

// endIteration is the record that ends one run of a loop's steps.
func (m *Machine) endIteration(g *group) Decision {
	l := g.owner.block.layout.Loop
	var d DecidedData
	if g.broken != nil {
		d.Error = g.broken.cause()
	} else {
		d.Output, d.Last, d.Error = m.iterated(g, l)
	}
	return Write{Record: journal.Record{Kind: journal.Decided, Path: g.iteration(), Way: journal.Do, Data: encode(d)}}
}

// iterated computes what an iteration gives, and whether it was the last.
func (m *Machine) iterated(g *group, l *Loop) (json.RawMessage, *bool, *Failure) {
	e := m.envOf(g)
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

// applyIteration takes in the record that ends an iteration.
func (m *Machine) applyIteration(r journal.Record) error {
	from := strings.LastIndexByte(r.Path, '[')
	if from < 0 {
		return fmt.Errorf("%w: %q names no iteration", ErrImpossible, r.Path)
	}
	owner, index := r.Path[:from], strings.TrimSuffix(r.Path[from+1:], "]")
	var d DecidedData
	if err := read(r, &d); err != nil {
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

// deepest is the step whose failure is that of n: n itself, or one inside it that has ended it.
func (n *node) deepest() *node {
	for n.block != nil && n.block.broken != nil {
		n = n.block.broken
	}
	return n
}

// cause is why the step failed.
func (n *node) cause() *Failure {
	if n.forward.failure != nil {
		return n.forward.failure
	}
	return &Failure{Code: "step_failed", Title: "step " + n.path + " failed"}
}

// release lets go of what nothing can read any more after an iteration: only the
// compensations of its steps, and of those in loops inside it, still may.
func (g *group) release() {
	if slices.ContainsFunc(g.nodes, func(n *node) bool { return undoable(n.step) }) {
		return
	}
	for _, n := range g.nodes {
		n.output, n.forward.actionInput = nil, nil
	}
	g.nodes = nil
}

// undoable reports whether a step, or one inside it, has a compensation.
func undoable(s *Step) bool {
	if b, ok := s.Body.(Block); ok {
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
		return m.refuse(n, &Failure{Code: "max_reached", Title: fmt.Sprintf("`until` of step %s does not hold after %d iterations, which are its `max`", n.path, l.Count)})
	}
	return m.outcome(n, journal.Do, journal.Succeeded, OutcomeData{Output: b.output()})
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
		return encode(list)
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

// history lists the outputs of the iterations before the one that a template belongs to.
func (b *block) history(index int) any {
	list := make([]any, 0, index)
	for _, out := range b.outputs[:index] {
		list = append(list, raw(out))
	}
	return list
}

// abandon marks what is left undone in a block that has failed.
func (m *Machine) abandon(b *block) {
	for _, g := range b.active {
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

// giveUp marks a step that the saga does not go on with.
func (m *Machine) giveUp(n *node) {
	if n.forward.state.ended() {
		return
	}
	if n.forward.state.inbox() || n.forward.state == awaiting || n.statusCheck.state.inbox() {
		m.inboxRevision++
	}
	if n.forward.doubt && !mutant.On("left-behind-is-failure") {
		n.forward.state = doubted
		n.statusCheck.request = nil
		return
	}
	switch n.forward.state {
	case sleeping, woken, awaiting, expired: // it only waited: nothing has failed, and nothing has happened
		n.forward.state = skipped
	default:
		n.forward.state = failed
	}
	n.forward.request, n.statusCheck.request = nil, nil
}

// SplitQuery takes apart the path of a record: that of a step, and whether it is about its status
// query.
func SplitQuery(path string) (base string, query bool) {
	base, query = strings.CutSuffix(path, verifySuffix)
	if query && strings.HasSuffix(base, "]") { // a step called verify, in a loop
		return path, false
	}
	return base, query
}
