package api

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// retry serves POST /v1/sagas/{id}/retry. In a live saga it retries the step that needs a person;
// for a saga that has ended it starts a new one.
func (s *server) retry(c echo.Context) error {
	o, err := s.readObject(c, "from", "new_key", "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Do: saga.Retry{NewKey: o.flag("new_key")}, Path: o.str("from"), Reason: o.reason(true)}
	if err := o.incomplete(); err != nil {
		return err
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	switch before, err := l.endedBefore(c); {
	case err != nil:
		return err
	case before:
		return s.retryEnded(c, l, cmd)
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		return err
	}
	if !done {
		markUnread(c)
	}
	return l.answer(c, http.StatusAccepted)
}

// refuseRetry returns why a saga is not retried as a new one, from its beginning or from a step;
// nil: it is.
func refuseRetry(l *live) *problem {
	switch {
	case !l.ended():
		return fail("saga_live", "it has not ended, so it is retried itself, and not as a new saga").of(l.id)
	case !l.m.UndoOf().IsNil():
		return fail("not_available", "a saga that undoes another one is not retried: undo by hand what its `residual` names").of(l.id)
	case isFork(l):
		of, _ := l.m.ForkOf()
		return fail("is_fork", "a fork is not retried: fork saga %s again", of).of(l.id)
	case l.m.Status() == saga.Succeeded:
		return fail("saga_succeeded", "there is nothing to retry: start another saga instead").of(l.id)
	case l.def.Session != nil:
		return fail("not_available", "a session is not retried: open another one").of(l.id)
	}
	return nil
}

// retryEnded starts a new saga of the same definition with the same input, from its beginning or
// from a step. new_key makes no difference: the keys of a new saga are new.
func (s *server) retryEnded(c echo.Context, l *live, cmd saga.Command) error {
	switch wrong := refuseRetry(l); {
	case wrong != nil:
		return wrong
	case cmd.Path != "":
		return s.retryFrom(c, l, cmd)
	}
	b, done, err := s.follows(c, l)
	if done || err != nil {
		return err
	}
	started, err := history.Started(l.records)
	if err != nil {
		return err
	}
	b.version = int(started.Version)
	b.options = machine.StartOptions{Version: int(started.Version), Input: started.Input, Vars: s.retryVars(started), Budget: l.budget(), Labels: l.m.Labels(),
		Actor: callerOf(c).name, RetryOf: l.id, Reason: cmd.Reason, Traceparent: traceparent(c)}
	begun, replayed, err := s.begin(c.Request().Context(), b)
	if err != nil {
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, b.wait)
}

// follows returns the beginning of the saga that a request starts because of l. done is true if the
// request was answered: a saga was started with its Idempotency-Key before.
func (s *server) follows(c echo.Context, l *live) (b beginning, done bool, _ error) {
	body, err := s.body(c)
	if err != nil {
		return b, false, err
	}
	b = beginning{hash: fingerprint(c, body), def: l.def, wait: s.preferWait(c)}
	if b.key, err = idempotencyKey(c); err != nil {
		return b, false, err
	}
	head, err := s.byKey(c.Request().Context(), b)
	if err != nil || head == nil {
		return b, false, err
	}
	begun, err := s.confirmed(c.Request().Context(), head.ID)
	if err != nil {
		return b, false, err
	}
	return b, true, s.answerStart(c, begun, true, b.wait)
}

// budget returns the budget of a retry: the saga's budget at its end, nil for that of its
// definition. That of a child saga is a part of its parent's, which the retry is not.
func (l *live) budget() *saga.BudgetData {
	c := l.m.Cost()
	if l.m.IsChild() || c.Budget == "" && c.Tokens.Budget == 0 {
		return nil
	}
	b := &saga.BudgetData{Tokens: c.Tokens.Budget}
	if c.Budget != "" {
		b.Amount, b.Currency = c.Budget, c.Currency
	}
	return b
}

// retryVars returns the vars of a retry: the server's present ones, since a wrong one may have made
// the saga fail, and the saga's own where the server no longer has one.
func (s *server) retryVars(d saga.StartedData) map[string]json.RawMessage {
	vars := make(map[string]json.RawMessage, len(s.cfg.Vars)+len(d.Vars))
	maps.Copy(vars, d.Vars)
	maps.Copy(vars, s.cfg.Vars)
	return vars
}
