package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// maxOrigin is how large the data of a saga's records may be, in bytes, so that another saga can
// undo it after its end, or go on from one of its steps: that saga has a copy of them.
const maxOrigin = 16 << 20

// undoView is what undoing a saga would do.
type undoView struct {
	Possible bool                   `json:"possible"`
	Live     bool                   `json:"live,omitempty"`  // it has not ended, and is undone itself
	Until    *saga.Time             `json:"until,omitempty"` // absent: for a live saga, or if nothing is to be undone
	Steps    []undoStep             `json:"steps"`
	Stays    []compensation.Residue `json:"stays"`
	Refused  []obstacle             `json:"refused,omitempty"`
	Undo     string                 `json:"undo,omitempty"` // the saga that undoes it, or has undone it
}

type undoStep struct {
	Path    string        `json:"path"`
	Kind    string        `json:"kind"`
	Use     string        `json:"use,omitempty"`
	Until   *saga.Time    `json:"until,omitempty"`
	Request *saga.Request `json:"request,omitempty"`
	Key     string        `json:"key,omitempty"`
	Note    string        `json:"note,omitempty"`
}

// obstacle says why an ended saga is not undone, or not retried from a step.
type obstacle struct {
	Path   string `json:"path,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// showUndo serves GET /v1/sagas/{id}/undo: what `compensate` would do. It changes nothing.
func (s *server) showUndo(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if _, err := readQuery(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	l, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	v, err := s.undoOf(ctx, l)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, http.StatusOK, v)
}

func (s *server) undoOf(ctx context.Context, l *live) (undoView, error) {
	v := undoView{Steps: []undoStep{}, Stays: []compensation.Residue{}}
	if !l.ended() {
		v.Live = true
		if _, err := l.m.Validate(uuid.Nil, saga.Command{Do: saga.Compensate{}}); err != nil {
			p := asProblem(err)
			v.Refused = []obstacle{{Code: strings.TrimPrefix(p.Type, problemType), Detail: p.Title}}
			return v, nil
		}
		v.Possible = true
		undo, left := l.m.Undoable(true)
		for _, path := range undo {
			v.Steps = append(v.Steps, undoStep{Path: path, Kind: l.m.StepKind(path, journal.Undo)})
		}
		v.Stays = append(v.Stays, left...)
		return v, nil
	}
	head, err := s.undoing(ctx, l.id)
	if err != nil {
		return v, err
	}
	if head != nil {
		v.Undo = head.ID.String()
	}
	p := l.m.PlanUndo(s.cfg.Engine.Now())
	v.Refused = obstacles(p.Refused, s.refuseUndo(l, p))
	v.Possible = v.Refused == nil && head == nil
	v.Until = instant(p.Until)
	v.Stays = append(v.Stays, p.Stays...)
	for _, step := range p.Steps {
		v.Steps = append(v.Steps, undoStep{Path: step.Path, Kind: step.Kind, Use: step.Use, Until: instant(step.Until), Request: step.Request, Key: step.Key, Note: step.Note})
	}
	return v, nil
}

// obstacles lists what a plan names, or else why the API refuses it; nil: nothing prevents it.
func obstacles(planned []machine.Obstacle, wrong *problem) (list []obstacle) {
	for _, r := range planned {
		list = append(list, obstacle(r))
	}
	if list == nil && wrong != nil {
		list = []obstacle{{Code: strings.TrimPrefix(wrong.Type, problemType), Detail: wrong.Detail}}
	}
	return list
}

// undoing returns the saga that undoes the one with this id; nil: there is none.
func (s *server) undoing(ctx context.Context, of uuid.UUID) (*journal.Head, error) {
	return s.startedAs(ctx, journal.UndoKey(of))
}

// refuseUndo returns why a saga that has ended cannot be undone; nil: it can be.
func (s *server) refuseUndo(l *live, p machine.UndoPlan) *problem {
	switch {
	case l.archived != nil:
		return fail("saga_archived", "it is in the archive since %s, where nothing changes it: undo its effects by hand", l.archived.At).of(l.id)
	case len(p.Refused) > 0:
		return l.prevented(p.Refused)
	case l.bytes > maxOrigin:
		return fail("undo_too_large", "its journal has %d bytes, and a saga with more than %d is not undone after its end: undo its effects by hand", l.bytes, maxOrigin).of(l.id)
	}
	return nil
}

// prevented returns the problem for what prevents an undo or a retry.
func (l *live) prevented(by []machine.Obstacle) *problem {
	first := by[0]
	wrong := fail(code(first.Code), "%s", first.Text()).of(l.id).at(first.Path)
	for _, r := range by {
		wrong.Errors = append(wrong.Errors, saga.Finding{Code: r.Code, Detail: r.Text()})
	}
	return wrong
}

// undoEnded starts the saga that undoes one that has succeeded, or finds the one that was started
// before.
func (s *server) undoEnded(c echo.Context, l *live, cmd saga.Command) error {
	wait := s.preferWait(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait+s.cfg.Limits.Request)
	defer cancel()
	if head, err := s.undoing(ctx, l.id); err != nil || head != nil {
		if err != nil {
			return err
		}
		begun, err := s.confirmed(ctx, head.ID)
		if err != nil {
			return err
		}
		return s.answerStart(c, begun, true, wait)
	}
	if cmd.IfSeq != 0 && cmd.IfSeq != l.m.Seq() {
		return fail("changed", "its seq is %d, not %d: read it again, then decide", l.m.Seq(), cmd.IfSeq).of(l.id)
	}
	if wrong := s.refuseUndo(l, l.m.PlanUndo(s.cfg.Engine.Now())); wrong != nil {
		return wrong
	}
	if missing := s.cfg.Catalog.MissingSecrets(l.def); len(missing) > 0 {
		return fail("invalid_start", "fix what `errors` names; nothing was started").with(missing...).of(l.id)
	}
	data := machine.BeginUndo(l.m, l.records, machine.StartOptions{Actor: callerOf(c).name, Reason: cmd.Reason, Traceparent: traceparent(c)})
	b := beginning{key: journal.UndoKey(l.id), def: l.def, wait: wait}
	start := journal.Start{Definition: data.Definition, Version: int(data.Version), SHA256: data.SHA256, Key: b.key}
	begun, replayed, err := s.launch(ctx, b, start, data)
	if errors.Is(err, machine.ErrTooLate) { // since the check, the window has ended
		return s.refuseUndo(l, l.m.PlanUndo(l.m.UndoUntil()))
	}
	if err != nil {
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, wait)
}

// mayDelete refuses to delete a saga that undoes another one, or goes on from it, which could then
// be undone, or taken over, a second time.
func (s *server) mayDelete(ctx context.Context, id uuid.UUID) error {
	head, err := s.cfg.Store.Saga(ctx, id)
	of, wrong := head.UndoOf(), "undo_kept"
	does := "undoes saga %s, which could be undone a second time without it"
	if of.IsNil() {
		of, wrong = head.GoesOnFrom(), "retry_kept"
		does = "goes on from a step of saga %s, which could be retried from a step a second time without it"
	}
	switch {
	case errors.Is(err, journal.ErrNotFound): // the deletion will say so
		return nil
	case err != nil:
		return fmt.Errorf("saga %s: %w", id, err)
	case of.IsNil():
		return nil
	}
	switch _, err := s.cfg.Store.Saga(ctx, of); {
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("saga %s: %w", of, err)
	}
	return fail(code(wrong), "it "+does+": delete that saga first", of).of(id)
}
