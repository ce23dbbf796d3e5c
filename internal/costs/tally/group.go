package tally

import (
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/retry"
)

// Group is the total cost of some sagas. Amounts are exact decimals in the group's currency.
type Group struct {
	Key      string `json:"key"`                // "" for sagas without the label
	Currency string `json:"currency,omitempty"` // "" for sagas without costs
	Sagas    int64  `json:"sagas"`
	Ended    int64  `json:"ended"`
	Spent    string `json:"spent"`
	// Wasted is the part that failed attempts cost. By model it is absent, because it is not known.
	Wasted string `json:"wasted,omitempty"`
	Median string `json:"median,omitempty"` // of the sagas that have ended; absent if none has
	P90    string `json:"p90,omitempty"`    // nine of ten ended sagas did not cost more
	Max    string `json:"max"`
	Tokens Tokens `json:"tokens"`
	// Outliers are the most expensive sagas above three times the median. They may still be
	// running.
	Outliers []Outlier `json:"outliers"`
	Buckets  []Bucket  `json:"buckets,omitempty"`
}

// Tokens counts the tokens that language models have read and written.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Outlier is a saga that cost far more than similar sagas.
type Outlier struct {
	Saga  string `json:"saga"`
	Spent string `json:"spent"`
}

const (
	// Times is the multiple of the median from which a saga is an outlier.
	Times = 3
	// most is the number of outliers that a group names.
	most = 10
)

// group is a Group that is being computed.
type group struct {
	place
	sagas         int64
	spent, wasted retry.Money
	input, output int64
	ended         []retry.Money // the cost of each saga that has ended
	top           []dear        // the most expensive first
}

type dear struct {
	saga  uuid.UUID
	spent retry.Money
}

// dearest keeps a saga if it is among the most expensive. Of sagas with the same cost the first
// ones stay.
func (g *group) dearest(d dear) {
	at := len(g.top)
	for at > 0 && g.top[at-1].spent.Cmp(d.spent) < 0 {
		at--
	}
	if at == most {
		return
	}
	g.top = slices.Insert(g.top, at, d)
	g.top = g.top[:min(len(g.top), most)]
}

func (g *group) sum(wasted bool) Group {
	sum := Group{Key: g.key, Currency: g.currency, Sagas: g.sagas, Ended: int64(len(g.ended)), Spent: g.spent.Decimal(), Max: g.top[0].spent.Decimal(),
		Tokens: Tokens{g.input, g.output}, Outliers: []Outlier{}}
	if wasted {
		sum.Wasted = g.wasted.Decimal()
	}
	median, ok := Median(g.ended)
	if !ok {
		return sum
	}
	sum.Median, sum.P90 = median.Decimal(), g.ended[rank(len(g.ended), 9, 10)].Decimal()
	if median.IsZero() { // most sagas cost nothing, so every saga with a cost would be one
		return sum
	}
	for _, d := range g.top {
		if d.spent.Cmp(Above(median)) > 0 {
			sum.Outliers = append(sum.Outliers, Outlier{d.saga.String(), d.spent.Decimal()})
		}
	}
	return sum
}

// Median returns the median of amounts of one currency (the lower of two), and sorts them. ok is
// false if there are none.
func Median(amounts []retry.Money) (m retry.Money, ok bool) {
	if len(amounts) == 0 {
		return m, false
	}
	slices.SortFunc(amounts, retry.Money.Cmp)
	return amounts[rank(len(amounts), 1, 2)], true
}

// rank returns the index, among n sorted amounts, of the first amount that at least part/of of them
// do not exceed.
func rank(n, part, of int) int { return (n*part+of-1)/of - 1 }

// Above returns the cost above which a saga is an outlier.
func Above(median retry.Money) retry.Money {
	var m retry.Money
	for range Times {
		m = m.Add(median)
	}
	return m
}

// decades returns the number of decades from 1 to the leading digit of a positive amount: 2 for
// 345, -3 for 0.0015.
func decades(m retry.Money) int {
	whole, places, _ := strings.Cut(m.Decimal(), ".")
	if whole != "0" {
		return len(whole) - 1
	}
	return -1 - strings.IndexFunc(places, func(r rune) bool { return r != '0' })
}
