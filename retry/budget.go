package retry

// Account is a saga's money: what is spent, and what is reserved for attempts in flight or attempts
// of unknown cost. Reserve before the attempt is sent, and settle when its cost is known. An
// unknown cost stays reserved.
type Account struct {
	Budget   *Money // nil: no limit
	Spent    Money
	Reserved Money
	Wasted   Money // the part of Spent that failed attempts cost
}

// Fits reports whether an attempt that may cost m can be reserved:
// spent + reserved + m ≤ budget.
func (a *Account) Fits(m Money) bool {
	return a.Budget == nil || m.IsZero() || a.Spent.Add(a.Reserved).Add(m).Cmp(*a.Budget) <= 0
}

// Left returns what is left of the budget, which must not be nil: budget − spent − reserved.
func (a *Account) Left() Money { return a.Budget.Sub(a.Spent).Sub(a.Reserved) }

// Reserve reserves m.
func (a *Account) Reserve(m Money) { a.Reserved = a.Reserved.Add(m) }

// Settle releases a reservation and books what was spent instead.
func (a *Account) Settle(reserved, spent Money, failed bool) {
	a.Reserved = a.Reserved.Sub(reserved)
	a.Spent = a.Spent.Add(spent)
	if failed {
		a.Wasted = a.Wasted.Add(spent)
	}
}
