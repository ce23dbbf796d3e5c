package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// acceptedEvent is the result of one event.
type acceptedEvent struct {
	ID        string         `json:"id"`
	Started   []startedBy    `json:"started"`
	Delivered []string       `json:"delivered"`
	Refused   []refusedStart `json:"refused,omitempty"`
}

type startedBy struct {
	Definition string `json:"definition"`
	Saga       string `json:"saga"`
}

// refusedStart is a trigger that matched an event but could not start its saga.
type refusedStart struct {
	Definition string         `json:"definition"`
	Trigger    int            `json:"trigger"`
	Errors     []saga.Finding `json:"errors"`
}

// postEvents serves POST /v1/events. It reads all events of a request, and checks the caller's
// permission for each, before it processes the first. If one fails in the middle, the client
// repeats the request; events that were already processed have no second effect.
func (s *server) postEvents(c echo.Context) error {
	events, err := s.readEvents(c)
	if err != nil {
		return err
	}
	ctx, who := c.Request().Context(), callerOf(c)
	recipients := make([]uuid.UUID, len(events))
	for i := range events {
		if err := who.mayPost(events[i].Source); err != nil {
			return err
		}
		if recipients[i], err = s.recipient(ctx, &events[i], who); err != nil {
			return err
		}
	}
	accepted := make([]acceptedEvent, len(events))
	for i := range events {
		if events[i].Traceparent == "" {
			events[i].Traceparent = traceparent(c)
		}
		if accepted[i], err = s.accept(ctx, &events[i], who.name, recipients[i]); err != nil {
			return err
		}
	}
	return reply(c, http.StatusAccepted, struct {
		Accepted []acceptedEvent `json:"accepted"`
	}{accepted})
}

func (s *server) accept(ctx context.Context, e *saga.Event, actor string, recipient uuid.UUID) (acceptedEvent, error) {
	a := acceptedEvent{ID: e.ID, Started: []startedBy{}, Delivered: []string{}}
	started, refused, err := s.triggers.Event(ctx, e, actor)
	if errors.Is(err, saga.ErrUnusable) {
		return a, fail("definition_unusable", "the event %.100q starts sagas of a definition that a newer release has published: send it again, to a server with that release", e.ID)
	} else if err != nil {
		return a, err
	}
	for _, t := range started {
		a.Started = append(a.Started, startedBy{t.Definition, t.Saga.String()})
	}
	for _, r := range refused {
		a.Refused = append(a.Refused, refusedStart{r.Definition, r.Trigger, r.Findings})
	}
	if recipient.IsNil() {
		return a, nil
	}
	err = s.deliver(ctx, e, actor, recipient)
	switch {
	case errors.Is(err, journal.ErrNotFound): // the saga was deleted concurrently
		return a, nil
	case err == nil:
		a.Delivered = append(a.Delivered, recipient.String())
	}
	return a, err
}

// recipient returns the saga that an event's subject names, if it is live and its definition waits
// for a signal with the event's type as its name; otherwise nil. Error: forbidden, if the caller
// may not send the signal to the saga.
func (s *server) recipient(ctx context.Context, e *saga.Event, who caller) (uuid.UUID, error) {
	id, err := uuid.FromString(e.Subject)
	if err != nil || id.String() != e.Subject || id.IsNil() {
		return uuid.Nil, nil //nolint:nilerr // such a subject names no saga
	}
	head, err := s.cfg.Store.Saga(ctx, id)
	if errors.Is(err, journal.ErrNotFound) || err == nil && (!head.EndedAt.IsZero() || strings.HasPrefix(head.Definition, saga.SessionPrefix)) {
		return uuid.Nil, nil
	} else if err != nil {
		return uuid.Nil, err
	}
	def, err := s.cfg.Catalog.Definition(ctx, head.Definition, head.Version)
	if err != nil || !slices.Contains(def.Signals(), e.Type) {
		return uuid.Nil, err
	}
	starter, err := s.starter(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return uuid.Nil, nil
	} else if err != nil {
		return uuid.Nil, err
	}
	if err := who.maySignal(head.Definition, starter, e.Type); err != nil {
		return uuid.Nil, err
	}
	return id, nil
}

// starter reads the name of the caller that started a saga from the first record, so the rest of
// the journal may be unreadable.
func (s *server) starter(ctx context.Context, id uuid.UUID) (string, error) {
	first, err := s.cfg.Store.Records(ctx, id, 0, 1)
	if err != nil || len(first) == 0 {
		return "", err
	}
	started, err := history.Started(first)
	if err != nil {
		return "", fmt.Errorf("saga %s: %w: %w", id, saga.ErrUnreadable, err)
	}
	return started.Starter(), nil
}

// deliver sends an event to a saga as a signal whose name is the event's type. Error:
// journal.ErrNotFound.
func (s *server) deliver(ctx context.Context, e *saga.Event, actor string, id uuid.UUID) error {
	// The message's id is derived from the event, so that a repeated event is the same signal.
	signal := saga.Command{Do: saga.Signal{Name: e.Type, Data: e.Data}, Actor: actor}
	m, err := signal.Message(uuid.NewV5(id, "event:"+url.QueryEscape(e.Source)+":"+e.ID), id)
	if err != nil {
		return err
	}
	return s.cfg.Engine.Send(ctx, m)
}
