package machine

import (
	"fmt"

	"recourse/retry"
	"recourse/saga"
)

// tokens counts the tokens of a saga's budget, input and output together.
type tokens struct {
	budget   int64 // 0: no limit
	reserved int64
	inFlight int64 // the part of reserved that belongs to attempts in flight
	input    int64
	output   int64
}

func (t *tokens) reserve(n int64) {
	t.reserved += n
	t.inFlight += n
}

// settle books the tokens that an attempt used. If used is nil, the number is unknown and stays
// reserved.
func (t *tokens) settle(s *track, used *saga.TokensView) {
	t.inFlight -= s.reservedTokens
	if used == nil {
		s.unknownTokens += s.reservedTokens
	} else {
		t.reserved -= s.reservedTokens
		t.input += used.Input
		t.output += used.Output
	}
	s.reservedTokens = 0
}

// left returns what is left of the budget; it is negative if the budget is exceeded.
func (t *tokens) left() int64 { return t.budget - t.input - t.output - t.reserved }

// fit reports whether n more tokens fit, if `free` of the reserved ones were released.
func (t *tokens) fit(n, free int64) bool {
	return t.budget == 0 || n == 0 || n > 0 && n <= t.left()+free
}

// reserveOf returns the most that an attempt of the step with this request may use.
func reserveOf(s *saga.Step, r saga.Request) saga.Usage {
	var u saga.Usage
	if p, ok := s.Body.(saga.Priced); ok {
		u = p.Reserve(r)
	}
	if cost, ok := declaredCost(s.Cost); ok {
		u.Cost = cost
	}
	return u
}

// mayCost reports whether attempts of the step may cost something.
func mayCost(s *saga.Step) bool {
	_, priced := s.Body.(saga.Priced)
	_, declared := declaredCost(s.Cost)
	_, runs := s.Body.(saga.Endowing)
	return priced || declared || runs
}

// declaredCost returns the highest cost of an attempt by the author's `cost`, and false if there is
// none.
func declaredCost(c saga.Cost) (retry.Money, bool) {
	switch {
	case c.Fixed != nil:
		return *c.Fixed, true
	case c.Reserve != nil:
		return *c.Reserve, true
	}
	return retry.Money{}, false
}

// fits reports whether the budget covers one more attempt.
func (m *Machine) fits(u saga.Usage) bool {
	return m.account.Fits(u.Cost) && m.tokens.fit(u.Input+u.Output, 0)
}

// mayFit reports whether the budget would cover the attempt if all attempts in flight turned out to
// cost nothing.
func (m *Machine) mayFit(u saga.Usage) bool {
	if m.inFlight.IsZero() && m.tokens.inFlight == 0 {
		return false
	}
	account := m.account
	account.Reserved = account.Reserved.Sub(m.inFlight)
	return account.Fits(u.Cost) && m.tokens.fit(u.Input+u.Output, m.tokens.inFlight)
}

// why explains why the budget does not cover an attempt.
func (m *Machine) why(u saga.Usage) string {
	if !m.account.Fits(u.Cost) {
		return "it may cost " + u.Cost.String() + "; spent " + m.account.Spent.Decimal() + ", reserved " + m.account.Reserved.Decimal() + " of " + m.account.Budget.String()
	}
	return fmt.Sprintf("it may use %d tokens; used %d, reserved %d of %d", u.Input+u.Output, m.tokens.input+m.tokens.output, m.tokens.reserved, m.tokens.budget)
}
