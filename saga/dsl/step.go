package dsl

import (
	"fmt"
	"slices"
	"time"

	"recourse/saga"
	"recourse/saga/expr"
)

// stepKeys are the keys that every step has.
var stepKeys = []string{"id", "when", "output", "expect", "retry", "timeout", "deadline", "cost", "idempotency",
	"in_doubt", "key_window", "on_error", "hold_for", "fresh_for", "on_change", "pivot", "compensate"}

// callKeys are the keys that only say something about a request.
var callKeys = []string{"expect", "retry", "timeout", "deadline", "cost", "idempotency", "in_doubt", "key_window"}

func contains[T comparable](list []T, v T) bool { return slices.Contains(list, v) }

// steps compiles a list of steps. s is the scope of the list, which grows as its steps are
// compiled.
func (p *parser) steps(n *Node, s *scope) []*saga.Step {
	if n.Form != List || len(n.Items) == 0 {
		p.expect(n, "a list of at least one step")
		return nil
	}
	out := make([]*saga.Step, 0, len(n.Items))
	for _, item := range n.Items {
		if step := p.step(item, s); step != nil {
			out = append(out, step)
		}
	}
	p.covered(out, s)
	return out
}

// step compiles one step of a list and makes it visible to the steps after it.
func (p *parser) step(n *Node, list *scope) *saga.Step {
	if n.Form != Map {
		p.expect(n, "a step: a map with id and one of "+quoted(p.names))
		return nil
	}
	if p.read++; p.read > MaxSteps {
		if p.read == MaxSteps+1 {
			p.fail(n, "too_many_steps", tooManySteps)
		}
		return nil
	}
	id := p.id(n)
	s := list.in(id)
	var when *expr.Program
	if v := n.Get("when"); v != nil {
		when = p.condition(v, s, Plain)
		s.assume(when, true)
	}
	step := p.body(n, s, "a step", p.names, stepKeys)
	if step == nil {
		p.reveal(n, list)
		return nil
	}
	step.ID, step.When = id, when
	p.common(n, s, step)
	list.pass(step, s)
	list.ids[id] = true
	for _, inner := range s.inner {
		list.ids[inner] = true
	}
	if id != "" && p.def.ByID[id] == nil {
		p.def.ByID[id] = step
	}
	p.nodes[step] = n
	return step
}

// reveal makes the steps of a part that could not be compiled visible, so that one error does not
// cause others.
func (p *parser) reveal(n *Node, list *scope) {
	if id := n.Get("id"); id != nil && id.IsText() {
		list.ids[id.value] = true
	}
	for _, item := range n.Items {
		p.reveal(item, list)
	}
	for _, e := range n.Entries {
		p.reveal(e.Value, list)
	}
}

func (p *parser) id(n *Node) string {
	v := n.Get("id")
	if v == nil {
		p.fail(n, "missing_key", "a step needs an id: it names the step's output, key and place in the journal")
		return ""
	}
	id, ok := p.str(v, "the step's id")
	if !ok {
		return ""
	}
	if !stepName.MatchString(id) {
		p.fail(v, "bad_name", "a step's id is a small letter, then up to 62 small letters, digits or _")
	} else if first := p.taken[id]; first != nil {
		p.fail(v, "duplicate_id", fmt.Sprintf("%q is already the id of the step on line %d: ids are unique in the whole definition", id, first.Line))
	} else {
		p.taken[id] = n
	}
	return id
}

// common compiles the keys that only a step of a list has.
func (p *parser) common(n *Node, s *scope, step *saga.Step) {
	kind := p.kinds[step.Kind]
	if v := n.Get("output"); v != nil && !kind.has("output") {
		// Published documents may have an output at other steps, where nothing evaluates it.
		output := p.template(v, s, OnResult)
		if _, ok := step.Body.(saga.Call); ok {
			step.Output = output
		}
	}
	p.onError(n, s, step)
	if v := n.Get("retry"); v != nil {
		step.Retry = p.retry(v, step.Retry)
	}
	if v := p.defaults.inDoubt; v != nil && !step.InDoubt.Declared {
		step.InDoubt = p.inDoubt(v, s)
	}
	if v := n.Get("in_doubt"); v != nil {
		step.InDoubt = p.inDoubt(v, s)
	}
	if v := n.Get("pivot"); v != nil && p.boolean(v) {
		p.setPivot(v, s, step)
	}
	p.freshFor(n, s, step)
	p.conclude(step, s) // before the compensation, which reads the output
	if u, ok := step.Body.(Undoes); ok {
		step.Compensate = u.Undo()
		step.Compensate.ID = step.ID
	}
	if v := n.Get("compensate"); v != nil {
		step.Compensate = nil
		p.compensate(v, s, step)
	} else {
		p.undoneByAction(n, step)
	}
	if asking, ok := step.Body.(Asking); ok {
		asking.Asks(step)
	} else if _, ok := step.Body.(saga.Call); !ok && step.Body != nil {
		p.notSent(n, kind)
	}
}

// notSent reports the keys that have no meaning for a kind that sends no request.
func (p *parser) notSent(n *Node, kind Kind) {
	for _, e := range n.Entries {
		switch name := e.Name(); {
		case kind.has(name):
		case contains(callKeys, name):
			p.fail(e.Key, "not_for_kind", fmt.Sprintf("%s has no meaning for %s, which sends no request: remove it", name, kind.Name))
		case name == "output" && !p.options.Stored:
			p.fail(e.Key, "not_for_kind", fmt.Sprintf("output has no meaning for %s, which gets no response: remove it, and take what you need of the step's output in a set step after it", kind.Name))
		}
	}
}

// onError compiles what follows when the step would fail. defaults.on_error applies to the steps
// that can be held, and to no others.
func (p *parser) onError(n *Node, s *scope, step *saga.Step) {
	v, why := n.Get("on_error"), noHold(s, step)
	if v != nil {
		word, _ := p.oneOf(v, "fail", "continue", "hold")
		step.Continue, step.Hold = word == "continue", word == "hold"
		if step.Hold && why != "" {
			p.fail(v, "cannot_hold", why)
		}
	} else if p.action == nil && why == "" {
		step.Hold = p.defaults.hold
	}
	switch wait := n.Get("hold_for"); {
	case wait != nil:
		step.HoldFor, _ = p.duration(wait, time.Second)
		if !step.Hold {
			p.fail(wait, "hold_for_without_hold", "hold_for says how long on_error: hold waits: write on_error: hold, too, or remove it")
		}
	case step.Hold:
		step.HoldFor = p.defaults.holdFor
	}
}

// noHold returns why a step cannot be held, "" if it can.
func noHold(s *scope, step *saga.Step) string {
	_, asks := step.Body.(Asking)
	call, sends := step.Body.(saga.Call)
	_, runs := call.(saga.Spawner)
	switch {
	case step.Body == nil:
		return ""
	case s.end:
		return "finally is not held: it runs when the saga's end is decided; leave on_error out"
	case runs:
		return "a saga that has failed does not succeed later: write on_error: hold in the definition that it runs"
	case !sends && !asks:
		return "only a step that sends requests can be held: " + step.Kind + " makes no attempts; write on_error: hold at the steps inside it, or in defaults"
	}
	return ""
}

func (p *parser) setPivot(n *Node, s *scope, step *saga.Step) {
	step.Pivot = true
	switch {
	case s.end:
		p.fail(n, "bad_pivot", "finally has no pivot: it runs when the saga's end is decided")
	case s.noPivot:
		p.fail(n, "bad_pivot", "a pivot is not inside parallel, foreach or repeat: steps that run in parallel with it could no longer be undone")
	case p.pivot != nil:
		p.fail(n, "bad_pivot", fmt.Sprintf("a saga has at most one pivot, and line %d has it", p.pivot.Line))
	default:
		p.pivot = n
	}
}

// StepKeys returns the keys that every step has, in the order of the reference.
func StepKeys() []string { return slices.Clone(stepKeys) }
