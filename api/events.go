package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// acceptedEvent says what became of an event.
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

// refusedStart is a trigger that meant an event and could not start its saga.
type refusedStart struct {
	Definition string         `json:"definition"`
	Trigger    int            `json:"trigger"`
	Errors     []saga.Finding `json:"errors"`
}

// postEvents serves POST /v1/events. All events of a request are read, and the caller's right to
// each is checked, before the first is acted on; what was done of one that failed in the middle is
// not done again when it is repeated.
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
	if err != nil {
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
	case errors.Is(err, journal.ErrNotFound): // it was deleted just now
		return a, nil
	case err == nil:
		a.Delivered = append(a.Delivered, recipient.String())
	}
	return a, err
}

// recipient is the saga that an event's subject names, if it lives and waits for signals that are
// called as the event's type is; none else. Errors: forbidden, if the caller may not send it that
// signal.
func (s *server) recipient(ctx context.Context, e *saga.Event, who caller) (uuid.UUID, error) {
	id, err := uuid.FromString(e.Subject)
	if err != nil || id.String() != e.Subject || id.IsNil() {
		return uuid.Nil, nil
	}
	head, err := s.cfg.Store.Saga(ctx, id)
	if errors.Is(err, journal.ErrNotFound) || err == nil && !head.EndedAt.IsZero() {
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

// starter reads from a saga's first record who has started it, even if the rest cannot be read.
func (s *server) starter(ctx context.Context, id uuid.UUID) (string, error) {
	first, err := s.cfg.Store.Records(ctx, id, 0, 1)
	if err != nil || len(first) == 0 {
		return "", err
	}
	var started saga.StartedData
	if err := json.Unmarshal(first[0].Data, &started); err != nil {
		return "", fmt.Errorf("saga %s: %w: %w", id, saga.ErrUnreadable, err)
	}
	return started.Starter(), nil
}

// deliver leaves an event to a saga, as a signal that is called as the event's type is.
// journal.ErrNotFound.
func (s *server) deliver(ctx context.Context, e *saga.Event, actor string, id uuid.UUID) error {
	// The message's id is made of the event, so that the event is one signal however often it
	// comes.
	signal := saga.Command{Kind: "signal", Name: e.Type, Data: e.Data, Actor: actor}
	m, err := signal.Message(uuid.NewV5(id, "event:"+url.QueryEscape(e.Source)+":"+e.ID), id)
	if err != nil {
		return err
	}
	return s.cfg.Engine.Send(ctx, m)
}
