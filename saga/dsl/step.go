package dsl

import (
	"fmt"
	"slices"
	"time"

	"recourse/idempotency"
	"recourse/saga"
)

// stepKeys are the keys that every step has.
var stepKeys = []string{"id", "when", "output", "expect", "retry", "timeout", "deadline", "cost", "idempotency",
	"in_doubt", "key_window", "on_error", "pivot", "compensate"}

// callKeys are those of them that only say something about a request.
var callKeys = []string{"expect", "retry", "timeout", "deadline", "cost", "idempotency", "in_doubt", "key_window"}

func contains[T comparable](list []T, v T) bool { return slices.Contains(list, v) }

// steps compiles a list of steps; s is the scope of the list, which grows as its
// steps end.
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
	return out
}

// step compiles one step of a list and makes it visible to those after it.
func (p *parser) step(n *Node, list *scope) *saga.Step {
	if n.Form != Map {
		p.expect(n, "a step: a map with id and one of "+quoted(p.names))
		return nil
	}
	id := p.id(n)
	s := list.in(id)
	step := p.body(n, s, "a step", stepKeys)
	if step == nil {
		p.reveal(n, list)
		return nil
	}
	step.ID = id
	p.common(n, s, step)
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

// reveal makes the steps of a part that could not be compiled visible, so that one
// error does not draw others after it.
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
	} else if first := p.written[id]; first != nil && first != n {
		p.fail(v, "duplicate_id", fmt.Sprintf("%q is already the id of the step on line %d: ids are unique in the whole definition", id, first.Line))
	}
	return id
}

// body compiles what a step, a compensation and a verify have in common: exactly
// one kind with its keys, and expect, timeout, deadline, cost, idempotency and
// key_window. extra are the other keys this place has. nil means that there is no
// kind to go by, which is reported.
func (p *parser) body(n *Node, s *scope, what string, extra []string) *saga.Step {
	if n.Form != Map {
		p.expect(n, what+" as a map with one of "+quoted(p.names))
		return nil
	}
	kind, ok := p.kind(n, what, extra)
	if !ok {
		return nil
	}
	allowed := append(slices.Clone(extra), kind.Name)
	for _, k := range kind.Keys {
		allowed = append(allowed, k.Name)
	}
	p.keysOf(n, what, kind, allowed)
	step := &saga.Step{Kind: kind.Name, Line: n.Line, Retry: p.defaults.retry, Timeout: kind.Timeout,
		Idempotency: idempotency.DefaultPlacement, KeyWindow: idempotency.DefaultWindow,
		InDoubt: saga.InDoubt{Policy: saga.RetrySame, Otherwise: saga.Ask}}
	step.Body = kind.Decode(&Decoder{p: p, s: s, step: n, kind: kind})
	if step.Timeout > 0 && p.defaults.timeout > 0 {
		step.Timeout = p.defaults.timeout
	}
	has := func(key string) *Node {
		if contains(extra, key) {
			return n.Get(key)
		}
		return nil
	}
	if v := has("expect"); v != nil {
		step.Expect = p.expectation(v, s)
	}
	if v := has("timeout"); v != nil {
		step.Timeout, _ = p.duration(v, time.Millisecond)
	}
	if v := has("deadline"); v != nil {
		step.Deadline, _ = p.duration(v, time.Millisecond)
	}
	if v := has("cost"); v != nil {
		step.Cost = p.cost(v, s)
	}
	if v := has("key_window"); v != nil {
		step.KeyWindow, _ = p.duration(v, time.Second)
	}
	if v := has("idempotency"); v != nil {
		step.Idempotency, step.Key = p.idempotency(v, s)
		if c, ok := step.Body.(KeyCarrier); ok {
			if err := c.CarriesKey(string(step.Idempotency.In), step.Idempotency.Name); err != nil {
				p.fail(v, "key_place", err.Error())
			}
		}
	}
	return step
}

// kind finds the one key of the map that is a kind.
func (p *parser) kind(n *Node, what string, extra []string) (Kind, bool) {
	var found []Entry
	for _, e := range n.Entries {
		if _, ok := p.kinds[e.Name()]; ok || contains(later, e.Name()) && !contains(extra, e.Name()) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		if k, ok := p.kinds[found[0].Name()]; ok {
			return k, true
		}
		p.fail(found[0].Key, "not_available", fmt.Sprintf("the step kind %s comes with a later release; remove the step, or use one of %s", found[0].Name(), quoted(p.names)))
		return Kind{}, false
	case 0:
		hint := ""
		for _, e := range n.Entries {
			if hint == "" && !contains(extra, e.Name()) {
				hint = Suggest(e.Name(), p.names)
			}
		}
		p.fail(n, "no_kind", fmt.Sprintf("%s needs exactly one of %s%s", what, quoted(p.names), hint))
		return Kind{}, false
	}
	p.fail(found[1].Key, "two_kinds", fmt.Sprintf("%s has exactly one kind: %s and %s cannot be together", what, found[0].Name(), found[1].Name()))
	return Kind{}, false
}

// keysOf reports unknown keys, and says so when they belong to another kind.
func (p *parser) keysOf(n *Node, what string, kind Kind, allowed []string) {
	for _, e := range n.Entries {
		if contains(allowed, e.Name()) {
			continue
		}
		detail := fmt.Sprintf("%s of the kind %s has no key %q%s", what, kind.Name, clip(e.Name(), 60), Suggest(e.Name(), allowed))
		for _, name := range p.names {
			if slices.ContainsFunc(p.kinds[name].Keys, func(k Key) bool { return k.Name == e.Name() }) {
				detail = fmt.Sprintf("%q is a key of %s, not of %s", e.Name(), name, kind.Name)
			}
		}
		p.fail(e.Key, "unknown_key", detail)
	}
}

// common compiles the keys that only a step of a list has.
func (p *parser) common(n *Node, s *scope, step *saga.Step) {
	if v := n.Get("when"); v != nil {
		step.When = p.condition(v, s, Plain)
	}
	if v := n.Get("output"); v != nil {
		step.Output = p.template(v, s, OnResult)
	}
	if v := n.Get("on_error"); v != nil {
		word, _ := p.oneOf(v, "fail", "continue")
		step.Continue = word == "continue"
	}
	if v := n.Get("retry"); v != nil {
		step.Retry = p.retry(v, p.defaults.retry)
	}
	if v := p.defaults.inDoubt; v != nil {
		step.InDoubt = p.inDoubt(v, s)
	}
	if v := n.Get("in_doubt"); v != nil {
		step.InDoubt = p.inDoubt(v, s)
	}
	if v := n.Get("pivot"); v != nil && p.boolean(v) {
		p.setPivot(v, s, step)
	}
	if v := n.Get("compensate"); v != nil {
		p.compensate(v, s, step)
	}
	if _, ok := step.Body.(saga.Call); !ok && step.Body != nil {
		for _, e := range n.Entries {
			if contains(callKeys, e.Name()) {
				p.fail(e.Key, "not_for_kind", fmt.Sprintf("%s has no meaning for %s, which sends nothing: remove it", e.Name(), step.Kind))
			}
		}
	}
}

func (p *parser) setPivot(n *Node, s *scope, step *saga.Step) {
	step.Pivot = true
	switch {
	case s.end:
		p.fail(n, "bad_pivot", "finally has no pivot: it runs when the saga's end is decided")
	case p.pivot != nil:
		p.fail(n, "bad_pivot", fmt.Sprintf("a saga has at most one pivot, and line %d has it", p.pivot.Line))
	default:
		p.pivot = n
	}
}

// StepKeys lists the keys that every step has, in the order of the reference.
func StepKeys() []string { return slices.Clone(stepKeys) }
