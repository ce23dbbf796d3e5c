package dsl

import (
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

var compensateKeys = []string{"when", "on", "order", "retry", "expect", "timeout", "deadline", "idempotency", "key_window", "cost", "in_doubt", "undo_within"}

// compensate reads none, or a step body with when, on, order, retry and undo_within.
func (p *parser) compensate(n *Node, s *scope, step *saga.Step) {
	step.Compensate, step.NoCompensation = nil, false // set by the action
	if n.Form != Map {
		if step.NoCompensation = n.IsText() && n.value == "none"; !step.NoCompensation {
			p.expect(n, "none, or a map with a request that undoes the step")
		}
		return
	}
	undo := s.undoing()
	var when *expr.Program
	if v := n.Get("when"); v != nil {
		when = p.condition(v, undo, Plain)
		undo.assume(when, true)
	}
	body := p.body(n, undo, "compensate", p.senders(), compensateKeys)
	if body == nil {
		return
	}
	if _, ok := body.Body.(saga.Call); body.Body != nil && !ok {
		p.fail(n, "compensation_sends_nothing", body.Kind+" cannot undo anything: a compensation sends a request")
	}
	c := &saga.Compensation{Step: *body, On: []journal.Class{journal.Succeeded, journal.InDoubt}}
	c.ID, c.When = step.ID, when
	c.Retry = retry.Forever()
	if v := n.Get("retry"); v != nil {
		c.Retry = p.retry(v, retry.Forever())
	}
	c.InDoubt = p.undoInDoubt(n.Get("in_doubt"), c.InDoubt)
	if v := n.Get("on"); v != nil {
		c.On = p.classes(v)
	}
	if v := n.Get("order"); v != nil {
		word, _ := p.oneOf(v, "first", "reverse", "last")
		c.Order = map[string]saga.Order{"first": saga.First, "last": saga.Last}[word]
	}
	if v := n.Get("undo_within"); v != nil {
		c.UndoWithin, _ = p.duration(v, time.Millisecond)
	}
	c.NeedsOutput, c.OutputPaths = undo.uses.output, undo.uses.paths
	step.Compensate = c
}

// undoInDoubt reads retry or ask. An undo is sent again by default. That its action says so counts
// as well, which matters for requests that are otherwise not sent again.
func (p *parser) undoInDoubt(n *Node, action saga.InDoubt) saga.InDoubt {
	d := saga.InDoubt{Policy: saga.RetrySame, Otherwise: saga.Ask, Declared: action.Declared && action.Policy == saga.RetrySame}
	if n == nil {
		return d
	}
	if word, ok := p.oneOf(n, "retry", "ask"); ok {
		d.Policy, d.Declared = saga.Policy(word), true
	}
	return d
}

// classes reads the classes of outcomes for which a compensation runs.
func (p *parser) classes(n *Node) []journal.Class {
	items := n.Items
	if n.Form == Scalar {
		items = []*Node{n}
	}
	if len(items) == 0 {
		p.expect(n, "succeeded, in_doubt or a list of both")
	}
	var out []journal.Class
	for _, item := range items {
		word, ok := p.oneOf(item, string(journal.Succeeded), string(journal.InDoubt))
		if ok && !contains(out, journal.Class(word)) {
			out = append(out, journal.Class(word))
		}
	}
	return out
}
