package ui

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"recourse/api/ui/format"
	"recourse/saga"
	"recourse/saga/machine"
)

// costBar is an amount as a bar, in thousandths.
type costBar struct {
	Name, Path string
	Amount     string // with the currency
	Wasted     string // with the currency; "" for none
	Good, Bad  int    // thousandths: useful and wasted
}

// moneyView is a saga's costs.
type moneyView struct {
	Spent, Wasted, Reserved, Budget string // with the currency; "" for none
	Children                        string // the part of Spent that child sagas have spent; "" for none
	// Good, Bad and ReservedShare are thousandths of the budget or, without one, of the sum of
	// spent and reserved.
	Good, Bad, ReservedShare int
	Tokens                   saga.TokensView
	Steps                    []costBar // most expensive first
	Models                   []modelRow
	Any                      bool
}

// modelRow is the use of one language model.
type modelRow struct {
	Name, Spent   string
	Input, Output int64
}

// maxCosts is the maximum of steps in the list of costs.
const maxCosts = 15

func (d *sagaPage) money() moneyView {
	c := d.Saga.Cost
	m := moneyView{Spent: format.Money(c.Spent, c.Currency), Wasted: format.Money(c.Wasted, c.Currency), Reserved: format.Money(c.Reserved, c.Currency), Budget: format.Money(c.Budget, c.Currency), Tokens: c.Tokens}
	if c.Children != nil {
		m.Children = format.Money(c.Children.Spent, c.Currency)
	}
	spent, bad, held, budget := amount(c.Spent), amount(c.Wasted), amount(c.Reserved), amount(c.Budget)
	whole := new(big.Rat).Add(spent, held)
	if budget.Cmp(whole) > 0 {
		whole = budget
	}
	m.Good, m.Bad, m.ReservedShare = share(new(big.Rat).Sub(spent, bad), whole), share(bad, whole), share(held, whole)
	most := new(big.Rat)
	var steps []machine.StepView
	for _, s := range d.Steps {
		if s.Cost == "0" || d.Session != nil && d.Session.Ask(s.Path) != nil { // most steps of a large saga have none
			continue // the table of models has the requests to models
		}
		if cost := amount(s.Cost); cost.Sign() > 0 {
			steps = append(steps, s)
			if cost.Cmp(most) > 0 {
				most = cost
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b machine.StepView) int { return amount(b.Cost).Cmp(amount(a.Cost)) })
	for _, s := range steps[:min(len(steps), maxCosts)] {
		cost, lost := amount(s.Cost), wasted(s)
		m.Steps = append(m.Steps, costBar{Name: s.Path, Path: s.Path, Amount: format.Money(s.Cost, c.Currency), Wasted: format.Money(lost, c.Currency),
			Good: share(new(big.Rat).Sub(cost, amount(lost)), most), Bad: share(amount(lost), most)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		used := c.Models[name]
		m.Models = append(m.Models, modelRow{name, format.Money(used.Spent, c.Currency), used.Input, used.Output})
	}
	m.Any = m.Spent != "" || m.Reserved != "" || m.Budget != "" || c.Tokens != saga.TokensView{}
	return m
}

// amount parses a decimal; other text is 0.
func amount(decimal string) *big.Rat {
	if r, ok := new(big.Rat).SetString(strings.TrimSpace(decimal)); ok && r.Sign() > 0 {
		return r
	}
	return new(big.Rat)
}

// share returns a part in thousandths of a whole.
func share(part, whole *big.Rat) int {
	if whole.Sign() <= 0 || part.Sign() <= 0 {
		return 0
	}
	n := new(big.Rat).Mul(new(big.Rat).Quo(part, whole), big.NewRat(1000, 1))
	return int(new(big.Int).Quo(n.Num(), n.Denom()).Int64())
}
