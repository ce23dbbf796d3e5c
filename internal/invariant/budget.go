package invariant

import (
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// way names a generation of a way of a step.
type way struct {
	path string
	way  journal.Way
	gen  int
}

// budget is invariant 15, by an account of its own: what forward intents reserve
// and outcomes settle stays within the budget at every prefix, until undoing begins, which is exempt.
func (c *look) budget(t *tale) {
	limit, ok := t.limit()
	if !ok {
		return
	}
	var spent, reserved retry.Money
	open := make(map[way]retry.Money)
	for i, r := range t.Records {
		if i == t.planAt {
			return
		}
		at := way{r.Path, r.Way, r.Generation}
		switch d := t.data[i].(type) {
		case *saga.OrderData:
			if r.Kind == journal.Operator && d.Rejected == nil && d.Budget != nil && d.Budget.Amount != "" {
				limit = amount(d.Budget.Amount)
			}
		case *saga.IntentData:
			open[at] = amount(d.Reserve)
			reserved = reserved.Add(open[at])
		case *saga.OutcomeData:
			if d.Cost != "" {
				spent, reserved = spent.Add(amount(d.Cost)), reserved.Sub(open[at])
				delete(open, at)
			}
		}
		if used := spent.Add(reserved); used.Cmp(limit) > 0 {
			c.say(15, r.Seq, "after record %d %s is spent and %s reserved, of %s", r.Seq, spent.Decimal(), reserved.Decimal(), limit.Decimal())
			return
		}
	}
}

// limit is the budget that the saga starts with.
func (t *tale) limit() (retry.Money, bool) {
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

// amount reads a decimal without its currency: a saga has one. Nothing, or nonsense, is zero.
func amount(decimal string) retry.Money {
	if decimal == "" {
		return retry.Money{}
	}
	m, err := retry.Amount(decimal, "")
	if err != nil {
		return retry.Money{}
	}
	return m
}
