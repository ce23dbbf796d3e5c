// Package costs adds up the costs that the API reports, and draws them as bars.
package costs

import (
	"cmp"
	"math/big"
	"slices"

	"recourse/internal/costs/tally"
	"recourse/retry"
)

// Total is the sum of costs in one currency.
type Total struct {
	Currency      string
	Sagas         int64
	Spent, Wasted string
	Tokens        tally.Tokens
}

// Outlier is a saga that cost far more than the median of its definition.
type Outlier struct {
	tally.Outlier
	Definition, Currency, Median string
	Times                        string // cost divided by the median
	times                        *big.Rat
}

// mostOutliers is the maximum of outliers on the page.
const mostOutliers = 20

// Totals adds up groups by currency.
func Totals(groups []tally.Group) (list []Total) {
	for _, g := range groups {
		at := slices.IndexFunc(list, func(t Total) bool { return t.Currency == g.Currency })
		if at < 0 {
			list = append(list, Total{Currency: g.Currency, Spent: "0", Wasted: "0"})
			at = len(list) - 1
		}
		t := &list[at]
		t.Sagas += g.Sagas
		t.Spent, t.Wasted = plus(t.Spent, g.Spent), plus(t.Wasted, g.Wasted)
		t.Tokens.Input, t.Tokens.Output = t.Tokens.Input+g.Tokens.Input, t.Tokens.Output+g.Tokens.Output
	}
	slices.SortFunc(list, func(a, b Total) int { return cmp.Compare(a.Currency, b.Currency) })
	if len(list) > 1 && list[0].Currency == "" { // sagas without costs are shown only if there are no others
		free, t := list[0], &list[1]
		t.Sagas += free.Sagas
		t.Tokens.Input, t.Tokens.Output = t.Tokens.Input+free.Tokens.Input, t.Tokens.Output+free.Tokens.Output
		list = list[1:]
	}
	return list
}

// plus adds decimals; any other text counts as 0.
func plus(a, b string) string { return amountOf(a).Add(amountOf(b)).Decimal() }

func amountOf(decimal string) retry.Money {
	m, err := retry.Total(decimal, "")
	if err != nil {
		return retry.Money{}
	}
	return m
}

// Outliers lists the outliers of all groups, the furthest from their median first.
func Outliers(groups []tally.Group) (list []Outlier) {
	for _, g := range groups {
		for _, o := range g.Outliers {
			times := Ratio(o.Spent, g.Median)
			list = append(list, Outlier{Outlier: o, Definition: g.Key, Currency: g.Currency, Median: g.Median, Times: times.FloatString(1), times: times})
		}
	}
	slices.SortStableFunc(list, func(a, b Outlier) int { return b.times.Cmp(a.times) })
	return list[:min(len(list), mostOutliers)]
}

// Ratio divides decimals; it is 0 if the whole is 0.
func Ratio(part, whole string) *big.Rat {
	a, ok := new(big.Rat).SetString(part)
	b, has := new(big.Rat).SetString(whole)
	if !ok || !has || b.Sign() == 0 {
		return new(big.Rat)
	}
	return a.Quo(a, b)
}

// Percent formats a part of a whole: "12%", "" for 0.
func Percent(part, whole string) string {
	r := Ratio(part, whole)
	r.Mul(r, big.NewRat(100, 1))
	switch {
	case r.Sign() == 0:
		return ""
	case r.Cmp(big.NewRat(1, 1)) < 0:
		return "<1%"
	}
	return r.FloatString(0) + "%"
}

// Rounded formats an amount with its currency for people; "" for none.
func Rounded(amount, currency string) string {
	if amount == "" {
		return ""
	}
	if currency == "" {
		return tally.Figure(amount)
	}
	return tally.Figure(amount) + " " + currency
}
