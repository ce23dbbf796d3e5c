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

// incomplete is err, which says what is wrong with an order's fields, as the problem it is for
// orders.
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
	cmd := saga.Command{Kind: "cancel", Mode: o.str("mode"), Reason: o.reason(false)}
	if cmd.Mode != "" && cmd.Mode != "compensate" && cmd.Mode != "stop" {
		o.bad("/mode", "bad_mode", "mode is compensate (the default: undo what was done) or stop (leave it)")
	}
	if who := callerOf(c); !who.commandsAll() {
		id, err := sagaID(c)
		if err != nil {
			return err
		}
		starter, err := s.starter(c.Request().Context(), id)
		if err != nil {
			return sagaError(id, err)
		}
		if err := who.mayCommand(starter, ""); err != nil {
			return err
		}
	}
	return s.commandSaga(c, o, cmd)
}

func (s *server) pause(c echo.Context) error  { return s.reasonOnly(c, "pause", false) }
func (s *server) resume(c echo.Context) error { return s.reasonOnly(c, "resume", false) }

func (s *server) compensate(c echo.Context) error { return s.reasonOnly(c, "compensate", true) }

func (s *server) reasonOnly(c echo.Context, do string, required bool) error {
	o, err := s.readObject(c, "reason")
	if err != nil {
		return err
	}
	return s.commandSaga(c, o, saga.Command{Kind: do, Reason: o.reason(required)})
}

// commandSaga gives an order whose fields are o, and answers with the saga.
func (s *server) commandSaga(c echo.Context, o *object, cmd saga.Command) error {
	if err := o.incomplete(); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	if cmd.IfSeq, err = ifSeqGiven(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	var l *live
	err = s.orQuarantined(ctx, id, func() (err error) {
		l, err = s.load(ctx, id)
		return err
	}, func(h journal.Head) error { return s.commandUnread(c, h, cmd) })
	if err != nil || l == nil {
		return err
	}
	done, err := l.order(c, cmd)
	if err != nil {
		return err
	}
	if !done && cmd.Kind == "cancel" {
		return unreadCancel().of(l.id)
	}
	return s.orQuarantined(ctx, id, func() error { return l.answer(c, http.StatusAccepted) },
		func(h journal.Head) error { return s.answerHead(c, http.StatusAccepted, h) })
}

// unreadCancel is the answer to a cancel that nobody has taken in: a 202 would promise that the
// saga does not succeed, and that is not known yet.
func unreadCancel() *problem {
	return fail("unavailable", "the cancel is durable, but no node has read it yet, so the saga may still end before it: look at the saga, or cancel again")
}

// messageOf makes an order's message.
func (s *server) messageOf(id uuid.UUID, cmd saga.Command) (journal.Message, error) {
	mail, err := uuid.NewV7AtTime(s.cfg.Engine.Now()) // ids order the mail, whichever node posts it
	if err != nil {
		return journal.Message{}, err
	}
	return cmd.Message(mail, id)
}

// order has the saga carry out a command, and says whether it has. It has not
// when nobody who runs the saga read the order in time; it will, or will refuse it, later.
// Errors: a refusal as a problem.
func (l *live) order(c echo.Context, cmd saga.Command) (bool, error) {
	_, done, err := l.send(c, cmd)
	return done, err
}

// send is order, which also gives the order's id.
func (l *live) send(c echo.Context, cmd saga.Command) (mail uuid.UUID, done bool, err error) {
	ctx := c.Request().Context()
	cmd.Actor = callerOf(c).name
	m, err := l.s.messageOf(l.id, cmd)
	if err != nil {
		return mail, false, err
	}
	// The saga decides again when the order is read; this only spares the way there.
	mail = m.ID
	wakes := false
	if _, err := l.m.Validate(mail, cmd); err != nil {
		if wakes = l.wakes(ctx, cmd, err); !wakes {
			return mail, false, asProblem(err).of(l.id).at(cmd.Path)
		}
	}
	if err := l.s.cfg.Engine.Send(ctx, m); err != nil {
		return mail, false, sagaError(l.id, err)
	}
	done, err = l.await(ctx, l.s.cfg.Limits.Command, func() bool { return l.m.Applied(mail) || l.ended() })
	if err != nil || !done {
		return mail, false, err
	}
	if !l.m.Applied(mail) {
		return mail, false, refused(saga.Failure{Code: "terminal", Title: "the saga has ended as " + string(l.m.Status()), Detail: "it ended before it read the order; a saga that has ended never changes"}).of(l.id)
	}
	if why := l.rejection(mail); why != nil && !(wakes && why.Code == notPaused) {
		return mail, false, refused(*why).of(l.id).at(cmd.Path)
	}
	return mail, true, nil
}

// rejection is why the saga did not carry an order out; nil if it did.
func (l *live) rejection(mail uuid.UUID) *saga.Failure {
	for i := len(l.records) - 1; i >= 0; i-- {
		r := l.records[i]
		switch r.Kind {
		case journal.Operator, journal.Cancelled, journal.Paused, journal.Resumed:
			var d saga.CommandData
			if json.Unmarshal(r.Data, &d) == nil && d.Message == mail.String() {
				return d.Rejected
			}
		}
	}
	return nil
}
