package dsl

import (
	"fmt"
	"slices"
	"time"

	"recourse/saga"
)

// freshFor compiles how old the answer of a read may be. The steps that depend on it are known only
// once the whole list is compiled: see freshness.
func (p *parser) freshFor(n *Node, s *scope, step *saga.Step) {
	v, change := n.Get("fresh_for"), n.Get("on_change")
	if v == nil {
		if change != nil {
			p.fail(change, "on_change_without_fresh_for", "on_change says what follows when a step with fresh_for is read again: write fresh_for, too, or remove it")
		}
		return
	}
	age, ok := p.duration(v, time.Second)
	step.OnChange = saga.ChangeFails
	if change != nil {
		word, _ := p.oneOf(change, string(saga.ChangeFails), string(saga.ChangeAsks))
		step.OnChange = saga.OnChange(word)
	}
	if why := p.cannotReadAgain(n, s, step); why != "" {
		p.fail(v, "cannot_read_again", why)
	} else if ok {
		step.FreshFor = age
	}
}

// cannotReadAgain returns why a step cannot be read again later, "" if it can.
func (p *parser) cannotReadAgain(n *Node, s *scope, step *saga.Step) string {
	switch {
	case step.Body == nil:
		return ""
	case p.action != nil:
		return "an action has no fresh_for, because only a saga knows what depends on the answer: write it at the step that uses the action"
	case s.end:
		return "finally runs when the saga's end is decided, and nothing is read again there: remove fresh_for"
	case s.parent == nil || s.parent.parent != nil:
		return "only a step of the definition's own list is read again: move it out of the block, or remove fresh_for"
	case !reads(step):
		return "only a read is sent again without a further effect: http with GET or HEAD, or mcp, which then calls read-only tools only; this step is none (" + step.Kind + ")"
	case n.Get("compensate") != nil:
		return "a step with compensate is undone, so it has an effect, and cannot be read again: remove one of them"
	case n.Get("pivot") != nil:
		return "nothing is read again once the pivot has succeeded, so the pivot has no fresh_for: remove it"
	case step.Continue:
		return "with on_error: continue the saga would go on without the answer that has to be fresh: leave on_error out, or write hold"
	}
	return ""
}

// maxFresh is the most steps of a definition that have fresh_for.
const maxFresh = 64

// reads reports whether a step sends a request that has no effect, and gives the same answer as
// long as nothing has changed. A language model's answer differs each time.
func reads(s *saga.Step) bool {
	call, ok := s.Body.(saga.Call)
	_, model := s.Body.(saga.Modelled)
	return ok && call.ReadOnly() && !model
}

// sendsOut reports whether a step sends something that may have an effect.
func sendsOut(s *saga.Step) bool {
	_, announces := s.Body.(saga.Announce)
	return announces || writes(s) || s.Pivot
}

// freshness finds, for each step that sends something, the steps with fresh_for on which it
// depends. A step uses the answers that its templates and conditions read, those that the steps use
// which they read, and, inside a block, those that the block uses. What is sent depends, besides,
// on the answers by which a step before it decides whether the saga goes on: an approval, fail, or
// a read with fresh_for by its own `expect.that`.
func (p *parser) freshness() {
	for _, s := range p.def.Steps {
		if s.FreshFor > 0 {
			p.fresh = append(p.fresh, s)
		}
	}
	switch n := len(p.fresh); {
	case n == 0:
		return
	case n > maxFresh:
		p.fail(p.nodes[p.fresh[maxFresh]].Get("fresh_for"), "too_many_fresh_reads", fmt.Sprintf("at most %d steps of a definition have fresh_for", maxFresh))
		return
	}
	p.def.FreshUses = map[string][]string{}
	p.top = map[string]string{}
	decided := map[string]bool{}
	for _, s := range p.def.Steps {
		for _, in := range innerFirst(nil, []*saga.Step{s}) {
			p.top[in.ID] = s.ID
		}
		uses := map[string]bool{}
		for _, id := range p.def.Reads[s.ID] {
			from := p.top[id]
			if read := p.def.ByID[from]; read != nil && read.FreshFor > 0 && from != s.ID {
				uses[from] = true
			}
			for _, other := range p.def.FreshUses[from] {
				uses[other] = true
			}
		}
		p.def.FreshUses[s.ID] = p.inOrder(uses)
		for id := range decided { // any order
			uses[id] = true
		}
		p.guard(s, p.inOrder(uses))
		if s.FreshFor > 0 && s.Expect.That != nil {
			decided[s.ID] = true
		}
		if decidesBy(s) {
			for _, id := range p.def.FreshUses[s.ID] {
				decided[id] = true
			}
		}
	}
	for i, s := range p.def.Steps {
		if s.FreshFor > 0 && s.OnChange == saga.ChangeAsks {
			p.asksAgain(i)
		}
	}
}

// inOrder lists steps with fresh_for in the definition's order.
func (p *parser) inOrder(ids map[string]bool) (list []string) {
	for _, s := range p.fresh {
		if ids[s.ID] {
			list = append(list, s.ID)
		}
	}
	return list
}

// guard notes the fresh reads of the steps that send something, in a step and inside it.
func (p *parser) guard(s *saga.Step, reads []string) {
	for _, in := range innerFirst(nil, []*saga.Step{s}) {
		if sendsOut(in) {
			in.FreshReads = reads
		}
	}
}

// decidesBy reports whether a step, or one inside it, exists to end the saga: an approval, or fail.
func decidesBy(s *saga.Step) bool {
	return slices.ContainsFunc(innerFirst(nil, []*saga.Step{s}), func(in *saga.Step) bool {
		_, approves := in.Body.(saga.Approver)
		_, computes := in.Body.(saga.Value)
		return approves || computes && in.Kind == "fail"
	})
}

// guarded returns the first step of the list that sends something which depends on the answer of
// Steps[at], nil for none. Nothing is read again after the pivot.
func (p *parser) guarded(at int) (int, *saga.Step) {
	if slices.ContainsFunc(p.def.Steps[:at], func(s *saga.Step) bool { return s.Pivot }) {
		return 0, nil
	}
	for i, s := range p.def.Steps[at+1:] {
		for _, in := range innerFirst(nil, []*saga.Step{s}) {
			if slices.Contains(in.FreshReads, p.def.Steps[at].ID) {
				return at + 1 + i, in
			}
		}
		if s.Pivot {
			break
		}
	}
	return 0, nil
}

// asksAgain checks that the saga can go back to an approval when the answer of Steps[at] has
// changed before it is sent on for the first time.
func (p *parser) asksAgain(at int) {
	read := p.def.Steps[at]
	node := p.nodes[read].Get("on_change")
	end, write := p.guarded(at)
	switch {
	case write == nil:
		return
	case p.def.Steps[end] != write:
		p.fail(node, "cannot_ask_again", fmt.Sprintf("%q sends what depends on the answer of %q inside %q, which cannot begin again once it was entered: write on_change: fail, or move %q out of the block", write.ID, read.ID, p.def.Steps[end].ID, write.ID))
		return
	}
	asked := false
	for _, s := range p.def.Steps[at+1 : end] {
		_, approves := s.Body.(saga.Approver)
		asked = asked || approves
		if slices.Contains(p.def.FreshUses[s.ID], read.ID) && !repeatable(s) {
			p.fail(node, "cannot_ask_again", fmt.Sprintf("%q uses the answer of %q and cannot run again, because it is a step of kind %s: only set, fail, approval and reads can; write on_change: fail", s.ID, read.ID, s.Kind))
			return
		}
		if p.undoUses(s, read) && !p.options.Stored {
			p.fail(node, "cannot_ask_again", fmt.Sprintf("the compensation of %q uses the answer of %q, and would undo something else with another one: write on_change: fail, or let the compensation read the output of %q", s.ID, read.ID, s.ID))
			return
		}
	}
	if !asked {
		p.fail(node, "cannot_ask_again", fmt.Sprintf("there is no approval between %q and %q, which depends on its answer: write on_change: fail, or put an approval between them", read.ID, write.ID))
	}
}

// undoUses reports whether the compensations of a step of the list use the answer of a read,
// directly or through other steps.
func (p *parser) undoUses(s, read *saga.Step) bool {
	return slices.ContainsFunc(p.def.UndoReads[s.ID], func(id string) bool {
		return p.top[id] == read.ID || slices.Contains(p.def.FreshUses[p.top[id]], read.ID)
	})
}

// repeatable reports whether a step can run again when an answer that it uses has changed.
func repeatable(s *saga.Step) bool {
	_, approves := s.Body.(saga.Approver)
	_, computes := s.Body.(saga.Value)
	return approves || computes || reads(s)
}

// unusedFresh warns of a read that has to be fresh for nothing.
func (w *warner) unusedFresh() {
	for i, s := range w.def.Steps {
		if s.FreshFor == 0 {
			continue
		}
		if _, write := w.guarded(i); write == nil {
			w.say(s, "fresh_for", "fresh-for-unused", fmt.Sprintf("nothing is sent before the end, or before the pivot has succeeded, that depends on the answer of %q, so it is never read again: remove fresh_for", s.ID))
		}
	}
}
