package api

import (
	"context"
	"errors"
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

// postEvents serves POST /v1/events. All events of a request are read before the first is acted on;
// what was done of one that failed in the middle is not done again when it is repeated.
func (s *server) postEvents(c echo.Context) error {
	events, err := s.readEvents(c)
	if err != nil {
		return err
	}
	ctx, actor := c.Request().Context(), callerOf(c).name
	accepted := make([]acceptedEvent, len(events))
	for i := range events {
		if events[i].Traceparent == "" {
			events[i].Traceparent = traceparent(c)
		}
		if accepted[i], err = s.accept(ctx, &events[i], actor); err != nil {
			return err
		}
	}
	return reply(c, http.StatusAccepted, struct {
		Accepted []acceptedEvent `json:"accepted"`
	}{accepted})
}

func (s *server) accept(ctx context.Context, e *saga.Event, actor string) (acceptedEvent, error) {
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
	id, err := s.deliver(ctx, e, actor)
	if err == nil && !id.IsNil() {
		a.Delivered = append(a.Delivered, id.String())
	}
	return a, err
}

// deliver leaves an event whose subject is a saga to it, as a signal that is called as the event's type is. It returns the
// saga; none when there is none that lives and waits for such signals.
func (s *server) deliver(ctx context.Context, e *saga.Event, actor string) (uuid.UUID, error) {
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
	if err != nil {
		return uuid.Nil, err
	}
	if !slices.Contains(def.Signals(), e.Type) {
		return uuid.Nil, nil
	}
	// The message's id is made of the event, so that the event is one signal however often it comes.
	signal := saga.Command{Do: "signal", Name: e.Type, Data: e.Data, Actor: actor}
	m, err := signal.Mail(uuid.NewV5(id, "event:"+url.QueryEscape(e.Source)+":"+e.ID), id)
	if err != nil {
		return uuid.Nil, err
	}
	err = s.cfg.Engine.Post(ctx, m)
	if errors.Is(err, journal.ErrNotFound) {
		return uuid.Nil, nil // it was deleted just now
	}
	return id, err
}
