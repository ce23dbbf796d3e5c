package dsl

import (
	"fmt"
	"regexp"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// forAgents compiles the keys of an action that say how sessions may call it. The action's step is
// there already.
func (p *parser) forAgents(root *Node, s *scope) {
	a := p.action
	undo := a.Step.Compensate
	a.Irreversible = writes(a.Step) && (undo == nil || !undo.Applies(journal.Succeeded))
	if n := root.Get("irreversible"); n != nil {
		p.irreversible(n)
	}
	if n := root.Get("once"); n != nil {
		a.Once = p.once(n, s)
	}
	if n := root.Get("agents"); n != nil {
		a.Agents = p.agents(n, s)
	}
}

// irreversible reads what the author says. It may not contradict what the action does.
func (p *parser) irreversible(n *Node) {
	if n.Form != Scalar || n.kind != boolScalar {
		p.boolean(n)
		return
	}
	declared := p.boolean(n)
	switch a := p.action; {
	case declared && a.Step.Body != nil && !writes(a.Step):
		p.fail(n, "bad_irreversible", "this action only reads and has no effect: remove irreversible; if agents need an approval for it, write agents: approve")
	case !declared && a.Irreversible:
		p.fail(n, "bad_irreversible", "nothing undoes this action after it has succeeded, so it is irreversible: remove this key, or add compensate")
	default:
		a.Irreversible = declared
	}
}

// once reads the value that identifies a call.
func (p *parser) once(n *Node, s *scope) *expr.Template {
	before := len(p.errs)
	t := p.typedTemplate(n, s, ofCall, want{expr.KindAny &^ expr.KindNull, expr.CodeWrongType, "null does not identify a call"})
	if len(p.errs) == before && len(t.Refs()) == 0 {
		p.fail(n, "constant_once", "all calls would have the same value, so a session could make only one: use ${input.…} in it")
	}
	return t
}

// agents reads auto, approve, or {approve_when, limits}.
func (p *parser) agents(n *Node, s *scope) *saga.AgentPolicy {
	policy := &saga.AgentPolicy{}
	switch {
	case n.Form == Map:
		if p.known(n, "agents", []string{"approve_when", "limits"}) && len(n.Entries) == 0 {
			p.fail(n, "missing_key", "agents as a map needs approve_when or limits; or write auto or approve")
		}
		if v := n.Get("approve_when"); v != nil {
			policy.ApproveWhen = p.condition(v, s, ofSession)
		}
		if v := n.Get("limits"); v != nil {
			policy.Limits = p.limits(v, s)
		}
		policy.Approve = p.action.Irreversible
	case n.IsText():
		word, _ := p.oneOf(n, "auto", "approve")
		policy.Approve = word == "approve"
	default:
		p.expect(n, `"auto", "approve", or a map with "approve_when" or "limits" (without the key, agents may not call the action)`)
	}
	return policy
}

// limits reads a list of {calls} and {sum, max}.
func (p *parser) limits(n *Node, s *scope) []saga.CallLimit {
	if n.Form != List || len(n.Items) == 0 {
		p.expect(n, "a list of limits, such as [{calls: 3}, {sum: input.amount, max: 500}]")
		return nil
	}
	limits := make([]saga.CallLimit, len(n.Items))
	for i, item := range n.Items {
		limits[i] = p.limit(item, s)
	}
	return limits
}

func (p *parser) limit(n *Node, s *scope) (l saga.CallLimit) {
	if n.Form != Map {
		p.expect(n, "a limit such as {calls: 3} or {sum: input.amount, max: 500}")
		return l
	}
	known := p.known(n, "a limit", []string{"calls", "sum", "max"})
	calls, sum, most := n.Get("calls"), n.Get("sum"), n.Get("max")
	switch {
	case !known: // the unknown key may be the one that would be missing
	case calls != nil && (sum != nil || most != nil):
		p.fail(n, "two_limits", "a limit has either calls, or sum and max: write them as two limits")
	case calls == nil && sum == nil && most == nil:
		p.fail(n, "missing_key", "a limit needs calls, or sum and max")
	case calls == nil && most == nil:
		p.fail(n, "missing_key", "sum needs max, the most that it may reach, such as 500")
	case calls == nil && sum == nil:
		p.fail(n, "missing_key", "max needs sum, an expression over input such as input.amount")
	}
	if calls != nil {
		i, _ := p.whole(calls, 1, 1_000_000)
		l.Calls = int(i)
	}
	switch {
	case sum == nil:
	case sum.Form != Scalar || sum.IsNull():
		p.expect(sum, "an expression over input such as input.amount")
	default:
		l.Sum = p.expression(sum, s, ofCall, want{expr.KindNumber, expr.CodeWrongType, "the value for a limit must be a number"})
	}
	if most != nil {
		l.Max = p.decimal(most)
	}
	return l
}

// decimalForm is that of the amounts of money.
var decimalForm = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,12})?$`)

// decimal reads a decimal of at least 0, and keeps its digits.
func (p *parser) decimal(n *Node) retry.Money {
	if n.Form == Scalar && n.kind == numberScalar && decimalForm.MatchString(n.value) {
		m, err := retry.Amount(n.value, "")
		if err != nil {
			panic(fmt.Sprintf("dsl: %s is not a decimal: %v", n.value, err)) // the pattern allows only digits
		}
		return m
	}
	p.expect(n, "a number of at least 0 such as 500 or 49.90, with at most 15 digits before the point and 12 after it")
	return retry.Money{}
}
