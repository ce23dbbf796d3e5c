package retry

// Account keeps a saga's money: what is spent, and what attempts under way, or
// whose cost is unknown, have reserved. Reserve before the attempt leaves,
// settle when its cost is known; what stays unknown keeps its reservation.
type Account struct {
	Budget   *Money // nil: no limit
	Spent    Money
	Reserved Money
	Wasted   Money // the part of Spent that went into failed attempts
}

// Fits reports whether an attempt that may cost m can be reserved:
// spent + reserved + m ≤ budget.
func (a *Account) Fits(m Money) bool {
	return a.Budget == nil || m.IsZero() || a.Spent.Add(a.Reserved).Add(m).Cmp(*a.Budget) <= 0
}

// Reserve sets m aside.
func (a *Account) Reserve(m Money) { a.Reserved = a.Reserved.Add(m) }

// Settle gives a reservation back and books what was spent instead.
func (a *Account) Settle(reserved, spent Money, failed bool) {
	a.Reserved = a.Reserved.Sub(reserved)
	a.Spent = a.Spent.Add(spent)
	if failed {
		a.Wasted = a.Wasted.Add(spent)
	}
}
