package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// stalledView is the response for one stall.
type stalledView struct {
	ID         string    `json:"id"`
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Version    string    `json:"version"`
	Kind       string    `json:"kind"`
	Path       string    `json:"path"` // "": the saga itself
	Since      saga.Time `json:"since"`
	Why        string    `json:"why"`
}

// listStalled serves GET /v1/stalled, the oldest first.
func (s *server) listStalled(c echo.Context) error {
	q, err := readQuery(c, "kind", "saga", "limit", "cursor")
	if err != nil {
		return err
	}
	if err := s.wholeSaga(c.Request().Context(), q); err != nil {
		return err
	}
	f := q.stallFilter()
	limit := f.Limit
	f.Limit++
	if err := q.err(); err != nil {
		return err
	}
	list, err := s.cfg.Store.ListStalls(c.Request().Context(), f)
	if err != nil {
		return err
	}
	views := make([]stalledView, len(list))
	for i, f := range list {
		views[i] = stalledView{ID: f.ID.String(), Saga: f.Saga.String(), Definition: f.Definition, Version: saga.Version(f.Version).String(),
			Kind: f.Kind, Path: f.Path, Since: saga.Time{Time: f.Since}, Why: f.Why}
	}
	return reply(c, http.StatusOK, cut(views, limit, func(last stalledView) string {
		return pack("stalled", strconv.FormatInt(last.Since.UnixMilli(), 10), last.ID)
	}))
}

func (q *query) stallFilter() journal.StallFilter {
	f := journal.StallFilter{Kind: q.Get("kind"), Limit: q.limit()}
	if kinds := slices.Concat(journal.SagaStalls, journal.StepStalls); q.Has("kind") && !slices.Contains(kinds, f.Kind) {
		q.bad("kind", "bad_kind", "there is no kind %.30q of stall; there are %s", f.Kind, strings.Join(kinds, ", "))
	}
	f.Saga = q.saga()
	since, id := q.place("stalled")
	f.After = journal.Stall{ID: id, Since: since}
	return f
}
