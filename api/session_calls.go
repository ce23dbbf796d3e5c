package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/api/mcp"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

// Bounds of calls.
const (
	maxCallInput = 256 << 10
	callWait     = 30 * time.Second // how long a call waits for its end by default
	maxCallID    = 255
	maxAgain     = 1_000_000
)

// call serves POST /v1/sessions/{id}/calls.
func (s *server) call(c echo.Context) error {
	o, err := s.readObject(c, "action", "input", "id", "again", "wait")
	if err != nil {
		return err
	}
	cmd := saga.CallAction{Action: o.str("action"), ID: o.str("id"), Input: o.raw("input")}
	wait := callWait
	if o.fields["wait"] != nil {
		wait = o.within("wait", 0, s.cfg.Limits.Wait)
	}
	if cmd.Action == "" {
		o.bad("/action", "missing_field", `name the action: {"action": "refund", "input": {…}}`)
	}
	if o.into("again", &cmd.Again, "a whole number") && (cmd.Again < 0 || cmd.Again > maxAgain) {
		o.bad("/again", "bad_number", "again is from 0 to %d", maxAgain)
	}
	if len(cmd.ID) > maxCallID || hasControl(cmd.ID) {
		o.bad("/id", "bad_id", "an id has at most %d bytes", maxCallID)
	}
	if cmd.ID != "" && cmd.Again != 0 {
		o.bad("/again", "bad_field", "again makes another call with the same input; a call with an id is another one if its id is: send one of them")
	}
	if len(cmd.Input) > maxCallInput {
		o.bad("/input", "too_long", "an input has at most %d bytes: store it elsewhere, and send a reference", maxCallInput)
	}
	if err := o.err(); err != nil {
		return err
	}
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	if err := l.admit(); err != nil {
		return err
	}
	until := time.Now().Add(wait)
	cmd.Life = l.number
	if err := l.chooseAction(&cmd); err != nil {
		return err
	}
	identity, refusal := l.m.Identity(&cmd)
	if refusal != nil {
		return asProblem(refusal).of(l.id)
	}
	cmd.Before = s.asked.count(l.id, l.number, identity)
	// A call that this life has asked for is not taken for one that it may repeat. If that is
	// forgotten, a person is asked once too often, and no effect is repeated.
	s.asked.with(l.id, l.number, func(r *lifeRequests) {
		cmd.Resembles = l.m.Resembles(cmd.Action, l.number, func(path string) bool { return r.paths[path] })
	})
	known := l.m.CallCount()
	path, err := l.ask(c, saga.Command{Do: cmd})
	if err != nil {
		return err
	}
	l.asksFor(path)
	replayed := s.replayed(l.m.CallIndex(path) < known)
	if err := l.awaitCall(c, path, max(time.Until(until), 0)); err != nil {
		return err
	}
	status := l.m.CallStatus(path)
	l.gets(c, path, status)
	if err := l.replyCall(c, path, replayed); err != nil {
		return err
	}
	// Only a call whose end the agent has got counts: a request that is repeated after a lost
	// response is the same call.
	if status.Ended() && c.Request().Context().Err() == nil {
		s.asked.add(l.id, l.number, identity, cmd.Before)
	}
	return nil
}

// chooseAction checks the action of a call, and removes its version, which the session has pinned.
// Errors: action_not_found, invalid_request.
func (l *life) chooseAction(cmd *saga.CallAction) error {
	name, version, versioned := strings.Cut(cmd.Action, "@")
	actions := l.def.Session.Actions
	if actions[name] == nil {
		hint := dsl.Suggest(name, sortedKeys(actions))
		if hint == "" {
			hint = "; it has " + strings.Join(sortedKeys(actions), ", ")
		}
		return fail("action_not_found", "the session has no action %.100q%s", cmd.Action, hint).of(l.id)
	}
	if pinned := actions[name].Step.Use.Version; versioned && parseVersion(version) != pinned {
		return fail("invalid_call", "the session has pinned version %d of action %s, not %.40q: leave the version out", pinned, name, version).
			with(saga.Finding{Pointer: "/action", Code: "bad_version", Detail: "the session has pinned another version"}).of(l.id)
	}
	cmd.Action = name
	return nil
}

// awaitCall waits for the end of a call, or of the session. The session must have been read just
// before.
func (l *live) awaitCall(c echo.Context, path string, wait time.Duration) error {
	over := func() bool {
		status := l.m.CallStatus(path)
		return status == "" || status.Ended() || l.ended()
	}
	if over() {
		return nil
	}
	_, err := l.awaitShared(c, wait, over)
	return err
}

// callView returns a call as a response shows it. Error: call_not_found.
func (l *live) callView(path string) (machine.CallView, error) {
	v, ok := machine.CallOf(l.m, l.log, path)
	if !ok {
		return v, noCall(path).of(l.id)
	}
	l.s.asThen(path, &v.Status, &v.Undo)
	return v, nil
}

// replyCall responds with a call: 200 if it has ended, and 202 if it has not.
func (l *live) replyCall(c echo.Context, path string, replayed bool) error {
	v, err := l.callView(path)
	if err != nil {
		return err
	}
	v.Replayed = replayed
	status := http.StatusOK
	if !v.Status.Ended() {
		status = http.StatusAccepted
	}
	if l.models.Any() {
		c.Response().Header().Set(mcp.ModelsHeader, "true")
	}
	return reply(c, status, v)
}

// listCalls serves GET /v1/sessions/{id}/calls, in the order in which they were made.
func (s *server) listCalls(c echo.Context) error {
	return listOf(s, c, "calls", func(l *life) []machine.CallView {
		list := machine.Calls(l.m, l.log)
		for i := range list {
			list[i].Unread = l.unread(list[i].Path, list[i].Status)
		}
		return list
	})
}

// listOf serves a page of a list of a session. name is that of the list in cursors.
func listOf[T any](s *server, c echo.Context, name string, read func(*life) []T) error {
	q, err := readQuery(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, from := int(q.number("limit", maxLimit, 1, maxLimit)), 0
	if parts := q.cursor(name, 1); parts != nil {
		if from, err = strconv.Atoi(parts[0]); err != nil || from < 0 {
			q.bad("cursor", "bad_cursor", "send next_cursor unchanged")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	list := read(l)
	from = min(from, len(list))
	return reply(c, http.StatusOK, cut(list[from:], limit, func(T) string { return pack(name, strconv.Itoa(from+limit)) }))
}

// getCall serves GET /v1/sessions/{id}/calls/{path}.
func (s *server) getCall(c echo.Context) error {
	q, err := readQuery(c, "wait")
	if err != nil {
		return err
	}
	wait := q.within("wait", s.cfg.Limits.Wait)
	if err := q.err(); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	if wait > 0 {
		if err := l.admit(); err != nil {
			return err
		}
	}
	path := param(c, "path")
	if err := l.awaitCall(c, path, wait); err != nil {
		return err
	}
	v, err := l.callView(path)
	if err != nil {
		return err
	}
	l.gets(c, path, v.Status)
	return reply(c, http.StatusOK, v)
}

func noCall(path string) *problem {
	return fail("call_not_found", "the session has no call %.100q: GET …/calls lists them", path)
}

// undoCall serves POST /v1/sessions/{id}/calls/{path}/undo.
func (s *server) undoCall(c echo.Context) error {
	path := param(c, "path")
	return s.undo(c, path, func(l *live) (any, error) { return l.callView(path) })
}

// undo undoes a call, or an own step, of which view returns the response, or the problem that the
// session does not have it.
func (s *server) undo(c echo.Context, path string, view func(*live) (any, error)) error {
	o, err := s.readObject(c, "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Path: path, Reason: o.reason(false)}
	if err := o.incomplete(); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	if _, err := view(l.live); err != nil {
		return err
	}
	cmd.Do, cmd.Actor = saga.UndoCall{Life: l.number}, callerOf(c).name
	if _, err := l.ask(c, cmd); err != nil {
		return err
	}
	v, err := view(l.live)
	if err != nil {
		return err
	}
	return reply(c, http.StatusAccepted, v)
}
