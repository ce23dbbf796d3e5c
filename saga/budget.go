package saga

import (
	"fmt"

	"recourse/retry"
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
func (t *tokens) settle(s *track, used *TokensView) {
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

// fit reports whether n more tokens fit, if `free` of the reserved ones were released.
func (t *tokens) fit(n, free int64) bool {
	return t.budget == 0 || n == 0 || t.input+t.output+t.reserved-free+n <= t.budget
}

// reserve returns the most that an attempt of the step with this request may use.
func (s *Step) reserve(r Request) Usage {
	var u Usage
	if p, ok := s.Body.(Priced); ok {
		u = p.Reserve(r)
	}
	if cost, ok := s.Cost.reserve(); ok {
		u.Cost = cost
	}
	return u
}

// costs reports whether attempts of the step may cost something.
func (s *Step) costs() bool {
	_, priced := s.Body.(Priced)
	_, declared := s.Cost.reserve()
	return priced || declared
}

// reserve returns the highest cost of an attempt by the author's `cost`, and false if there is
// none.
func (c Cost) reserve() (retry.Money, bool) {
	switch {
	case c.Fixed != nil:
		return *c.Fixed, true
	case c.Reserve != nil:
		return *c.Reserve, true
	}
	return retry.Money{}, false
}

// fits reports whether the budget covers one more attempt.
func (m *Machine) fits(u Usage) bool {
	return m.account.Fits(u.Cost) && m.tokens.fit(u.Input+u.Output, 0)
}

// mayFit reports whether the budget would cover the attempt if all attempts in flight turned out to
// cost nothing.
func (m *Machine) mayFit(u Usage) bool {
	if m.inFlight.IsZero() && m.tokens.inFlight == 0 {
		return false
	}
	account := m.account
	account.Reserved = account.Reserved.Sub(m.inFlight)
	return account.Fits(u.Cost) && m.tokens.fit(u.Input+u.Output, m.tokens.inFlight)
}

// why explains why the budget does not cover an attempt.
func (m *Machine) why(u Usage) string {
	if !m.account.Fits(u.Cost) {
		return "it may cost " + u.Cost.String() + "; spent " + m.account.Spent.Decimal() + ", reserved " + m.account.Reserved.Decimal() + " of " + m.account.Budget.String()
	}
	return fmt.Sprintf("it may use %d tokens; used %d, reserved %d of %d", u.Input+u.Output, m.tokens.input+m.tokens.output, m.tokens.reserved, m.tokens.budget)
}
