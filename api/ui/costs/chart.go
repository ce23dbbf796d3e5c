package costs

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"recourse/api/ui/format"
	"recourse/internal/costs/tally"
)

// Chart is a row of bars in an SVG, which are sized here and coloured by their classes. A table
// alongside has the same numbers.
type Chart struct {
	Currency string
	Width    int // width of the view box, whose height is 100
	Bars     []pillar
	Lines    []upright
	First    string // labels below the first and the last bar
	Last     string
	Highest  string // amount
}

// pillar is a bar of a Chart. Low is the height of its wasted part.
type pillar struct {
	X, Y, Height, LowY, Low int
	Over                    bool // above the usual costs
	Name, Title             string
	Group                   tally.Group // in charts of days
	Sagas                   int         // in charts of buckets
}

// upright is a vertical line at an amount.
type upright struct {
	X           int
	Name, Class string
}

// pace is the distance between bars in the view box. A bar is four fifths of it wide.
const pace = 100

// Days returns a chart for each currency, with a bar for each day.
func Days(groups []tally.Group, since, until time.Time) (list []Chart) {
	for _, t := range Totals(groups) {
		if t.Currency == "" {
			continue
		}
		c := Chart{Currency: t.Currency, Highest: "0"}
		for day := since.UTC().Truncate(24 * time.Hour); !day.After(until); day = day.AddDate(0, 0, 1) {
			name := day.Format(time.DateOnly)
			g := tally.Group{Key: name, Currency: t.Currency, Spent: "0", Wasted: "0"}
			if at := slices.IndexFunc(groups, func(g tally.Group) bool { return g.Key == name && g.Currency == t.Currency }); at >= 0 {
				g = groups[at]
			}
			title := name + ": " + Rounded(g.Spent, g.Currency) + ", " + format.Plural(int(g.Sagas), "saga", "sagas")
			if share := Percent(g.Wasted, g.Spent); share != "" {
				title += ", " + share + " wasted"
			}
			c.Bars = append(c.Bars, pillar{Name: name, Title: title, Group: g})
			if amountOf(g.Spent).Cmp(amountOf(c.Highest)) > 0 {
				c.Highest = g.Spent
			}
		}
		c.place(func(b *pillar) (*big.Rat, *big.Rat) {
			return Ratio(b.Group.Spent, c.Highest), Ratio(b.Group.Wasted, c.Highest)
		})
		list = append(list, c)
	}
	return list
}

// place sizes the bars by their share of the highest one, and by the wasted share.
func (c *Chart) place(of func(*pillar) (high, low *big.Rat)) {
	c.Width = pace * len(c.Bars)
	for i := range c.Bars {
		b := &c.Bars[i]
		high, low := of(b)
		b.X = pace*i + pace/10
		b.Height, b.Low = tall(high), tall(low)
		b.Y, b.LowY = 100-b.Height, 100-b.Low
	}
	c.First, c.Last = c.Bars[0].Name, c.Bars[len(c.Bars)-1].Name
}

// tall returns a share of 100, at least 1 unless the share is 0.
func tall(part *big.Rat) int {
	if part.Sign() == 0 {
		return 0
	}
	return max(floor(new(big.Rat).Mul(part, big.NewRat(100, 1))), 1)
}

func floor(r *big.Rat) int { return int(new(big.Int).Quo(r.Num(), r.Denom()).Int64()) }

// Spread is the distribution of the costs of a definition's sagas.
type Spread struct {
	Chart
	Group tally.Group
	Above string // three times the median
}

// SpreadOf returns the distribution for one definition.
func SpreadOf(g tally.Group) Spread {
	s := Spread{Group: g, Above: tally.Above(amountOf(g.Median)).Decimal()}
	s.Currency = g.Currency
	most := 0
	for _, b := range g.Buckets {
		most = max(most, b.Sagas)
		name := tally.Figure(b.From) + " to " + tally.Figure(b.To)
		s.Bars = append(s.Bars, pillar{Name: name, Sagas: b.Sagas, Over: !amountOf(g.Median).IsZero() && amountOf(b.From).Cmp(amountOf(s.Above)) >= 0,
			Title: fmt.Sprintf("%s %s: %s", name, g.Currency, format.Plural(b.Sagas, "saga", "sagas"))})
	}
	s.place(func(b *pillar) (*big.Rat, *big.Rat) {
		return big.NewRat(int64(b.Sagas), int64(max(most, 1))), new(big.Rat)
	})
	s.First, s.Last = Rounded(g.Buckets[0].From, g.Currency), Rounded(g.Buckets[len(g.Buckets)-1].To, g.Currency)
	for _, l := range []struct{ name, class, amount string }{{"median", "median", g.Median}, {"three times the median", "above", s.Above}} {
		if x, ok := whereIn(g.Buckets, l.amount); ok {
			s.Lines = append(s.Lines, upright{x, l.name + ": " + Rounded(l.amount, g.Currency), l.class})
		}
	}
	return s
}

// whereIn returns an amount's position among buckets; ok is false if it is outside.
func whereIn(buckets []tally.Bucket, amount string) (x int, ok bool) {
	m := amountOf(amount)
	for i, b := range buckets {
		if m.Cmp(amountOf(b.From)) >= 0 && m.Cmp(amountOf(b.To)) < 0 {
			part := Ratio(m.Sub(amountOf(b.From)).Decimal(), amountOf(b.To).Sub(amountOf(b.From)).Decimal())
			return pace*i + floor(part.Mul(part, big.NewRat(pace, 1))), true
		}
	}
	return 0, false
}
