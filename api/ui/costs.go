package ui

import (
	"cmp"
	"context"
	"math/big"
	"net/url"
	"slices"
	"time"

	"recourse/internal/costs/tally"
	"recourse/retry"
	"recourse/saga"
)

// costsView is the page of costs.
type costsView struct {
	Within     string
	Definition string // "" for all
	Windows    []period
	Names      []string

	Since    saga.Time
	Complete bool
	Sagas    int
	Totals   []total
	Days     []barChart
	Groups   []tally.Group // groups by definition
	Spreads  []spread      // the distribution for one definition
	Outliers []outlier
	Models   []tally.Group
}

// costsAnswer is the API's response.
type costsAnswer struct {
	Since    saga.Time     `json:"since"`
	Until    saga.Time     `json:"until"`
	Complete bool          `json:"complete"`
	Sagas    int           `json:"sagas"`
	Groups   []tally.Group `json:"groups"`
}

// total is the sum of costs in one currency.
type total struct {
	Currency      string
	Sagas         int64
	Spent, Wasted string
	Tokens        tally.Tokens
}

// outlier is a saga that cost far more than the median of its definition.
type outlier struct {
	tally.Outlier
	Definition, Currency, Median string
	Times                        string // cost divided by the median
	times                        *big.Rat
}

// mostOutliers is the maximum of outliers on the page.
const mostOutliers = 20

var windows = []period{{"24h", "the last 24 hours"}, {"168h", "the last 7 days"}, {"720h", "the last 30 days"}, {"2160h", "the last 90 days"}}

// showCosts serves GET /costs.
func showCosts(v *request) error {
	q := v.r.URL.Query()
	page := costsView{Within: q.Get("within"), Definition: q.Get("definition"), Windows: windows, Names: v.names()}
	if page.Within == "" {
		page.Within = "168h"
	}
	if page.Definition != "" && !slices.Contains(page.Names, page.Definition) {
		page.Names = append(page.Names, page.Definition)
	}
	window, err := time.ParseDuration(page.Within)
	if err != nil || window <= 0 {
		return &problem{Status: 400, Title: "No such period", Detail: "choose one from the page, or write hours, such as within=48h"}
	}
	ask := url.Values{"since": {from(v.cfg.Now(), window).Format(time.RFC3339)}}
	if page.Definition != "" {
		ask.Set("definition", page.Definition)
	}
	var days, groups, models costsAnswer
	for by, into := range map[string]*costsAnswer{"day": &days, "definition": &groups, "model": &models} {
		ask.Set("group_by", by)
		if _, err := v.api.get("/v1/costs?"+ask.Encode(), into); err != nil {
			return err
		}
	}
	page.Since, page.Complete, page.Sagas = days.Since, days.Complete, days.Sagas
	page.Totals = totals(days.Groups)
	page.Days = dayCharts(days)
	page.Groups, page.Models = groups.Groups, models.Groups
	for _, g := range groups.Groups {
		if len(g.Buckets) > 0 {
			page.Spreads = append(page.Spreads, spreadOf(g))
		}
	}
	page.Outliers = outliers(groups.Groups)
	v.wake = func(ctx context.Context) { // summing many sagas is expensive, and the API caches the results
		select {
		case <-ctx.Done():
		case <-time.After(5 * v.cfg.Tick):
		}
	}
	return v.render("costs", "Cost", page)
}

// from returns the start of a window. A window of days starts with a whole day, and other windows
// at a whole minute, so that many users send the same request.
func from(now time.Time, window time.Duration) time.Time {
	const day = 24 * time.Hour
	if window > day {
		return now.UTC().Add(day - window).Truncate(day)
	}
	return now.UTC().Add(-window).Truncate(time.Minute)
}

// totals adds up groups by currency.
func totals(groups []tally.Group) (list []total) {
	for _, g := range groups {
		at := slices.IndexFunc(list, func(t total) bool { return t.Currency == g.Currency })
		if at < 0 {
			list = append(list, total{Currency: g.Currency, Spent: "0", Wasted: "0"})
			at = len(list) - 1
		}
		t := &list[at]
		t.Sagas += g.Sagas
		t.Spent, t.Wasted = plus(t.Spent, g.Spent), plus(t.Wasted, g.Wasted)
		t.Tokens.Input, t.Tokens.Output = t.Tokens.Input+g.Tokens.Input, t.Tokens.Output+g.Tokens.Output
	}
	slices.SortFunc(list, func(a, b total) int { return cmp.Compare(a.Currency, b.Currency) })
	if len(list) > 1 && list[0].Currency == "" { // sagas without costs are shown only if there are no others
		list[1].Sagas += list[0].Sagas
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

// outliers lists the outliers of all groups, the furthest from their median first.
func outliers(groups []tally.Group) (list []outlier) {
	for _, g := range groups {
		for _, o := range g.Outliers {
			times := ratio(o.Spent, g.Median)
			list = append(list, outlier{Outlier: o, Definition: g.Key, Currency: g.Currency, Median: g.Median, Times: times.FloatString(1), times: times})
		}
	}
	slices.SortStableFunc(list, func(a, b outlier) int { return b.times.Cmp(a.times) })
	return list[:min(len(list), mostOutliers)]
}

// ratio divides decimals; it is 0 if the whole is 0.
func ratio(part, whole string) *big.Rat {
	a, ok := new(big.Rat).SetString(part)
	b, has := new(big.Rat).SetString(whole)
	if !ok || !has || b.Sign() == 0 {
		return new(big.Rat)
	}
	return a.Quo(a, b)
}

// percent formats a part of a whole: "12%", "" for 0.
func percent(part, whole string) string {
	r := ratio(part, whole)
	r.Mul(r, big.NewRat(100, 1))
	switch {
	case r.Sign() == 0:
		return ""
	case r.Cmp(big.NewRat(1, 1)) < 0:
		return "<1%"
	}
	return r.FloatString(0) + "%"
}

// rounded formats an amount with its currency for people; "" for none.
func rounded(amount, currency string) string {
	if amount == "" {
		return ""
	}
	if currency == "" {
		return tally.Figure(amount)
	}
	return tally.Figure(amount) + " " + currency
}
