package machine

import (
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/retry"
	"recourse/saga"
)

// One budget holds for a saga and for all sagas below it. A step that runs a saga reserves a part
// of the budget for the child before the child can exist. That part is the child's budget, or its
// definition's if that is lower, and nobody raises it. When the child reports its result, it
// reports what it has cost, and its parent books that in place of the reservation. So at each
// moment the amounts that a tree of sagas has spent and reserved are within the budget of its root:
// whatever a child spends or reserves is within what its parent holds for it, also after its
// report, because nobody raises its budget then. As in one saga, undoing is exempt.

// endow returns the request to start a child with the part of the budget that is reserved for it. A
// request that may have been sent before stays as it is. wait says that nothing is left now, but
// attempts in flight may cost less than they have reserved.
func (m *Machine) endow(step *saga.Step, s *track, request *saga.Request) (endowed *saga.Request, wait bool) {
	e, ok := step.Body.(saga.Endowing)
	if !ok || request.Child == nil || s.doubt {
		return request, false
	}
	b := saga.BudgetData{}
	if limit := e.Endowment(); limit != nil {
		b.Tokens = limit.Tokens
		if limit.Amount != nil {
			b.Amount, b.Currency = limit.Amount.Decimal(), limit.Amount.Currency
		}
	}
	if of := m.account.Budget; of != nil && b.Amount == "" && m.outline == nil {
		left := m.account.Left()
		b.Amount, b.Currency = left.Decimal(), of.Currency
		wait = left.IsZero() && !m.inFlight.IsZero()
	}
	if t := &m.tokens; t.budget > 0 && b.Tokens == 0 && m.outline == nil {
		// A budget of 0 tokens would be none, so one token is reserved, which does not fit.
		b.Tokens = max(t.left(), 1)
	}
	if b == (saga.BudgetData{}) {
		return request, false
	}
	again, child := *request, *request.Child
	child.Budget, again.Child = &b, &child
	return &again, wait
}

// childReserve returns what a request to start a child reserves of the saga's budget.
func (m *Machine) childReserve(r *saga.Request) (u saga.Usage) {
	if r.Child == nil || r.Child.Budget == nil {
		return u
	}
	return m.reserves(r.Child.Budget)
}

// reserves returns what a part for a child or a session reserves of the saga's budget.
func (m *Machine) reserves(part *saga.BudgetData) (u saga.Usage) {
	if m.account.Budget != nil && part.Amount != "" {
		u.Cost, _ = retry.Total(part.Amount, part.Currency) // endow or reserve has written it
	}
	if m.tokens.budget > 0 {
		u.Output = part.Tokens
	}
	return u
}

// asksAgain reports whether a request is about a child that an earlier attempt may have started.
// What is still reserved for the child is all that the attempt reserves.
func (s *track) asksAgain(request *saga.Request) bool { return request.Child != nil && s.doubt }

// takeBack releases what is still reserved for a child: the attempt that begins now reserves it
// again, or a report says what the child has cost.
func (m *Machine) takeBack(s *track) {
	m.account.Reserved = m.account.Reserved.Sub(s.unknown)
	m.tokens.reserved -= s.unknownTokens
	s.unknown, s.unknownTokens = retry.Money{}, 0
}

// bookChild books the cost of a child, which its parent has already settled as its own, and keeps
// reserved what the child may still cost.
func (m *Machine) bookChild(n *node, d *saga.OutcomeData, cost retry.Money) error {
	if n.child == uuid.Nil {
		return nil
	}
	kept := retry.Money{}
	if d.Kept != "" {
		var err error
		if kept, err = retry.Total(d.Kept, m.currency()); err != nil {
			return fmt.Errorf("%w: kept: %w", saga.ErrUnreadable, err)
		}
	}
	s := &n.forward // also for an undo, whose report is about all that the child has done
	m.takeBack(s)
	m.account.Reserve(kept)
	s.unknown = kept
	n.childSpent, m.children = n.childSpent.Add(cost), m.children.Add(cost)
	if d.Tokens != nil {
		n.childTokens.Input += d.Tokens.Input
		n.childTokens.Output += d.Tokens.Output
		m.childTokens.Input += d.Tokens.Input
		m.childTokens.Output += d.Tokens.Output
		m.tokens.reserved += d.Tokens.Reserved
		s.unknownTokens = d.Tokens.Reserved
	}
	return nil
}

// WithinBudget returns the budget of a child that def defines and for which its parent has reserved
// b: in each dimension the lower one of both. nil means the definition's budget.
func WithinBudget(def *saga.Definition, b *saga.BudgetData) *saga.BudgetData {
	if b == nil || def.Budget == nil {
		return b
	}
	lower := *b
	if own := def.Budget.Amount; own != nil && b.Amount != "" && own.Currency == b.Currency {
		if held, err := retry.Total(b.Amount, b.Currency); err == nil && own.Cmp(held) < 0 {
			lower.Amount = own.Decimal()
		}
	}
	if own := def.Budget.Tokens; own > 0 && b.Tokens > own {
		lower.Tokens = own
	}
	return &lower
}

// part returns what the parent has reserved for this saga, and how; nil: nothing. Once the saga has
// reported what it may still cost, the parent has released the rest.
func (m *Machine) part() (b *saga.BudgetData, how string) {
	p, of := m.started.Parent, m.started.BelongsTo
	switch {
	case p != nil && p.Budget != nil && m.awaitingParent:
		reported := *p.Budget
		if limit := m.account.Budget; limit != nil && reported.Amount != "" {
			reported.Amount = limit.Decimal()
		}
		if reported.Tokens > 0 {
			reported.Tokens = m.tokens.budget
		}
		return &reported, "it has reported to its parent, saga " + p.Saga + ", that it may cost no more than its budget"
	case p != nil:
		return p.Budget, "its parent, saga " + p.Saga + ", reserves what step " + p.Path + " says in `budget`, else what is left of the parent's budget"
	case of != nil:
		return of.Budget, "its parent, saga " + of.Saga + ", has reserved it when the session was opened: open another session for more"
	}
	return nil, ""
}

// overParents returns the refusal of a budget that is higher than what the parent has reserved for
// this saga.
func (m *Machine) overParents(amount string, tokens int64) *Refusal {
	b, help := m.part()
	if b == nil {
		return nil
	}
	if amount != "" && b.Amount != "" {
		wanted, err1 := retry.Total(amount, b.Currency)
		held, err2 := retry.Total(b.Amount, b.Currency)
		if err1 == nil && err2 == nil && wanted.Cmp(held) > 0 {
			return refusal("over_parents_budget", "the saga's parent has reserved "+held.String()+" for it", help)
		}
	}
	if b.Tokens > 0 && tokens > b.Tokens {
		return refusal("over_parents_budget", fmt.Sprintf("the saga's parent has reserved %d tokens for it", b.Tokens), help)
	}
	return nil
}

// mayRaise reports whether a person may raise the budget so far that it covers one more attempt.
func (m *Machine) mayRaise(u saga.Usage) bool {
	need := m.account.Spent.Add(m.account.Reserved).Add(u.Cost)
	t := &m.tokens
	return m.overParents(need.Decimal(), t.input+t.output+t.reserved+u.Input+u.Output) == nil
}

// childCost returns what the saga, with its children, has cost.
func (m *Machine) childCost() *saga.ChildCost {
	c := &saga.ChildCost{Currency: m.currency(), Spent: m.account.Spent.Decimal(), Tokens: saga.TokensView{Input: m.tokens.input, Output: m.tokens.output, Reserved: m.tokens.reserved}}
	reserved := m.account.Reserved
	if m.finished == nil && m.finallyCosts() {
		if b := m.account.Budget; b != nil {
			if left := b.Sub(m.account.Spent); left.Cmp(reserved) > 0 {
				reserved = left
			}
		}
		if t := &m.tokens; t.budget > 0 {
			c.Tokens.Reserved = max(t.reserved, t.budget-t.input-t.output)
		}
	}
	if !reserved.IsZero() {
		c.Reserved = reserved.Decimal()
	}
	return c
}

// finallyCosts reports whether a step of `finally`, which runs after the report, may cost
// something.
func (m *Machine) finallyCosts() bool { return slices.ContainsFunc(m.def.Finally, costs) }

// costs reports whether the step, or one inside it, may cost something.
func costs(s *saga.Step) bool {
	if b, ok := s.Body.(saga.Block); ok {
		return slices.ContainsFunc(b.Lists(), func(list []*saga.Step) bool { return slices.ContainsFunc(list, costs) })
	}
	return mayCost(s)
}

// chargeChild records what a child has cost since its last report. If there is no report, that is
// unknown, and the reservation stays.
func (t *outcomeBuilder) chargeChild() {
	c := saga.ChildCost{Spent: "0"}
	switch {
	case t.a.Report != nil && t.a.Report.Child != nil:
		c = *t.a.Report.Child
	case t.a.Sent || t.s.doubt: // a child may have been started
		return
	case t.s == &t.n.compensation && t.a.Code != saga.NoSaga: // a child exists, and may still cost something
		return
	}
	spent, _, err := moneyOf(c)
	if err != nil {
		return
	}
	if c.Currency != t.m.currency() && !(spent.IsZero() && c.Reserved == "") {
		if !t.s.reserved.IsZero() {
			return
		}
		// A saga without amounts in this currency has reserved none, and counts only tokens.
		spent, c.Reserved = retry.Money{}, ""
	}
	spent = spent.Sub(t.n.childSpent)
	c.Tokens.Input -= t.n.childTokens.Input
	c.Tokens.Output -= t.n.childTokens.Output
	t.d.Cost, t.d.Kept = spent.Decimal(), c.Reserved
	if c.Tokens != (saga.TokensView{}) || t.s.reservedTokens > 0 {
		t.d.Tokens = &c.Tokens
	}
}

// ChildCost returns what the child of a step has reported, according to the outcome that was
// recorded of the report, so that a replay can give the report again; nil: the cost is unknown.
func (m *Machine) ChildCost(path string, d *saga.OutcomeData) *saga.ChildCost {
	n := m.steps[path]
	spent, err := retry.Total(d.Cost, m.currency())
	if n == nil || err != nil {
		return nil
	}
	c := &saga.ChildCost{Currency: m.currency(), Spent: spent.Add(n.childSpent).Decimal(), Reserved: d.Kept, Tokens: n.childTokens}
	if d.Tokens != nil { // the records have what was used since the last report
		c.Tokens.Input += d.Tokens.Input
		c.Tokens.Output += d.Tokens.Output
		c.Tokens.Reserved = d.Tokens.Reserved
	}
	return c
}
