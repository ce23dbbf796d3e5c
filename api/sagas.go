package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// getSaga serves GET /v1/sagas/{id}. With `Prefer: wait` it waits for the end, or,
// with If-None-Match, until the saga is not what the client has.
func (s *server) getSaga(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if _, err := readQuery(c); err != nil {
		return err
	}
	wait := s.preferWait(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait+s.cfg.Limits.Request)
	defer cancel()
	return s.orQuarantined(ctx, id, func() error { return s.readSaga(ctx, c, id, wait) },
		func(h journal.Head) error { return s.answerHead(c, http.StatusOK, h) })
}

func (s *server) readSaga(ctx context.Context, c echo.Context, id uuid.UUID, wait time.Duration) error {
	l, err := s.load(ctx, id)
	if err != nil {
		return err
	}
	known := c.Request().Header.Get("If-None-Match")
	same := func() bool { return known != "" && matches(known, fmt.Sprint(l.m.Seq())) }
	if wait > 0 {
		holds := l.ended
		if known != "" {
			holds = func() bool { return !same() || l.ended() }
		}
		if _, err := l.await(ctx, wait, holds); err != nil {
			return err
		}
	}
	if same() {
		c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
		return c.NoContent(http.StatusNotModified)
	}
	return l.answer(c, http.StatusOK)
}

// deleteSaga serves DELETE /v1/sagas/{id}.
func (s *server) deleteSaga(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.Delete(c.Request().Context(), id); err != nil {
		return sagaError(id, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// statuses are what the status filter may name.
var statuses = []string{
	string(saga.Running), string(saga.Waiting), string(saga.PausedStatus), string(saga.Undoing), string(saga.Stuck),
	string(saga.Succeeded), string(saga.Compensated), string(saga.Failed),
}

// listSagas serves GET /v1/sagas.
func (s *server) listSagas(c echo.Context) error {
	q, err := readQuery(c, "definition", "*status", "label.", "started_after", "q", "limit", "cursor")
	if err != nil {
		return err
	}
	f := q.filter()
	limit := f.Limit
	f.Limit++
	if err := q.err(); err != nil {
		return err
	}
	heads, err := s.cfg.Store.Sagas(c.Request().Context(), f)
	if err != nil {
		return err
	}
	views := make([]saga.View, len(heads))
	for i, h := range heads {
		if views[i], err = headView(h); err != nil {
			return err
		}
	}
	return reply(c, http.StatusOK, cut(views, limit, func(last saga.View) string { return pack("sagas", last.ID) }))
}

func (q *query) filter() journal.Filter {
	f := journal.Filter{Definition: q.Get("definition"), Text: q.Get("q"), Limit: q.limit()}
	for _, list := range q.Values["status"] {
		for _, word := range strings.Split(list, ",") {
			if !slices.Contains(statuses, word) {
				q.bad("status", "bad_status", "there is no status %.30q; there are %s", word, strings.Join(statuses, ", "))
			}
			f.Status = append(f.Status, word)
		}
	}
	for _, name := range sortedKeys(q.Values) {
		if label, ok := strings.CutPrefix(name, "label."); ok {
			if f.Labels == nil {
				f.Labels = map[string]string{}
			}
			f.Labels[label] = q.Get(name)
		}
	}
	if q.Has("started_after") {
		at, err := time.Parse(time.RFC3339Nano, q.Get("started_after"))
		if err != nil {
			q.bad("started_after", "bad_time", "started_after is a time such as 2026-11-21T08:00:00Z; write + as %%2B")
		}
		f.StartedAfter = at
	}
	if parts := q.cursor("sagas", 1); parts != nil {
		before, err := uuid.FromString(parts[0])
		if err != nil {
			q.bad("cursor", "bad_cursor", "use next_cursor as it came")
		}
		f.Before = before
	}
	return f
}

// headView is a saga as lists show it: from its row, without input and output. It may
// lag the journal by a step.
func headView(h journal.Head) (saga.View, error) {
	var sum saga.Summary
	if len(h.Summary) > 0 {
		if err := json.Unmarshal(h.Summary, &sum); err != nil {
			return saga.View{}, fmt.Errorf("saga %s: %w: summary: %w", h.ID, saga.ErrUnreadable, err)
		}
	}
	v := saga.View{
		ID: h.ID.String(), Definition: h.Definition, Version: versionName(h.Version), SHA256: h.SHA256,
		Status: saga.Status(h.Status), Reason: sum.Reason, Labels: h.Labels, Cost: sum.Cost, Residual: sum.Residual,
		CreatedAt: saga.Time{Time: h.CreatedAt}, UpdatedAt: saga.Time{Time: h.UpdatedAt}, Seq: h.Seq,
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	if !h.Parent.IsNil() {
		v.Parent = h.Parent.String()
	}
	if !h.RetryOf.IsNil() {
		v.RetryOf = h.RetryOf.String()
	}
	if v.Status == saga.Waiting && !h.WakeAt.IsZero() {
		v.WakeAt = &saga.Time{Time: h.WakeAt}
	}
	if !h.EndedAt.IsZero() {
		v.EndedAt = &saga.Time{Time: h.EndedAt}
	}
	return v, nil
}

func versionName(n int) string { return fmt.Sprintf("v%d", n) }
