package api

import (
	"context"
	"net/http"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// retryView is what retrying an ended saga from a step would do.
type retryView struct {
	Possible bool         `json:"possible"`
	From     string       `json:"from"`
	Reused   []string     `json:"reused"`
	Again    []retryAgain `json:"again"`
	Refused  []obstacle   `json:"refused,omitempty"`
	Retry    string       `json:"retry,omitempty"` // the saga that goes on from a step of it
}

type retryAgain struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// showRetry serves GET /v1/sagas/{id}/retry: what `retry` from a step would do. It changes nothing.
func (s *server) showRetry(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	q, err := readQuery(c, "from")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	l, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	v := retryView{From: q.Get("from"), Reused: []string{}, Again: []retryAgain{}}
	p := l.m.PlanRetry(v.From)
	head, err := s.goingOn(ctx, id)
	if err != nil {
		return err
	}
	if head != nil {
		v.Retry = head.ID.String()
	}
	if wrong := refuseRetry(l); wrong != nil {
		v.Refused = obstacles(nil, wrong)
	} else {
		v.Refused = obstacles(p.Refused, refuseRetryFrom(l, p))
		v.Reused = append(v.Reused, p.Reused...)
		for _, a := range p.Again {
			v.Again = append(v.Again, retryAgain(a))
		}
	}
	v.Possible = v.Refused == nil && head == nil
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, http.StatusOK, v)
}

// goingOn returns the saga that goes on from a step of the one with this id; nil: there is none.
func (s *server) goingOn(ctx context.Context, from uuid.UUID) (*journal.Head, error) {
	return s.startedAs(ctx, journal.RetryKey(from))
}

// refuseRetryFrom returns why no saga can go on from a step of one that has ended; nil: one can.
func refuseRetryFrom(l *live, p machine.RetryPlan) *problem {
	switch {
	case l.archived != nil:
		return fail("saga_archived", "it is in the archive since %s: retry it from its beginning, without `from`", l.archived.At).of(l.id)
	case len(p.Refused) > 0:
		return l.prevented(p.Refused)
	case l.bytes > maxOrigin:
		return fail("retry_too_large", "its journal has %d bytes, and a saga with more than %d is retried only from its beginning, without `from`", l.bytes, maxOrigin).of(l.id)
	}
	return nil
}

// retryFrom starts the saga that goes on from a step of one that has ended, or finds the one that
// was started before.
func (s *server) retryFrom(c echo.Context, l *live, cmd saga.Command) error {
	ctx, wait := c.Request().Context(), s.preferWait(c)
	b := beginning{key: journal.RetryKey(l.id), hash: cmd.Path, def: l.def, wait: wait}
	if head, err := s.goingOn(ctx, l.id); err != nil || head != nil {
		if err != nil {
			return err
		}
		return s.wentOn(c, l, b, head)
	}
	p := l.m.PlanRetry(cmd.Path)
	if wrong := refuseRetryFrom(l, p); wrong != nil {
		return wrong
	}
	was, err := history.Started(l.records)
	if err != nil {
		return err
	}
	data, unique, findings := l.m.BeginRetry(p, l.records, machine.StartOptions{Vars: s.retryVars(was), Budget: l.budget(), Actor: callerOf(c).name, Reason: cmd.Reason, Traceparent: traceparent(c)})
	if findings = append(findings, s.cfg.Catalog.MissingSecrets(l.def)...); len(findings) > 0 {
		return fail("invalid_start", "fix what `errors` names; nothing was started").with(findings...).of(l.id)
	}
	start := journal.Start{Definition: data.Definition, Version: int(data.Version), SHA256: data.SHA256, Key: b.key, Hash: b.hash, Unique: unique, RetryOf: l.id}
	begun, replayed, err := s.launch(ctx, b, start, data)
	if err != nil {
		if head, missing := s.goingOn(ctx, l.id); missing == nil && head != nil {
			return s.wentOn(c, l, b, head) // another request has started it in the meantime
		}
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, wait)
}

// wentOn answers a retry from a step of a saga from which another one goes on already.
func (s *server) wentOn(c echo.Context, l *live, b beginning, head *journal.Head) error {
	if head.Hash != b.hash {
		return fail("already_retried", "saga %s goes on from a step of it already: retry that one instead", head.ID).of(l.id)
	}
	begun, err := s.confirmed(c.Request().Context(), head.ID)
	if err != nil {
		return err
	}
	return s.answerStart(c, begun, true, b.wait)
}
