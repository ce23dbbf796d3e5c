package invariant

import (
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// way identifies a track of a step.
type way struct {
	path string
	way  journal.Way
}

// account is the saga's money, computed from its records.
type account struct {
	spent, reserved retry.Money
	inFlight        map[way]retry.Money // of the attempt in flight
	unknown         map[way]retry.Money // of attempts whose cost is unknown, and what a child may still cost
	child           map[way]string      // the last saga that a step has run
	asked           map[string]bool     // whether the last status check was conclusive, by its step's path
}

func newAccount() account {
	return account{inFlight: make(map[way]retry.Money), unknown: make(map[way]retry.Money), child: make(map[way]string), asked: make(map[string]bool)}
}

// budget checks invariant 15 with an account of its own: at every prefix, the reserved and spent
// amounts of forward steps are within the budget, until compensation begins, which the budget does
// not limit. A budget that the saga gets later counts its open sessions, and not its children.
func (c *sagaCheck) budget(t *sagaState) {
	limit, limited := t.limit()
	a := newAccount()
	for i, r := range t.Records {
		if i == t.planAt {
			return
		}
		if d, ok := t.data[i].(*saga.CommandData); ok && r.Kind == journal.Operator && d.Rejected == nil && d.Budget != nil && d.Budget.Amount != "" {
			if !limited && len(a.child) > 0 {
				return
			}
			limit, limited = amount(d.Budget.Amount), true
		}
		if limited {
			limit = limit.Add(a.beyond(r, t.data[i]))
		}
		a.take(r, t.data[i])
		if !limited {
			continue
		}
		if used := a.spent.Add(a.reserved); used.Cmp(limit) > 0 {
			c.say(15, r.Seq, "after record %d, %s is spent and %s reserved, which is more than %s", r.Seq, a.spent.Decimal(), a.reserved.Decimal(), limit.Decimal())
			return
		}
	}
}

// beyond returns by how much the cost that an agent reports for an own step, or a child that has
// undone what it did, is more than its reservation. The money is spent, so it counts although it
// may exceed the budget.
func (a *account) beyond(r journal.Record, data any) retry.Money {
	// A session that belongs to the saga has undone what it did, or its own steps cost more.
	if c, ok := data.(*saga.CommandData); ok && c.Session != nil && c.Session.Cost != nil && c.Rejected == nil {
		cost, reserved := amount(c.Session.Cost.Spent).Add(amount(c.Session.Cost.Reserved)), a.inFlight[guestOf(c.Session)]
		if cost.Cmp(reserved) > 0 {
			return cost.Sub(reserved)
		}
	}
	d, ok := data.(*saga.OutcomeData)
	cost, reserved := retry.Money{}, a.inFlight[way{r.Path, r.Way}]
	if ok && r.Way == journal.Do && (isOwn(r.Path) || a.child[way{r.Path, r.Way}] != "" && d.Error != nil) {
		cost = amount(d.Cost)
	}
	if cost.Cmp(reserved) <= 0 {
		return retry.Money{}
	}
	return cost.Sub(reserved)
}

// guestOf returns where an account has what is reserved for a session that belongs to the saga.
func guestOf(s *saga.SessionPart) way { return way{path: "session " + s.Key} }

// guest takes over what is reserved for a session, or what it has cost.
func (a *account) guest(s *saga.SessionPart) {
	at := guestOf(s)
	switch {
	case s.Cost != nil:
		a.spent, a.reserved = a.spent.Add(amount(s.Cost.Spent)), a.reserved.Sub(a.inFlight[at]).Add(amount(s.Cost.Reserved))
		delete(a.inFlight, at)
	case s.Part != nil:
		a.inFlight[at] = amount(s.Part.Amount)
		a.reserved = a.reserved.Add(a.inFlight[at])
	}
}

func (a *account) take(r journal.Record, data any) {
	at := way{r.Path, r.Way}
	switch d := data.(type) {
	case *saga.IntentData:
		if d.Request != nil && d.Request.Child != nil {
			if child := d.Request.Child.Saga; a.child[at] == child {
				a.release(at)
			} else { // what is reserved for the child before stays reserved
				a.child[at] = child
				delete(a.unknown, at)
			}
		}
		a.inFlight[at] = amount(d.Reserve)
		a.reserved = a.reserved.Add(a.inFlight[at])
	case *saga.OutcomeData:
		if step, query := saga.SplitQuery(r.Path); query {
			a.asked[step] = d.Next == saga.NextConclusive
		}
		if d.Cost != "" {
			a.spent, a.reserved = a.spent.Add(amount(d.Cost)), a.reserved.Sub(a.inFlight[at])
		} else {
			a.unknown[at] = a.unknown[at].Add(a.inFlight[at])
		}
		if a.child[at] != "" && d.Cost != "" { // a report about the whole child
			at := way{r.Path, journal.Do}
			a.release(at)
			a.unknown[at] = amount(d.Kept)
			a.reserved = a.reserved.Add(a.unknown[at])
		}
		delete(a.inFlight, at)
	case *saga.DecidedData:
		switch {
		case d.Next == saga.NextDone:
			a.settle(at, true)
		case d.By == string(saga.VerifyIt) && a.asked[r.Path]:
			a.settle(at, false)
		}
	case *saga.CommandData:
		if d.Rejected == nil && d.Session != nil {
			a.guest(d.Session)
		}
		// A person's decision does not say what a child has cost.
		if d.Rejected == nil && a.child[at] == "" && (d.Outcome == "succeeded" || d.Outcome == "failed" || d.Outcome == "compensated") {
			a.settle(at, d.Outcome != "failed")
		}
	}
}

// settle moves an unknown amount to spent, or releases it, when it is known whether the effect
// happened.
func (a *account) settle(at way, happened bool) {
	if happened {
		a.spent = a.spent.Add(a.unknown[at])
	}
	a.release(at)
}

// release releases an unknown amount.
func (a *account) release(at way) {
	a.reserved = a.reserved.Sub(a.unknown[at])
	delete(a.unknown, at)
}

// limit returns the budget that the saga starts with.
func (t *sagaState) limit() (retry.Money, bool) {
	if d, ok := t.data[0].(*saga.StartedData); ok && d.Budget != nil && d.Budget.Amount != "" {
		return amount(d.Budget.Amount), true
	}
	if t.Definition == nil {
		return retry.Money{}, false
	}
	if b := t.Definition.Budget; b != nil && b.Amount != nil {
		return amount(b.Amount.Decimal()), true
	}
	return retry.Money{}, false
}

// amount reads a decimal without its currency: a saga has only one. An empty or invalid amount is
// zero.
func amount(decimal string) retry.Money {
	if decimal == "" {
		return retry.Money{}
	}
	m, err := retry.Total(decimal, "")
	if err != nil {
		return retry.Money{}
	}
	return m
}

// tokens checks invariant 15 for a budget of tokens: an attempt begins only if it fits. The usage
// that a response reports counts, even if it is more than was reserved.
func (c *sagaCheck) tokens(t *sagaState) {
	limit := int64(0)
	if t.Definition != nil && t.Definition.Budget != nil {
		limit = t.Definition.Budget.Tokens
	}
	if b := t.started().Budget; b != nil && b.Tokens > 0 {
		limit = b.Tokens
	}
	inFlight, unknown := make(map[way]int64), make(map[way]int64)
	asked := make(map[string]bool) // whether the last status check was conclusive
	used, reserved := int64(0), int64(0)
	runs := make(map[way]bool)
	settle := func(at way, happened bool) {
		reserved -= unknown[at]
		if happened {
			used += unknown[at]
		}
		delete(unknown, at)
	}
	for i, r := range t.Records {
		if i == t.planAt {
			return
		}
		at := way{r.Path, r.Way}
		switch d := t.data[i].(type) {
		case *saga.IntentData:
			if d.Request != nil && d.Request.Child != nil {
				runs[at] = true
				reserved -= unknown[at] // for the same child
				delete(unknown, at)
			}
			inFlight[at] = d.ReserveTokens
			reserved += d.ReserveTokens
			if limit > 0 && d.ReserveTokens > 0 && used+reserved > limit {
				c.say(15, r.Seq, "with record %d, %d tokens are used and %d reserved, which is more than %d", r.Seq, used, reserved, limit)
				return
			}
		case *saga.OutcomeData:
			if step, query := saga.SplitQuery(r.Path); query {
				asked[step] = d.Next == saga.NextConclusive
			}
			if d.Tokens != nil {
				used, reserved = used+d.Tokens.Input+d.Tokens.Output, reserved-inFlight[at]
				if runs[at] { // a report about the whole child
					at := way{r.Path, journal.Do}
					reserved += d.Tokens.Reserved - unknown[at]
					unknown[at] = d.Tokens.Reserved
				}
			} else {
				unknown[at] += inFlight[at]
			}
			delete(inFlight, at)
		case *saga.DecidedData:
			if d.Next == saga.NextDone || d.By == string(saga.VerifyIt) && asked[r.Path] {
				settle(at, d.Next == saga.NextDone)
			}
		case *saga.CommandData:
			if d.Rejected != nil {
				continue
			}
			if d.Budget != nil && d.Budget.Tokens > 0 {
				if limit = d.Budget.Tokens; used+reserved > limit {
					c.say(15, r.Seq, "with record %d, the limit becomes %d tokens, but %d are used and %d reserved", r.Seq, limit, used, reserved)
					return
				}
			}
			if g := d.Session; g != nil && g.Cost != nil {
				at := guestOf(g)
				used, reserved = used+g.Cost.Tokens.Input+g.Cost.Tokens.Output, reserved-inFlight[at]+g.Cost.Tokens.Reserved
				delete(inFlight, at)
			} else if g != nil && g.Part != nil {
				inFlight[guestOf(g)] = g.Part.Tokens
				if reserved += g.Part.Tokens; limit > 0 && used+reserved > limit {
					c.say(15, r.Seq, "with record %d, %d tokens are used and %d reserved, which is more than %d", r.Seq, used, reserved, limit)
					return
				}
			}
			if !runs[at] && (d.Outcome == "succeeded" || d.Outcome == "failed" || d.Outcome == "compensated") {
				settle(at, d.Outcome != "failed")
			}
		}
	}
}
