// Package tally adds up the costs of sagas, in groups. It is exact: it adds and compares decimals,
// and a median is the cost of a real saga.
package tally

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// By says how sagas are grouped: one of the constants, or ByLabel and a label's name.
type By string

// The groupings.
const (
	ByDefinition By = "definition"
	ByDay        By = "day"   // the day of their start, in UTC
	ByModel      By = "model" // a saga counts for each language model that it used, with the cost of that model
	ByLabel      By = "label."
)

// Label returns the name of the label that sagas are grouped by; ok is false if they are not
// grouped by a label.
func (b By) Label() (name string, ok bool) { return strings.CutPrefix(string(b), string(ByLabel)) }

// Tally adds up sagas. It is not safe for concurrent use.
type Tally struct {
	by     By
	groups map[place]*group
}

// place identifies a group. Amounts of different currencies are never added.
type place struct{ key, currency string }

// New returns an empty tally.
func New(by By) *Tally { return &Tally{by: by, groups: make(map[place]*group)} }

// Add counts one saga in each tally. After an error, which wraps saga.ErrUnreadable, the tallies
// must not be used.
func Add(c journal.Cost, tallies ...*Tally) error {
	sum := struct{ Cost saga.CostView }{saga.NoCost}
	if len(c.Summary) > 0 {
		if err := json.Unmarshal(c.Summary, &sum); err != nil {
			return unreadable(c, err)
		}
	}
	sum.Cost = sum.Cost.Own()
	for _, t := range tallies {
		if err := t.add(c, &sum.Cost); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tally) add(c journal.Cost, cost *saga.CostView) error {
	if t.by == ByModel {
		for name, m := range cost.Models { // any order
			if err := t.count(c, name, cost.Currency, share{m.Spent, "", m.Input, m.Output}); err != nil {
				return err
			}
		}
		return nil
	}
	return t.count(c, t.key(c), cost.Currency, share{cost.Spent, cost.Wasted, cost.Tokens.Input, cost.Tokens.Output})
}

func unreadable(c journal.Cost, err error) error {
	return fmt.Errorf("saga %s: %w: summary: %w", c.ID, saga.ErrUnreadable, err)
}

func (t *Tally) key(c journal.Cost) string {
	switch t.by {
	case ByDay:
		return c.CreatedAt.UTC().Format("2006-01-02")
	case ByDefinition:
		return c.Definition
	}
	name, _ := t.by.Label()
	return c.Labels[name]
}

// share is the part of a saga that counts in one group.
type share struct {
	spent, wasted string
	input, output int64
}

func (t *Tally) count(c journal.Cost, key, currency string, s share) error {
	at := place{key, currency}
	g := t.groups[at]
	if g == nil {
		g = &group{place: at}
	}
	spent, err := amount(s.spent, g.currency)
	if err != nil {
		return unreadable(c, err)
	}
	wasted, err := amount(s.wasted, g.currency)
	if err != nil {
		return unreadable(c, err)
	}
	g.sagas++
	g.spent, g.wasted = g.spent.Add(spent), g.wasted.Add(wasted)
	g.input, g.output = g.input+s.input, g.output+s.output
	if !c.EndedAt.IsZero() {
		g.ended = append(g.ended, spent)
	}
	g.dearest(dear{c.ID, spent})
	t.groups[at] = g
	return nil
}

// amount parses a decimal. An empty text is zero.
func amount(decimal, currency string) (retry.Money, error) {
	if decimal == "" {
		decimal = "0"
	}
	return retry.Total(decimal, currency)
}

// Groups returns at most limit groups, 0 for all, and the number of the others: those with the
// lowest costs. Amounts of different currencies cannot be compared, so the dearest groups of each
// currency stay. Days are sorted by date; other groups by cost, the highest first, for each
// currency. With buckets, every group has
// the distribution of its sagas' costs.
func (t *Tally) Groups(limit int, buckets bool) (list []Group, leftOut int) {
	all := make([]*group, 0, len(t.groups))
	for _, g := range t.groups { // any order
		all = append(all, g)
	}
	slices.SortFunc(all, dearestFirst)
	if limit > 0 && len(all) > limit {
		all, leftOut = dearest(all, limit), len(all)-limit
	}
	if t.by == ByDay {
		slices.SortFunc(all, oldestFirst)
	}
	list = make([]Group, len(all))
	for i, g := range all {
		list[i] = g.sum(t.by != ByModel)
		if buckets {
			list[i].Buckets = spread(g.ended)
		}
	}
	return list, leftOut
}

// dearest returns the first groups of each currency, in the same order.
func dearest(sorted []*group, limit int) []*group {
	rank, in := make(map[*group]int, len(sorted)), make(map[string]int)
	for _, g := range sorted {
		rank[g] = in[g.currency]
		in[g.currency]++
	}
	slices.SortStableFunc(sorted, func(a, b *group) int { return cmp.Compare(rank[a], rank[b]) })
	slices.SortFunc(sorted[:limit], dearestFirst)
	return sorted[:limit]
}

func dearestFirst(a, b *group) int {
	if c := byCurrency(a, b); c != 0 {
		return c
	}
	if c := b.spent.Cmp(a.spent); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

func oldestFirst(a, b *group) int {
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	return byCurrency(a, b)
}

// byCurrency sorts groups without a currency last, because nothing in them costs anything.
func byCurrency(a, b *group) int {
	if (a.currency == "") != (b.currency == "") {
		return strings.Compare(b.currency, a.currency)
	}
	return strings.Compare(a.currency, b.currency)
}
