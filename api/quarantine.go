package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// orQuarantined runs f, which reads a saga. If f fails or panics because the saga cannot be read,
// and the saga is in quarantine, it runs instead with the saga's row.
func (s *server) orQuarantined(ctx context.Context, id uuid.UUID, f func() error, instead func(journal.Head) error) error {
	err := recovered(id, f)
	if !unreadable(err) {
		return err
	}
	h, headErr := s.cfg.Store.Saga(ctx, id)
	if headErr != nil || !h.Quarantined() {
		return err
	}
	s.log.Debug("a saga in quarantine cannot be read", "saga", id, "error", err)
	return instead(h)
}

// recovered runs f and returns a panic as an error.
func recovered(id uuid.UUID, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if e, ok := v.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(v)
			}
			err = fmt.Errorf("saga %s: %w: %w", id, errPoison, panicked(v))
		}
	}()
	return f()
}

var errPoison = errors.New("the program panics when it reads it")

func unreadable(err error) bool {
	for _, e := range []error{saga.ErrUnusable, saga.ErrUnreadable, machine.ErrImpossible, journal.ErrBroken, errPoison} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// answerHead responds with the row of a saga in quarantine whose journal cannot be read.
func (s *server) answerHead(c echo.Context, status int, h journal.Head) error {
	v, err := headView(h)
	if err != nil {
		return err
	}
	if v.Open, err = s.open(c.Request().Context(), h.ID); err != nil {
		return err
	}
	c.Response().Header().Set("ETag", seqTag(h.Seq))
	return reply(c, status, v)
}

// open returns the ids of a saga's inbox entries.
func (s *server) open(ctx context.Context, id uuid.UUID) (ids []string, err error) {
	list, err := s.cfg.Store.Inbox(ctx, journal.InboxFilter{Saga: id})
	for _, e := range list {
		ids = append(ids, e.ID.String())
	}
	return ids, err
}

// view returns the saga as its journal has it, and marks it as stuck if it is in quarantine, which
// journals do not record.
func (l *live) view(ctx context.Context) (machine.View, error) {
	v := l.m.View()
	v.Archived = l.archived
	in, err := l.quarantined(ctx)
	if err != nil || !in {
		return v, err
	}
	v.Status, v.WakeAt = saga.Stuck, nil
	v.Open, err = l.s.open(ctx, l.id)
	return v, err
}

func (l *live) quarantined(ctx context.Context) (bool, error) {
	if l.ended() {
		return false, nil
	}
	h, err := l.s.cfg.Store.Saga(ctx, l.id)
	if err != nil {
		return false, sagaError(l.id, err)
	}
	return h.Quarantined(), nil
}

// wakes reports whether a refused command has its effect nevertheless: any message makes the engine
// retry a saga in quarantine once more, and that is the purpose of `resume`.
func (l *live) wakes(ctx context.Context, cmd saga.Command, err error) bool {
	var no *machine.Refusal
	if _, resumes := cmd.Do.(saga.Resume); !resumes || !errors.As(err, &no) || no.Code != notPaused {
		return false
	}
	in, err := l.quarantined(ctx)
	return err == nil && in
}

const notPaused = "not_paused"

// commandUnread sends a command to a saga that this server cannot read. Another server may.
func (s *server) commandUnread(c echo.Context, h journal.Head, cmd saga.Command) error {
	cmd.Actor = callerOf(c).name
	m, err := s.messageOf(h.ID, cmd)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.Send(c.Request().Context(), m); err != nil {
		return sagaError(h.ID, err)
	}
	if what := stopping(cmd.Do); what != "" {
		return unreadYet(what).of(h.ID)
	}
	markUnread(c)
	return s.answerHead(c, http.StatusAccepted, h)
}
