package ui

import (
	"context"
	"net/url"
	"slices"
	"time"

	"recourse/api/rest"
	"recourse/api/ui/costs"
	"recourse/internal/costs/tally"
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
	Totals   []costs.Total
	Days     []costs.Chart
	Groups   []tally.Group  // groups by definition
	Spreads  []costs.Spread // the distribution for one definition
	Outliers []costs.Outlier
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

var windows = []period{{"24h", "the last 24 hours"}, {"168h", "the last 7 days"}, {"720h", "the last 30 days"}, {"2160h", "the last 90 days"}}

// longest is the longest period of the page, which has a bar for each of its days.
const longest = 366 * 24 * time.Hour

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
	if err != nil || window <= 0 || window > longest {
		return &rest.Problem{Status: 400, Title: "No such period", Detail: "choose one from the page, or write hours, such as within=48h, of at most one year"}
	}
	ask := url.Values{"since": {from(v.cfg.Now(), window).Format(time.RFC3339)}}
	if page.Definition != "" {
		ask.Set("definition", page.Definition)
	}
	var days, groups, models costsAnswer
	for by, into := range map[string]*costsAnswer{"day": &days, "definition": &groups, "model": &models} {
		ask.Set("group_by", by)
		if _, err := v.api.Get("/v1/costs?"+ask.Encode(), into); err != nil {
			return err
		}
	}
	page.Since, page.Complete, page.Sagas = days.Since, days.Complete, days.Sagas
	page.Totals = costs.Totals(days.Groups)
	page.Days = costs.Days(days.Groups, days.Since.Time, days.Until.Time)
	page.Groups, page.Models = groups.Groups, models.Groups
	for _, g := range groups.Groups {
		if len(g.Buckets) > 0 {
			page.Spreads = append(page.Spreads, costs.SpreadOf(g))
		}
	}
	page.Outliers = costs.Outliers(groups.Groups)
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
