package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/internal/costs/tally"
	"recourse/journal"
	"recourse/saga"
)

const (
	defaultWindow = 7 * 24 * time.Hour
	costsPage     = 2000 // sagas per read of the store
	mostGroups    = 1000
)

// costsView is the response of GET /v1/costs.
type costsView struct {
	GroupBy  string        `json:"group_by"`
	Since    saga.Time     `json:"since"` // sagas started at this time or later are counted
	Until    saga.Time     `json:"until"`
	Complete bool          `json:"complete"` // false: there are too many sagas, and since is later than requested
	Sagas    int           `json:"sagas"`
	Groups   []tally.Group `json:"groups"`
	LeftOut  int           `json:"left_out,omitempty"` // number of omitted groups, which are the cheapest
}

// costsQuery holds the parameters of a request for costs.
type costsQuery struct {
	by           tally.By
	definition   string
	since, until time.Time
	before       uuid.UUID // only sagas with smaller ids are counted; nil: all
}

// countedTogether are groupings that one pass counts together: clients that ask for one of them,
// such as the web UI, usually ask for the others next.
var countedTogether = []tally.By{tally.ByDefinition, tally.ByDay, tally.ByModel}

// costs serves GET /v1/costs.
func (s *server) costs(c echo.Context) error {
	q, err := readQuery(c, "group_by", "definition", "since", "until")
	if err != nil {
		return err
	}
	asked := q.costs(s.cfg.Engine.Now())
	if err := q.err(); err != nil {
		return err
	}
	by := []tally.By{asked.by}
	if slices.Contains(countedTogether, asked.by) {
		by = countedTogether
		q.Del("group_by")
	}
	ctx := c.Request().Context()
	views, err := s.spent.views(ctx, q.Encode(), s.cfg.Engine.Now, s.cfg.Limits.Costs, func() (costsViews, error) { return s.sumCosts(ctx, asked, by) })
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, views[asked.by])
}

func (q *query) costs(now time.Time) costsQuery {
	a := costsQuery{by: tally.ByDefinition, definition: q.Get("definition"), until: q.moment("until", now)}
	if q.Has("until") {
		a.before = journal.FirstID(a.until)
	}
	a.since = q.moment("since", a.until.Add(-defaultWindow))
	if q.Has("group_by") {
		a.by = tally.By(q.Get("group_by"))
	}
	label, labelled := a.by.Label()
	switch {
	case labelled && labelForm.MatchString(label), slices.Contains(countedTogether, a.by):
	default:
		q.bad("group_by", "bad_group", "group_by is definition, day, model, or label. and a label's name, such as label.tier")
	}
	if !a.since.Before(a.until) {
		q.bad("since", "bad_window", "since must be before until, and before now")
	}
	return a
}

// moment returns a parameter that is a time; def if it is absent.
func (q *query) moment(name string, def time.Time) time.Time {
	if !q.Has(name) {
		return def
	}
	at, err := time.Parse(time.RFC3339Nano, q.Get(name))
	// An offset can lead to such a year, and clients cannot parse the result.
	if year := at.UTC().Year(); err != nil || year < 0 || year > 9999 {
		q.bad(name, "bad_time", "%s is a time such as 2026-11-21T08:00:00Z; write + as %%2B", name)
	}
	return at
}

// sumCosts reads the sagas of the window, newest first, up to the limit, and sums their costs by
// several groupings.
func (s *server) sumCosts(ctx context.Context, q costsQuery, by []tally.By) (costsViews, error) {
	v := costsView{Since: saga.Time{Time: q.since}, Until: saga.Time{Time: q.until}, Complete: true}
	tallies := make([]*tally.Tally, len(by))
	for i := range by {
		tallies[i] = tally.New(by[i])
	}
	f := journal.CostFilter{Definition: q.definition, From: journal.FirstID(q.since), Before: q.before}
	for more := true; more && v.Complete; {
		left := s.cfg.Limits.CostSagas - v.Sagas
		f.Limit = min(costsPage, left+1)
		page, err := s.cfg.Store.Costs(ctx, f)
		if err != nil {
			return nil, err
		}
		more = len(page) == f.Limit
		if len(page) > left {
			page, v.Complete = page[:left], false
		}
		for _, c := range page {
			if err := tally.Add(c, tallies...); err != nil {
				return nil, err
			}
			f.Before, v.Since.Time = c.ID, c.CreatedAt
		}
		v.Sagas += len(page)
	}
	if v.Complete {
		v.Since.Time = q.since
	}
	views := make(costsViews, len(by))
	for i, t := range tallies {
		v.GroupBy = string(by[i])
		v.Groups, v.LeftOut = t.Groups(mostGroups, by[i] == tally.ByDefinition && q.definition != "")
		views[by[i]] = v
	}
	return views, nil
}
