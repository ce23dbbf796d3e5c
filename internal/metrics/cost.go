package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"recourse/retry"
	"recourse/saga"
)

// had takes over the earlier cost of the saga, which another node has counted.
func (r *reader) had(cost saga.CostView) {
	r.t.spent, r.t.wasted, r.t.shown = money(cost.Spent), money(cost.Wasted), cost.Spent
	r.t.dear = r.outlier(cost)
}

// spend counts the cost of the saga since the last call.
func (r *reader) spend(cost saga.CostView) {
	if cost.Spent == r.t.shown { // then the wasted amount is unchanged too
		return
	}
	spent, wasted := money(cost.Spent), money(cost.Wasted)
	r.pay(r.m.spent, cost, spent.Sub(r.t.spent))
	r.pay(r.m.wasted, cost, wasted.Sub(r.t.wasted))
	r.t.spent, r.t.wasted, r.t.shown = spent, wasted, cost.Spent
	if !r.t.dear && r.outlier(cost) {
		r.t.dear = true
		r.count(r.m.outliers)
	}
}

// pay adds an amount to a counter of money.
func (r *reader) pay(c *prometheus.CounterVec, cost saga.CostView, m retry.Money) {
	if !m.IsZero() {
		c.WithLabelValues(r.name, r.currency(cost)).Add(value(m))
	}
}

// priced records the total cost of the saga.
func (r *reader) priced(cost saga.CostView) {
	if spent := money(cost.Spent); !spent.IsZero() {
		r.observe(r.m.sagaCost.WithLabelValues(r.name, r.currency(cost)), value(spent))
	}
}

// outlier reports whether the saga has spent more than three times the typical cost.
func (r *reader) outlier(cost saga.CostView) bool {
	if r.m.cfg.Median == nil {
		return false
	}
	typical, ok := r.m.cfg.Median(r.def.Name)
	if !ok || typical.IsZero() || cost.Currency != "" && typical.Currency != cost.Currency {
		return false
	}
	return money(cost.Spent).Cmp(typical.Add(typical).Add(typical)) > 0
}

// currency returns the label for the currency of a saga's amounts, or none.
func (r *reader) currency(cost saga.CostView) string {
	if cost.Currency == "" {
		return "none"
	}
	name, _ := r.m.currencies.label(cost.Currency)
	return name
}

// money reads an amount. An invalid amount counts as zero.
func money(decimal string) retry.Money {
	m, err := retry.Total(decimal, "")
	if err != nil {
		return retry.Money{}
	}
	return m
}

// value converts an amount to a number for Prometheus.
func value(m retry.Money) float64 {
	v, err := strconv.ParseFloat(m.Decimal(), 64)
	if err != nil {
		return 0
	}
	return v
}
