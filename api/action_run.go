package api

import (
	"context"
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga/machine"
)

// runAction serves POST /v1/actions/{name}/run: a saga of one step, without a definition.
func (s *server) runAction(c echo.Context) error {
	wait := s.preferWait(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait+s.cfg.Limits.Request)
	defer cancel()
	o, err := s.readObject(c, "input", "id", "labels", "budget")
	if err != nil {
		return err
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	name, text, versioned := strings.Cut(param(c, "name"), "@")
	b := beginning{hash: fingerprint(c, body), wait: wait, version: parseVersion(text)}
	if b.key, err = s.runKey(c, o, name); err != nil {
		return err
	}
	input, budget, labels := o.raw("input"), o.budget(), o.labels(false)
	if err := o.err(); err != nil {
		return err
	}
	b.options = machine.StartOptions{Input: input, Vars: s.cfg.Vars, Budget: budget, Labels: labels, Actor: callerOf(c).name, Traceparent: traceparent(c)}
	begun, replayed, err := s.startOnce(ctx, b, func() (machine.Begun, bool, error) { return s.runNew(ctx, name, versioned, b) })
	if err != nil {
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, wait)
}

// runKey returns the key of a run: the field `id`, or the Idempotency-Key.
func (s *server) runKey(c echo.Context, o *object, action string) (string, error) {
	id := o.str("id")
	if id == "" {
		return idempotencyKey(c)
	}
	if !isKey(id) {
		o.bad("/id", "bad_id", "id has 1 to %d visible ASCII characters without spaces, such as order-17", maxKey)
		return "", o.err()
	}
	return callerOf(c).scope() + ":action:" + action + ":" + id, nil
}

// runNew starts a saga of one step. Errors: action_not_found, and those of begin.
func (s *server) runNew(ctx context.Context, name string, versioned bool, b beginning) (machine.Begun, bool, error) {
	missing := func() error {
		return fail("action_not_found", "there is no action %.100q in this version: GET /v1/actions lists them", name)
	}
	if !nameForm.MatchString(name) || versioned && b.version == 0 {
		return machine.Begun{}, false, missing()
	}
	a, err := s.cfg.Catalog.Action(ctx, name, b.version)
	if errors.Is(err, journal.ErrNotFound) {
		return machine.Begun{}, false, missing()
	} else if err != nil {
		return machine.Begun{}, false, err
	}
	if b.def, err = s.cfg.Catalog.Run(ctx, name, a.Version); err != nil {
		return machine.Begun{}, false, err
	}
	b.version, b.options.Version = a.Version, a.Version
	return s.begin(ctx, b)
}
