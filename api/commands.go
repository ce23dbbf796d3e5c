package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// maxReason is the maximum length of the reason for a command, in characters.
const maxReason = 2000

// reason reads the reason for a command.
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

// incomplete is err for commands: it reports wrong fields with the code invalid_command.
func (o *object) incomplete() error {
	if len(o.wrong) == 0 {
		return nil
	}
	return fail("invalid_command", "%s", o.wrong[0].Detail).with(o.wrong...)
}

func (s *server) cancel(c echo.Context) error {
	o, err := s.readObject(c, "mode", "reason")
	if err != nil {
		return err
	}
	mode := o.str("mode")
	cmd := saga.Command{Do: saga.Cancel{Mode: mode}, Reason: o.reason(false)}
	if mode != "" && mode != "compensate" && mode != "stop" {
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

func (s *server) pause(c echo.Context) error  { return s.reasonOnly(c, saga.Pause{}, false) }
func (s *server) resume(c echo.Context) error { return s.reasonOnly(c, saga.Resume{}, false) }

func (s *server) compensate(c echo.Context) error { return s.reasonOnly(c, saga.Compensate{}, true) }

func (s *server) reasonOnly(c echo.Context, do saga.Operation, required bool) error {
	o, err := s.readObject(c, "reason")
	if err != nil {
		return err
	}
	return s.commandSaga(c, o, saga.Command{Do: do, Reason: o.reason(required)})
}

// commandSaga sends a command whose fields are o, and responds with the saga.
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
	if _, undoes := cmd.Do.(saga.Compensate); undoes {
		switch before, err := l.endedBefore(c); {
		case err != nil:
			return err
		case before:
			return s.undoEnded(c, l, cmd)
		}
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		return err
	}
	if what := stopping(cmd.Do); !done && what != "" {
		return unreadYet(what).of(l.id)
	}
	if !done {
		markUnread(c)
	}
	return s.orQuarantined(ctx, id, func() error { return l.answer(c, http.StatusAccepted) },
		func(h journal.Head) error { return s.answerHead(c, http.StatusAccepted, h) })
}

// stopping names a command after which a saga does not succeed; "" if it is another one.
func stopping(do saga.Operation) string {
	switch do.(type) {
	case saga.Cancel:
		return "cancel"
	case saga.Compensate:
		return "undo"
	}
	return ""
}

// unreadYet is the response to a command of stopping that no node has applied yet. A 202 would
// promise that the saga does not succeed, and that is not certain yet.
func unreadYet(what string) *problem {
	return fail("unavailable", "the %s is durable, but no node has read it yet, so the saga may still end before it: read the saga, or %[1]s again", what)
}

// unreadHeader is in the response to a command that is stored, and that no node has applied yet.
const unreadHeader = "X-Recourse-Unread"

func markUnread(c echo.Context) { c.Response().Header().Set(unreadHeader, "true") }

// appliedStatus returns the status of the response to a command, and marks it if no node has
// applied the command yet.
func appliedStatus(c echo.Context, done bool) int {
	if done {
		return http.StatusOK
	}
	markUnread(c)
	return http.StatusAccepted
}

// messageOf returns the message that carries a command.
func (s *server) messageOf(id uuid.UUID, cmd saga.Command) (journal.Message, error) {
	message, err := uuid.NewV7AtTime(s.cfg.Engine.Now()) // a saga applies messages in the order of their ids
	if err != nil {
		return journal.Message{}, err
	}
	return cmd.Message(message, id)
}

// messageID returns the id of the message that carries a request's command. A request that is
// repeated with its Idempotency-Key gets the id of the first one, which may have stored its message
// although it failed: so both are one message. The id is kept for as long as a reply. It is not
// derived from the key, because a saga applies messages in the order of their ids.
func (l *live) messageID(c echo.Context) (uuid.UUID, error) {
	id, err := uuid.NewV7AtTime(l.s.cfg.Engine.Now())
	k := c.(*call)
	if err != nil || k.key == "" {
		return id, err
	}
	for refused := 0; ; refused++ {
		// The reservation's fingerprint is the id. No key of a caller begins with a slash.
		name := fmt.Sprintf("/message:%d:%s:%s", refused, k.mark, k.key)
		first, _, err := l.s.cfg.Store.Begin(c.Request().Context(), name, id.String(), replyKept)
		if err != nil {
			return uuid.Nil, err
		}
		id, err := uuid.FromString(first.Fingerprint)
		// A command that the saga has refused had no effect, so its key is free.
		if err != nil || !l.m.Applied(id) || l.rejection(id) == nil {
			return id, err
		}
	}
}

// endedBefore reports whether the saga has ended before a request with this Idempotency-Key. It has
// not if it has carried out the request's command, for an earlier request.
func (l *live) endedBefore(c echo.Context) (bool, error) {
	if !l.ended() {
		return false, nil
	}
	id, err := l.messageID(c)
	return err == nil && !l.m.Applied(id), err
}

// execute sends a command to the saga, and reports whether the saga has applied it. It has not if
// no node read the command in time; a node will apply or refuse it later. A refusal is returned as
// a problem.
func (l *live) execute(c echo.Context, cmd saga.Command) (bool, error) {
	_, done, err := l.send(c, cmd)
	return done, err
}

// send is execute, and also returns the message's id. A command that the saga has applied for an
// earlier request with the same Idempotency-Key is not sent again.
func (l *live) send(c echo.Context, cmd saga.Command) (message uuid.UUID, done bool, err error) {
	ctx := c.Request().Context()
	if message, err = l.messageID(c); err != nil {
		return message, false, err
	}
	if l.m.Applied(message) {
		return message, true, nil
	}
	cmd.Actor = callerOf(c).name
	m, err := cmd.Message(message, l.id)
	if err != nil {
		return message, false, err
	}
	// The saga validates the command again when it applies it. This check only makes a refusal
	// fast.
	wakes := false
	if _, err := l.m.Validate(message, cmd); err != nil {
		if wakes = l.wakes(ctx, cmd, err); !wakes {
			return message, false, asProblem(err).of(l.id).at(cmd.Path)
		}
	}
	if err := l.s.cfg.Engine.Send(ctx, m); err != nil {
		return message, false, sagaError(l.id, err)
	}
	done, err = l.await(ctx, l.s.cfg.Limits.Command, func() bool { return l.m.Applied(message) || l.ended() })
	if err != nil || !done {
		return message, false, err
	}
	if !l.m.Applied(message) {
		return message, false, refused(saga.Failure{Code: "terminal", Title: "the saga has ended as " + string(l.m.Status()), Detail: "it ended before it read the command; a saga that has ended never changes"}).of(l.id)
	}
	if why := l.rejection(message); why != nil && !(wakes && why.Code == notPaused) {
		return message, false, refused(*why).of(l.id).at(cmd.Path)
	}
	return message, true, nil
}

// rejection returns the reason why the saga refused a command; nil if it applied it.
func (l *live) rejection(message uuid.UUID) *saga.Failure {
	for _, r := range slices.Backward(l.records) {
		if d, ok := history.DataOf[saga.CommandData](&r); ok && d.Message == message.String() {
			return d.Rejected
		}
	}
	return nil
}
