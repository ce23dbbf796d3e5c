package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// getSaga serves GET /v1/sagas/{id}. With `Prefer: wait` it waits for the end of the saga. With
// If-None-Match as well, it waits until the saga's ETag is another.
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
	l, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	if wait > 0 {
		holds := l.ended
		if c.Request().Header.Get("If-None-Match") != "" {
			holds = func() bool { return !l.unchanged(c) || l.ended() }
		}
		if _, err := l.await(ctx, wait, holds); err != nil {
			return err
		}
	}
	if l.unchanged(c) {
		return l.notModified(c)
	}
	return l.answer(c, http.StatusOK)
}

// unchanged reports whether the client has the saga as it is, by the request's If-None-Match.
func (l *live) unchanged(c echo.Context) bool {
	known := c.Request().Header.Get("If-None-Match")
	return known != "" && matches(known, strconv.FormatInt(l.m.Seq(), 10))
}

func (l *live) notModified(c echo.Context) error {
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return c.NoContent(http.StatusNotModified)
}

// deleteSaga serves DELETE /v1/sagas/{id}.
func (s *server) deleteSaga(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if err := s.mayDelete(c.Request().Context(), id); err != nil {
		return err
	}
	if err := s.cfg.Store.Delete(c.Request().Context(), id); err != nil {
		return sagaError(id, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// headView returns a saga as lists show it: from its row, without input and output. The row may be
// one step older than the journal.
func headView(h journal.Head) (machine.View, error) {
	sum, err := saga.ReadSummary(h.Summary)
	if err != nil {
		return machine.View{}, fmt.Errorf("saga %s: %w: summary: %w", h.ID, saga.ErrUnreadable, err)
	}
	v := machine.View{
		ID: h.ID.String(), Definition: h.Definition, Version: versionName(h.Version), SHA256: h.SHA256,
		Status: saga.Status(h.Status), Reason: sum.Reason, Labels: h.Labels, Cost: sum.Cost, Residual: sum.Residual, Doubts: sum.Doubts,
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
	if !h.ForkedFrom.IsNil() {
		v.ForkedFrom = h.ForkedFrom.String()
	}
	if of := h.UndoOf(); !of.IsNil() {
		v.UndoOf = of.String()
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
