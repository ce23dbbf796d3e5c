package api

import (
	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/machine"
)

// outcomes lists the outcomes that resolve a step.
const outcomes = "succeeded, failed, retry, skip or compensated; of a call that may repeat an earlier one, same or new"

// resolve serves POST /v1/sagas/{id}/steps/{path}/resolve.
func (s *server) resolve(c echo.Context) error {
	o, err := s.readObject(c, "outcome", "output", "new_key", "reason")
	if err != nil {
		return err
	}
	to := saga.Resolve{Outcome: o.str("outcome"), Output: o.raw("output"), NewKey: o.flag("new_key")}
	cmd := saga.Command{Do: to, Path: param(c, "path"), Reason: o.reason(true)}
	switch to.Outcome {
	case "succeeded", "failed", "retry", "skip", "compensated", saga.SameEffect, saga.NewEffect:
	case "":
		o.bad("/outcome", "missing_field", "say how it ended: outcome is %s", outcomes)
	default:
		o.bad("/outcome", "bad_outcome", "outcome is %s, not %.30q", outcomes, to.Outcome)
	}
	if to.NewKey && to.Outcome != "retry" {
		o.bad("/new_key", "bad_field", "new_key goes with the outcome retry")
	}
	if err := o.incomplete(); err != nil {
		return err
	}
	if cmd.IfSeq, err = ifSeq(c); err != nil {
		return err
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	if l.def.Step(cmd.Path) == nil {
		return noStep(cmd.Path).of(l.id)
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		return err
	}
	views, err := machine.Steps(l.m, l.records)
	if err != nil {
		return err
	}
	return l.answerStep(c, appliedStatus(c, done), views, cmd.Path)
}

// patchSaga serves PATCH /v1/sagas/{id}.
func (s *server) patchSaga(c echo.Context) error {
	o, err := s.readObject(c, "budget", "labels", "reason")
	if err != nil {
		return err
	}
	patch := saga.Patch{Budget: o.budget(), Labels: o.labels(true)}
	cmd := saga.Command{Do: patch, Reason: o.reason(false)}
	if patch.Budget == nil && patch.Labels == nil && len(o.wrong) == 0 {
		o.bad("", "missing_field", "give a budget, labels or both")
	}
	if err := o.incomplete(); err != nil {
		return err
	}
	if cmd.IfSeq, err = ifSeq(c); err != nil {
		return err
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	if n := labelled(l.m.Labels(), patch.Labels); n > maxLabels {
		o.bad("/labels", "too_many", "the saga would have %d labels, more than the %d allowed", n, maxLabels)
		return o.incomplete()
	}
	if b := patch.Budget; b != nil && b.Currency == "" {
		b.Currency = l.m.Cost().Currency
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		return err
	}
	return l.answer(c, appliedStatus(c, done))
}

// labelled counts the labels after a patch.
func labelled(have, patch map[string]string) int {
	n := len(have)
	for name, value := range patch {
		_, had := have[name]
		switch {
		case value == "" && had:
			n--
		case value != "" && !had:
			n++
		}
	}
	return n
}
