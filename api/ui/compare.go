package ui

import (
	"strconv"
	"time"

	"recourse/api/rest"
	"recourse/api/ui/format"
	"recourse/saga"
	"recourse/saga/compare"
)

// axis is the width of the bars' common axis, in the units of its picture.
const axis = 1000

// compareView is the comparison of two sagas on a page.
type compareView struct {
	compare.Result
	Rows []comparedRow
	Axis string // how long the axis is
	All  bool   // the steps that are the same are listed, too
}

// Sagas lists the two.
func (c *compareView) Sagas() []compare.Saga { return []compare.Saga{c.Here, c.There} }

// Counts says how many steps have each verdict that occurs.
func (c *compareView) Counts() (list []string) {
	for _, verdict := range compare.Verdicts {
		if n := c.Count[verdict]; n > 0 {
			list = append(list, strconv.Itoa(n)+" "+string(verdict)+".")
		}
	}
	return list
}

// comparedRow is a step with its bars: Here and There begin at the start of their own sagas.
type comparedRow struct {
	compare.Step
	HereBar, ThereBar *bar
}

// bar is a stretch of the axis.
type bar struct{ From, Width int }

// showCompare serves GET /sagas/{id}/compare/{other}.
func showCompare(v *request) error {
	v.still = true
	page := compareView{All: v.r.URL.Query().Has("all")}
	id, other := v.r.PathValue("id"), v.r.PathValue("other")
	if _, err := v.api.Get(rest.Path("v1", "sagas", id, "compare", other), &page.Result); err != nil {
		return err
	}
	most := time.Millisecond // sagas may begin and end within the same one
	for _, s := range page.Steps {
		most = max(most, ended(s.Here, page.Here.CreatedAt), ended(s.There, page.There.CreatedAt))
	}
	page.Axis = format.Took(most)
	for _, s := range page.Steps {
		if s.Verdict != compare.Same || page.All {
			page.Rows = append(page.Rows, comparedRow{s, barOf(s.Here, page.Here.CreatedAt, most), barOf(s.There, page.There.CreatedAt, most)})
		}
	}
	return v.render("saga-compare", "Comparison of "+format.Short(page.Here.ID)+" and "+format.Short(page.There.ID), &page)
}

// ended returns how long after its saga's start a step has ended, or began if it has not.
func ended(s *compare.Side, start saga.Time) time.Duration {
	switch {
	case s == nil || s.StartedAt == nil:
		return 0
	case s.EndedAt == nil:
		return s.StartedAt.Sub(start.Time)
	}
	return s.EndedAt.Sub(start.Time)
}

// barOf returns the bar of a step; nil if it has sent nothing.
func barOf(s *compare.Side, start saga.Time, most time.Duration) *bar {
	if s == nil || s.StartedAt == nil {
		return nil
	}
	// In milliseconds, because months in nanoseconds times the axis exceed 64 bits.
	at := func(d time.Duration) int { return int(d.Milliseconds() * axis / most.Milliseconds()) }
	from, to := at(s.StartedAt.Sub(start.Time)), at(ended(s, start))
	return &bar{From: from, Width: max(to-from, 4)}
}
