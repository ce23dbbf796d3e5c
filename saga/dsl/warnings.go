package dsl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// warn finds parts of a definition that are allowed but probably not intended. docs/definitions.md
// states the rules.
func (p *parser) warn() {
	w := &warner{parser: p}
	if p.action != nil {
		w.blind(p.action.Step)
		w.unverified(p.action.Step)
		w.unapproved(p.action)
		return
	}
	w.list(p.def.Steps, ahead{}, false, false)
	w.unusedFresh()
	w.final(p.def.Finally)
}

type warner struct {
	*parser
	models    map[string]*saga.Step          // see words
	approvals []*saga.Step                   // see findApprovals
	shown     map[*saga.Step]map[string]bool // see shows
}

func (w *warner) say(s *saga.Step, key, code, detail string) {
	n := w.nodes[s]
	if v := n.Get(key); key != "" && v != nil {
		n = v
	}
	w.warns = append(w.warns, finding(n, code, detail))
}

// ahead describes the steps after a point, innermost list first: the first step of each sort,
// including branches; nil for none. The pivot ends the search, because nothing is undone after it.
type ahead struct{ any, fallible, decides *saga.Step }

// before returns the steps after the beginning of a step.
func (w *warner) before(s *saga.Step, after ahead) ahead {
	a := ahead{any: s, fallible: after.fallible, decides: after.decides}
	if s.Pivot {
		a.fallible, a.decides = nil, nil
	}
	if block, ok := s.Body.(saga.Block); ok {
		branches := block.Lists()
		for _, branch := range slices.Backward(branches) {
			inner := w.ahead(branch, ahead{}, contained(s))[0]
			a.fallible, a.decides = cmp.Or(inner.fallible, a.fallible), cmp.Or(inner.decides, a.decides)
		}
	}
	if w.fallible(s) {
		a.fallible = s
	}
	if w.decides(s) {
		a.decides = s
	}
	return a
}

// inner reports whether no author has written the step: it is inside a model's step with tools. The
// warnings of its action say what is wrong with it.
func inner(s *saga.Step) bool { return strings.Contains(s.ID, "-") }

// contained reports whether the saga continues when a step inside a block fails.
func contained(s *saga.Step) bool {
	block, ok := s.Body.(saga.Block)
	if !ok || s.Continue || !block.Loops() {
		return ok && s.Continue
	}
	layout, err := block.Layout(saga.Entered{})
	return err == nil && layout.Loop != nil && layout.Loop.Collect
}

// ahead returns the steps after each step of a list and, last, after its end. In a block that
// contains failures the saga continues when a step fails.
func (w *warner) ahead(steps []*saga.Step, after ahead, contained bool) []ahead {
	list := make([]ahead, len(steps)+1)
	list[len(steps)] = after
	for i := len(steps) - 1; i >= 0; i-- {
		list[i] = w.before(steps[i], list[i+1])
		if contained {
			list[i].fallible, list[i].decides = after.fallible, after.decides
		}
	}
	return list
}

// list walks steps in their order. after describes the steps after the list; pivoted says that the
// pivot has certainly succeeded before; contain says that a block around the list contains
// failures.
func (w *warner) list(steps []*saga.Step, after ahead, pivoted, contain bool) {
	rests := w.ahead(steps, after, contain)[1:]
	for i, s := range steps {
		w.fed(s)
		w.hides(s)
		w.paid(s)
		if !inner(s) {
			w.blind(s)
			w.unverified(s)
			w.irreversible(s, rests[i], pivoted)
			w.dead(s, rests[i], pivoted)
		}
		if block, ok := s.Body.(saga.Block); ok {
			for _, branch := range block.Lists() {
				w.list(branch, w.afterInner(s, rests[i], contain), pivoted, contain || contained(s))
			}
		}
		pivoted = pivoted || s.Pivot
	}
}

// afterInner returns the steps that may run after a step inside a block. If the block's lists run
// in parallel, or several times, the rest of the block is included, unless a block around it
// contains failures.
func (w *warner) afterInner(s *saga.Step, rest ahead, contain bool) ahead {
	if w.kinds[s.Kind].OneOf {
		return rest
	}
	whole := w.before(s, ahead{})
	if contain {
		whole.fallible, whole.decides = nil, nil
	}
	return ahead{any: cmp.Or(rest.any, s), fallible: cmp.Or(rest.fallible, whole.fallible), decides: cmp.Or(rest.decides, whole.decides)}
}

// final walks finally, where nothing is undone.
func (w *warner) final(steps []*saga.Step) {
	for _, s := range steps {
		w.fed(s)
		w.hides(s)
		w.paid(s)
		if !inner(s) {
			w.blind(s)
			w.unverified(s)
		}
		if s.Compensate != nil && !inner(s) {
			w.say(s, "compensate", "dead-compensation", fmt.Sprintf("the compensation of %q never runs: nothing in finally is undone; remove it", s.ID))
		}
		if block, ok := s.Body.(saga.Block); ok {
			for _, branch := range block.Lists() {
				w.final(branch)
			}
		}
	}
}

// Unsafe is implemented by calls that may have two effects when they are sent twice, even if the
// remote service follows HTTP: POST and PATCH.
type Unsafe interface{ Repeatable() bool }

func (w *warner) blind(s *saga.Step) {
	if u, ok := s.Body.(Unsafe); ok && !u.Repeatable() && !s.InDoubt.Declared {
		key, what := s.Kind, s.ID
		switch {
		case s.Use != nil:
			key = "use"
		case w.action != nil:
			what = w.action.Name
		}
		w.say(s, key, "blind-retry", fmt.Sprintf("%q is sent again when its response is lost: say with in_doubt whether the remote service honours the key (retry), offers a status check (verify), or neither (ask, fail)", what))
	}
}

// unverified warns of a step that makes an output of its answer, and does not say how to make one
// of the answer to its status check. Of what an action says about both, the action's warnings say
// so.
func (w *warner) unverified(s *saga.Step) {
	v, n := s.InDoubt.Verify, w.nodes[s]
	if v == nil || s.Output == nil || v.Output != nil || v.Call.Output != nil || s.Use != nil && n.Get("in_doubt") == nil && n.Get("output") == nil {
		return
	}
	what := s.ID
	if w.action != nil {
		what = w.action.Name
	}
	w.say(s, "in_doubt", "verify-without-output", fmt.Sprintf("after a lost response, the output of %q is the body of its status check as it is, not what output makes of an answer: give verify an output, too", what))
}

// unapproved warns of calls of sessions that cannot be undone and need no approval, and of a
// condition for approvals that is never evaluated because every call needs one.
func (w *warner) unapproved(a *saga.Action) {
	if a.Agents == nil || !a.Irreversible {
		return
	}
	why, undo := "nothing undoes it", ", or add compensate"
	if w.nodes[a.Step].Get("irreversible") != nil {
		why, undo = "it is irreversible", ""
	}
	switch n := w.nodes[a.Step].Get("agents").Get("approve_when"); {
	case !a.Agents.Approve:
		w.say(a.Step, "agents", "irreversible-auto", fmt.Sprintf("agents call %q without an approval, and %s: write agents: approve%s", a.Name, why, undo))
	case n != nil && (n.kind != boolScalar || n.plain() == false):
		w.warns = append(w.warns, finding(n, "dead-approve-when", fmt.Sprintf("each call of %q by an agent needs an approval, because %s, so approve_when has no effect: remove it%s", a.Name, why, undo)))
	}
}

// paid checks the cost of a step and its compensation by the server's prices. Their currency
// becomes the definition's, unless an amount has set another one.
func (w *warner) paid(s *saga.Step) {
	w.priced(s, s)
	if s.Compensate != nil {
		w.priced(s, &s.Compensate.Step)
	}
}

func (w *warner) priced(s, body *saga.Step) {
	b, ok := body.Body.(Paid)
	if !ok || body.Cost.Fixed != nil || body.Cost.From != nil {
		return
	}
	if unpriced := b.Unpriced(); w.def.Budget != nil && w.def.Budget.Amount != nil && len(unpriced) > 0 {
		w.say(s, body.Kind, "unpriced-model", fmt.Sprintf("no price of %s is configured, so %q does not count against the budget: configure it, or give the step a cost", quoted(unpriced), s.ID))
	}
	switch currency := b.Currency(); {
	case currency == "" || currency == w.currency:
	case w.currency == "":
		w.currency = currency
	default:
		w.fail(w.nodes[s], "currency_mixed", fmt.Sprintf("the server's prices for %q are in %s, the definition's amounts in %s: give the step a cost, or write the amounts in %s", s.ID, currency, w.currency, currency))
	}
}

func writes(s *saga.Step) bool {
	c, ok := s.Body.(saga.Call)
	return ok && !c.ReadOnly()
}

func (w *warner) irreversible(s *saga.Step, rest ahead, pivoted bool) {
	if pivoted || w.def.Stop {
		return
	}
	if writes(s) && s.Compensate == nil && !s.NoCompensation && !s.Pivot {
		if f := rest.fallible; f != nil {
			w.say(s, "", "uncompensated-write", fmt.Sprintf("nothing undoes %q when %q fails after it: add compensate, make it the pivot, or write compensate: none", s.ID, f.ID))
		}
	}
	if s.Pivot || writes(s) && s.NoCompensation {
		if f := rest.decides; f != nil {
			w.say(s, "", "irreversible-before-fallible", fmt.Sprintf("%q cannot be undone, and %q, which is there to refuse, %s", s.ID, f.ID, w.moveAhead(s, f)))
		}
	}
}

// moveAhead returns where the check that follows a step belongs. A check that is written before the
// step, or is the step, follows it in the next iteration of a loop, or runs in a parallel branch.
func (w *warner) moveAhead(s, check *saga.Step) string {
	if before(w.written[s.ID], w.written[check.ID]) && s != check {
		return "comes after it: move the check before it"
	}
	return "comes after it in the next iteration, or runs alongside it: do the checks before it, in a loop or branch of their own, or let the loop continue with on_item_error: collect"
}

// Fallible is implemented by bodies whose kind alone does not say how they may fail: repeat.
type Fallible interface{ Fails() Failing }

func (w *warner) fallible(s *saga.Step) bool {
	fails := w.kinds[s.Kind].Fails
	if f, ok := s.Body.(Fallible); ok {
		fails = f.Fails()
	}
	return !s.Continue && fails != Computes
}

func (w *warner) decides(s *saga.Step) bool {
	return !s.Continue && (w.kinds[s.Kind].Fails == ByDecision || s.Expect.That != nil)
}

func (w *warner) dead(s *saga.Step, rest ahead, pivoted bool) {
	c := s.Compensate
	if c == nil {
		return
	}
	onlySuccess := !c.Applies(journal.InDoubt)
	call, sends := s.Body.(saga.Call)
	why := ""
	switch {
	case s.Kind == "fail":
		why = "fail never succeeds"
	case pivoted:
		why = "after the pivot nothing is undone"
	case s.Pivot && onlySuccess:
		why = "once the pivot has succeeded nothing is undone"
	case (!sends || call.ReadOnly()) && !c.Applies(journal.Succeeded):
		why = "it writes nothing, so it is never in doubt"
	case onlySuccess && rest.any == nil && c.UndoWithin == 0: // else a saga that succeeded may be undone
		why = "it is the last step, so nothing fails after it has succeeded"
	default:
		return
	}
	w.say(s, "compensate", "dead-compensation", fmt.Sprintf("the compensation of %q never runs: %s; remove it", s.ID, why))
}
