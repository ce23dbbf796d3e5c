package api

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

// The decisions about an own step that is begun.
const (
	decideGo     = "go"     // the process does the step
	decideReplay = "replay" // the step has ended: the response has its result
)

// begunView is the response to the begin of an own step.
type begunView struct {
	Decision string `json:"decision"`
	machine.OwnView
}

var stepID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// beginStep serves POST /v1/sessions/{id}/steps.
func (s *server) beginStep(c echo.Context) error {
	o, err := s.readObject(c, "id", "input", "effect", "compensate", "in_doubt", "reserve")
	if err != nil {
		return err
	}
	begin := saga.BeginStep{ID: o.str("id"), Input: o.raw("input"), OwnData: saga.OwnData{Effect: saga.OwnEffect(o.str("effect")), InDoubt: saga.Policy(o.str("in_doubt")),
		Reserve: o.decimal("reserve"), Compensate: o.undo()}}
	if !stepID.MatchString(begin.ID) {
		o.bad("/id", "bad_id", "id names the step in its session: 1 to 100 letters, digits, - or _")
	} else if _, query := saga.SplitQuery(saga.OwnPrefix + begin.ID); query { // own.verify
		o.bad("/id", "bad_id", "the id verify is reserved: choose another one, such as verify-1")
	}
	switch begin.Effect {
	case saga.NoEffect, saga.Undoable, saga.Irreversible:
	default:
		o.bad("/effect", "bad_field", "effect says what the step changes outside: none, undoable or irreversible")
	}
	if p := begin.InDoubt; p != "" && p != saga.RetrySame && p != saga.Ask {
		o.bad("/in_doubt", "bad_field", "in_doubt is retry (a later life may do the step again) or ask (a person decides)")
	}
	if begin.Compensate != nil && begin.Effect != saga.Undoable {
		o.bad("/compensate", "bad_field", "compensate goes with the effect undoable")
	}
	if len(begin.Input) > maxCallInput {
		o.bad("/input", "too_long", "an input has at most %d bytes: store it elsewhere, and send a reference", maxCallInput)
	}
	if err := o.err(); err != nil {
		return err
	}
	if begin.Request, err = idempotencyKey(c); err != nil {
		return err
	}
	_, begin.Request, _ = strings.Cut(begin.Request, ":") // without the caller: the session has only one
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	begin.Life = l.number
	l.asksFor(saga.OwnPrefix + begin.ID)
	if _, err := l.ask(c, saga.Command{Do: begin}); err != nil {
		return err
	}
	// The attempt begins with its intent, which almost always is in the same commit.
	begun, err := l.awaitShared(c, s.cfg.Limits.Command, func() bool { return l.m.OwnBegun(begin.ID) })
	if err != nil {
		return err
	}
	v, err := l.ownView(begin.ID)
	if !begun || err != nil {
		return fail("unavailable", "it is not certain that the step was begun: send the same request again").of(l.id).after(1)
	}
	if v.Status == machine.CallRunning {
		return reply(c, http.StatusCreated, begunView{decideGo, v})
	}
	l.gets(c, v.Path, v.Status)
	return reply(c, http.StatusOK, begunView{decideReplay, v})
}

// undo reads the field compensate: {use, with, undo_within}; nil: it is absent.
func (o *object) undo() *saga.OwnUndo {
	raw := o.raw("compensate")
	if raw == nil || string(raw) == "null" {
		return nil
	}
	in := &object{}
	if err := in.parse(raw, "/compensate", []string{"use", "with", "undo_within"}); err != nil {
		o.wrong = append(o.wrong, asProblem(err).Errors...)
		return nil
	}
	u := &saga.OwnUndo{Use: in.str("use"), With: in.raw("with")}
	if u.Use == "" {
		in.bad("/use", "missing_field", "use names an action of the session, which undoes the step")
	}
	if len(u.With) > maxCallInput {
		in.bad("/with", "too_long", "an input has at most %d bytes: store it elsewhere, and send a reference", maxCallInput)
	}
	if text := in.str("undo_within"); text != "" {
		within, err := dsl.ParseDuration(text)
		switch {
		case err != nil:
			in.bad("/undo_within", "bad_duration", "undo_within is how long after the step a committed session may be undone: %v", err)
		case within < time.Millisecond:
			in.bad("/undo_within", "bad_duration", "undo_within is at least 1ms: leave it out if the step is not to be undone once the session is committed")
		}
		u.UndoWithin = within.Milliseconds()
	}
	o.adopt(in, "/compensate")
	return u
}

// finishStep serves POST /v1/sessions/{id}/steps/{id}/finish.
func (s *server) finishStep(c echo.Context) error {
	o, err := s.readObject(c, "attempt", "status", "output", "error", "cost", "compensate")
	if err != nil {
		return err
	}
	finish := saga.FinishStep{ID: param(c, "step"), Status: saga.OwnStatus(o.str("status")), Output: o.raw("output"), Cost: o.cost(), Compensate: o.undo()}
	if !o.into("attempt", &finish.Attempt, "a whole number") || finish.Attempt < 1 {
		o.bad("/attempt", "bad_number", "attempt is the number that the begin of the step has responded with")
	}
	switch failed := finish.Status == saga.OwnFailed || finish.Status == saga.OwnInDoubt; {
	case failed && finish.Output != nil:
		o.bad("/output", "bad_field", "only a step that has succeeded has an output")
	case failed && o.fields["error"] != nil:
		finish.Error = o.reported("own_"+string(finish.Status), "the agent gave no reason")
	case finish.Status == saga.OwnSucceeded && o.fields["error"] != nil:
		o.bad("/error", "bad_field", "a step that has succeeded has no error")
	case !failed && finish.Status != saga.OwnSucceeded:
		o.bad("/status", "bad_field", "status is succeeded, failed (it certainly has no effect) or in_doubt")
	}
	if err := o.err(); err != nil {
		return err
	}
	if len(finish.Output) > maxOutput {
		return fail("body_too_large", "an output has at most %d bytes: store it elsewhere, and return a reference", maxOutput)
	}
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	finish.Life = l.number
	if _, err := l.ask(c, saga.Command{Do: finish}); err != nil {
		return err
	}
	return l.replyOwn(c, finish.ID)
}

// ownView returns an own step as responses have it, or the problem that there is none.
func (l *live) ownView(id string) (machine.OwnView, error) {
	v, ok := machine.OwnOf(l.m, l.log, id)
	if !ok {
		return v, fail("step_not_found", "the session has no own step %.100q: GET …/steps lists them", id).of(l.id)
	}
	l.s.asThen(v.Path, &v.Status, &v.Undo)
	return v, nil
}

func (l *life) replyOwn(c echo.Context, id string) error {
	v, err := l.ownView(id)
	if err != nil {
		return err
	}
	l.gets(c, v.Path, v.Status)
	return reply(c, http.StatusOK, v)
}

// listOwnSteps serves GET /v1/sessions/{id}/steps, in the order in which they were begun.
func (s *server) listOwnSteps(c echo.Context) error {
	return listOf(s, c, "steps", func(l *life) []machine.OwnView {
		list := machine.OwnSteps(l.m, l.log)
		for i := range list {
			list[i].Unread = l.unread(list[i].Path, list[i].Status)
		}
		return list
	})
}

// undoOwnStep serves POST /v1/sessions/{id}/steps/{id}/undo.
func (s *server) undoOwnStep(c echo.Context) error {
	id := param(c, "step")
	return s.undo(c, saga.OwnPrefix+id, func(l *live) (any, error) { return l.ownView(id) })
}

// getOwnStep serves GET /v1/sessions/{id}/steps/{id}.
func (s *server) getOwnStep(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	return l.replyOwn(c, param(c, "step"))
}
