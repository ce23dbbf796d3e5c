package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// MailKind is the kind of mail that carries a saga.Command.
const MailKind = "command"

// maxReason bounds what a person says about an order.
const maxReason = 2000

// reason reads why a person orders something.
func (o *object) reason(required bool) string {
	reason := o.str("reason")
	switch {
	case required && strings.TrimSpace(reason) == "":
		o.bad("/reason", "missing_field", "say why, in `reason`: it goes into the saga's journal")
	case utf8.RuneCountInString(reason) > maxReason:
		o.bad("/reason", "too_long", "a reason has at most %d characters", maxReason)
	}
	return reason
}

// incomplete is err, which says what is wrong with an order's fields, as the problem it is for orders.
func (o *object) incomplete() error {
	if len(o.wrong) == 0 {
		return nil
	}
	return fail("invalid_order", "%s", o.wrong[0].Detail).with(o.wrong...)
}

func (s *server) cancel(c echo.Context) error {
	o, err := s.readObject(c, "mode", "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Do: "cancel", Mode: o.str("mode"), Reason: o.reason(false)}
	if cmd.Mode != "" && cmd.Mode != "compensate" && cmd.Mode != "stop" {
		o.bad("/mode", "bad_mode", "mode is compensate (the default: undo what was done) or stop (leave it)")
	}
	return s.orderSaga(c, o, cmd)
}

func (s *server) pause(c echo.Context) error  { return s.reasonOnly(c, "pause", false) }
func (s *server) resume(c echo.Context) error { return s.reasonOnly(c, "resume", false) }

func (s *server) compensate(c echo.Context) error { return s.reasonOnly(c, "compensate", true) }

func (s *server) reasonOnly(c echo.Context, do string, required bool) error {
	o, err := s.readObject(c, "reason")
	if err != nil {
		return err
	}
	return s.orderSaga(c, o, saga.Command{Do: do, Reason: o.reason(required)})
}

// orderSaga gives an order whose fields are o, and answers with the saga.
func (s *server) orderSaga(c echo.Context, o *object, cmd saga.Command) error {
	if err := o.incomplete(); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	l, err := s.load(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if _, err := l.order(c, cmd); err != nil {
		return err
	}
	return l.answer(c, http.StatusAccepted)
}

// order has the saga carry out a command, and says whether it has. It has not
// when nobody who runs the saga read the order in time; it will, or will refuse it, later.
// Errors: a refusal as a problem.
func (l *live) order(c echo.Context, cmd saga.Command) (bool, error) {
	ctx := c.Request().Context()
	cmd.Actor = callerOf(c).name
	mail, err := uuid.NewV7()
	if err != nil {
		return false, err
	}
	// The saga decides again when the order is read; this only spares the way there.
	if _, err := l.m.Admit(mail, cmd); err != nil {
		return false, asProblem(err).of(l.id).at(cmd.Path)
	}
	data, err := journal.Encode(cmd)
	if err != nil {
		return false, err
	}
	if err := l.s.cfg.Engine.Post(ctx, journal.Mail{ID: mail, Saga: l.id, Kind: MailKind, Data: data}); err != nil {
		return false, sagaError(l.id, err)
	}
	done, err := l.await(ctx, l.s.cfg.Limits.Order, func() bool { return l.m.Folded(mail) || l.ended() })
	if err != nil || !done {
		return false, err
	}
	if !l.m.Folded(mail) {
		return false, refused(saga.Failure{Code: "terminal", Title: "the saga has ended as " + string(l.m.Status()), Detail: "it ended before it read the order; a saga that has ended never changes"}).of(l.id)
	}
	if why := l.rejection(mail); why != nil {
		return false, refused(*why).of(l.id).at(cmd.Path)
	}
	return true, nil
}

// rejection is why the saga did not carry an order out; nil if it did.
func (l *live) rejection(mail uuid.UUID) *saga.Failure {
	for i := len(l.records) - 1; i >= 0; i-- {
		r := l.records[i]
		switch r.Kind {
		case journal.Operator, journal.Cancelled, journal.Paused, journal.Resumed:
			var d saga.OrderData
			if json.Unmarshal(r.Data, &d) == nil && d.Mail == mail.String() {
				return d.Rejected
			}
		}
	}
	return nil
}

// outcomes are the words that resolve a step.
const outcomes = "succeeded, failed, retry, skip or compensated"

// resolve serves POST /v1/sagas/{id}/steps/{path}/resolve.
func (s *server) resolve(c echo.Context) error {
	o, err := s.readObject(c, "outcome", "output", "new_key", "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Do: "resolve", Path: param(c, "path"), Outcome: o.str("outcome"), Output: o.raw("output"), NewKey: o.flag("new_key"), Reason: o.reason(true)}
	switch cmd.Outcome {
	case "succeeded", "failed", "retry", "skip", "compensated":
	case "":
		o.bad("/outcome", "missing_field", "say how it ended: outcome is %s", outcomes)
	default:
		o.bad("/outcome", "bad_outcome", "outcome is %s, not %.30q", outcomes, cmd.Outcome)
	}
	if cmd.NewKey && cmd.Outcome != "retry" {
		o.bad("/new_key", "bad_field", "new_key goes with the outcome retry")
	}
	if err := o.incomplete(); err != nil {
		return err
	}
	if cmd.IfSeq, err = ifSeq(c); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	l, err := s.load(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if _, ok := l.def.ByID[cmd.Path]; !ok {
		return noStep(cmd.Path).of(id)
	}
	done, err := l.order(c, cmd)
	if err != nil {
		return err
	}
	views, err := saga.Steps(l.def, l.m, l.records)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !done {
		status = http.StatusAccepted
	}
	return l.answerStep(c, status, views, cmd.Path)
}

// patchSaga serves PATCH /v1/sagas/{id}.
func (s *server) patchSaga(c echo.Context) error {
	o, err := s.readObject(c, "budget", "labels", "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Do: "patch", Budget: o.budget(), Labels: o.labels(true), Reason: o.reason(false)}
	if cmd.Budget == nil && cmd.Labels == nil && len(o.wrong) == 0 {
		o.bad("", "missing_field", "give a budget, labels or both")
	}
	if err := o.incomplete(); err != nil {
		return err
	}
	if cmd.IfSeq, err = ifSeq(c); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	l, err := s.load(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if b := cmd.Budget; b != nil && b.Currency == "" {
		b.Currency = l.m.Cost().Currency
	}
	done, err := l.order(c, cmd)
	if err != nil {
		return err
	}
	if !done {
		return l.answer(c, http.StatusAccepted)
	}
	return l.answer(c, http.StatusOK)
}

// retry serves POST /v1/sagas/{id}/retry: of a live saga its step that waits for a
// person is sent again; of one that has ended a new saga is made.
func (s *server) retry(c echo.Context) error {
	o, err := s.readObject(c, "from", "new_key", "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Do: "retry", Path: o.str("from"), NewKey: o.flag("new_key"), Reason: o.reason(true)}
	if err := o.incomplete(); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	l, err := s.load(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if l.ended() {
		return s.retryEnded(c, l, cmd)
	}
	if _, err := l.order(c, cmd); err != nil {
		return err
	}
	return l.answer(c, http.StatusAccepted)
}

// retryEnded starts a saga anew, of the same definition and input.
func (s *server) retryEnded(c echo.Context, l *live, cmd saga.Command) error {
	switch {
	case l.m.Status() == saga.Succeeded:
		return fail("saga_succeeded", "there is nothing to retry: start another saga instead").of(l.id)
	case cmd.Path != "" || cmd.NewKey:
		return fail("not_available", "a saga that has ended is retried from its beginning, as a new saga: leave `from` and `new_key` out").of(l.id)
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	b := beginning{hash: fingerprint(c, body), def: l.def}
	if b.key, err = idempotencyKey(c); err != nil {
		return err
	}
	if head, err := s.byKey(c.Request().Context(), b); err != nil || head != nil {
		if err != nil {
			return err
		}
		return s.answerStart(c, head.ID, true)
	}
	started, err := l.started()
	if err != nil {
		return err
	}
	b.version = started.Version
	b.options = saga.StartOptions{Version: started.Version, Input: started.Input, Vars: s.retryVars(started), Budget: l.budget(started), Labels: l.m.Labels(),
		Actor: callerOf(c).name, RetryOf: l.id, Reason: cmd.Reason}
	id, replayed, err := s.begin(c.Request().Context(), b)
	if err != nil {
		return err
	}
	return s.answerStart(c, id, replayed)
}

// started is what the saga was started with.
func (l *live) started() (saga.StartedData, error) {
	var d saga.StartedData
	err := json.Unmarshal(l.records[0].Data, &d)
	return d, err
}

// budget is the budget of the saga's retry: the one that it had at its end.
func (l *live) budget(d saga.StartedData) *saga.BudgetData {
	c := l.m.Cost()
	if c.Budget == "" {
		return d.Budget
	}
	b := &saga.BudgetData{Amount: c.Budget, Currency: c.Currency}
	if d.Budget != nil {
		b.Tokens = d.Budget.Tokens
	}
	return b
}

// retryVars are the vars of a retry: the server's of today, since a wrong one may be
// why the saga failed, and the saga's own where the server has none any more.
func (s *server) retryVars(d saga.StartedData) map[string]json.RawMessage {
	vars := make(map[string]json.RawMessage, len(s.cfg.Vars)+len(d.Vars))
	for name, v := range d.Vars {
		vars[name] = v
	}
	for name, v := range s.cfg.Vars {
		vars[name] = v
	}
	return vars
}
