package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

// problemType is the prefix of every problem's type; the code follows.
const problemType = "urn:recourse:problem:"

// problem is an application/problem+json document (RFC 9457). As an error it becomes the response.
type problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []saga.Finding `json:"errors,omitempty"`
	Saga   string         `json:"saga,omitempty"`
	Step   string         `json:"step,omitempty"`

	retryAfter int      // seconds; 0: no header
	scopes     []string // those that an access token needs; see challenge
	challenge  string   // the header WWW-Authenticate; "": the usual one
}

// Error implements error.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// fail returns a problem. detail says what the client can do.
func fail(c code, detail string, args ...any) *problem {
	e, ok := codes[c]
	if !ok {
		e = codes["internal"]
	}
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return &problem{Type: problemType + string(c), Title: e.title, Status: e.status, Detail: detail}
}

// with sets the list of errors.
func (p *problem) with(findings ...saga.Finding) *problem {
	p.Errors = findings
	return p
}

func (p *problem) of(id uuid.UUID) *problem {
	if !id.IsNil() {
		p.Saga = id.String()
	}
	return p
}

func (p *problem) at(step string) *problem {
	p.Step = step
	return p
}

func (p *problem) after(seconds int) *problem {
	p.retryAfter = seconds
	return p
}

// invalid returns the problem of a request with wrong fields.
func invalid(findings ...saga.Finding) *problem {
	p := fail("invalid_request", "fix the fields in `errors` and send the request again").with(findings...)
	if len(findings) == 1 {
		p.Detail = findings[0].Detail
	}
	return p
}

// badDocument returns the problem of a definition or an action with errors.
func badDocument(as code, errs *dsl.Errors) *problem {
	return fail(as, "fix what `errors` lists; nothing was published or sent").with(errs.Findings()...)
}

// refused translates a saga's refusal of a command.
func refused(f saga.Failure) *problem {
	c := code(f.Code)
	if _, ok := codes[c]; !ok {
		c = "command_refused"
	}
	p := fail(c, "%s", f.Detail)
	p.Title = f.Title
	if f.Detail == "" {
		p.Detail = "read the saga again: GET /v1/sagas/{id} shows its state"
	}
	return p
}

// asProblem translates an error. It is the only place that does.
func asProblem(err error) *problem {
	var p *problem
	var errs *dsl.Errors
	var refusal *machine.Refusal
	var h *echo.HTTPError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, saga.ErrUnusable): // before dsl.Errors, which it may wrap
		return fail("definition_unusable", "use a server with the release that published it; the saga is not changed")
	case errors.As(err, &errs):
		return badDocument("invalid_definition", errs)
	case errors.As(err, &refusal):
		return refused(refusal.Failure).with(refusal.Findings...)
	case errors.As(err, &tooLarge):
		return fail("body_too_large", "send at most %d bytes", tooLarge.Limit)
	case errors.Is(err, catalog.ErrArchived):
		return fail("archived", "publish the definition again to revive it, or name a version in the start")
	case errors.Is(err, errArchive):
		return fail("archive_unavailable", "try again later; the server's log has the reason")
	case errors.Is(err, journal.ErrMismatch):
		return fail("precondition_failed", "read the definition again, then publish with If-Match of its ETag; nothing was published")
	case errors.Is(err, journal.ErrLive):
		return fail("saga_live", "only a saga that has ended can be deleted: cancel it first")
	case errors.Is(err, journal.ErrParentLive):
		return fail("parent_live", "the parent may still have to undo this saga: delete it after the parent has ended")
	case errors.Is(err, journal.ErrNotFound):
		return fail("not_found", "check the path: the resource does not exist")
	case errors.Is(err, saga.ErrBusy):
		return fail("busy", "nothing was started: send the same request again later").after(1)
	case errors.Is(err, machine.ErrImpossible), errors.Is(err, saga.ErrUnreadable), errors.Is(err, journal.ErrBroken):
		return fail("journal_unreadable", "read its records at /journal, and check them with `recourse verify`; a newer release may have written them")
	case errors.Is(err, saga.ErrStopping):
		return fail("unavailable", "this node is stopping, and nothing was started: send the same request to another node, or retry in a second").after(1)
	case errors.Is(err, saga.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fail("unavailable", "it is not certain that anything was done: send the same request again, with the same Idempotency-Key").after(1)
	case errors.As(err, &h):
		return asHTTP(h)
	case storeAway(err):
		return fail("unavailable", "the database does not respond: send the same request again, with the same Idempotency-Key").after(1)
	}
	return fail("internal", "the server's log has the details; sending the same request again, with the same Idempotency-Key, is safe")
}

// storeAway reports whether an error means that the database cannot be reached, or is starting,
// stopping or out of resources (SQLSTATE classes 08, 53 and 57P).
func storeAway(err error) bool {
	var n net.Error
	var s interface{ SQLState() string }
	switch {
	case errors.As(err, &n), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, journal.ErrUnknown):
		return true
	case errors.As(err, &s):
		state := s.SQLState()
		// 25006 is a read-only transaction.
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P") || state == "25006"
	}
	return false
}

// asHTTP translates errors of echo.
func asHTTP(h *echo.HTTPError) *problem {
	switch h.Code {
	case http.StatusNotFound:
		return fail("route_not_found", "check the path; GET /openapi.json lists all routes")
	case http.StatusMethodNotAllowed:
		return fail("method_not_allowed", "use one of the methods in the Allow header")
	case http.StatusRequestEntityTooLarge:
		return fail("body_too_large", "send a smaller request")
	}
	return fail("internal", "the server's log has the details")
}

// respondError writes an error as a problem, and logs it if the server caused it.
func (s *server) respondError(err error, c echo.Context) {
	p := asProblem(err)
	s.challenge(c, p)
	s.logFailure(c, p.Status, err)
	p.headers(c.Response().Header())
	if c.Request().Method == http.MethodHead {
		err = c.NoContent(p.Status)
	} else {
		err = blob(c, p.Status, "application/problem+json", p)
	}
	if err != nil {
		s.log.Debug("could not write the response", "error", err)
	}
}

// headers sets the headers that a problem has in any form.
func (p *problem) headers(h http.Header) {
	if p.retryAfter > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(p.retryAfter))
	}
	switch {
	case p.challenge != "":
		h.Set(echo.HeaderWWWAuthenticate, p.challenge)
	case p.Status == http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
}

// logFailure logs an error that the server caused.
func (s *server) logFailure(c echo.Context, status int, err error) {
	if status < http.StatusInternalServerError || c.Request().Context().Err() != nil {
		return
	}
	if r := s.cfg.Replay; r != nil && status == http.StatusInternalServerError {
		r.Failed(err)
	}
	level := slog.LevelError
	if status == http.StatusServiceUnavailable { // the engine logs the cause
		level = slog.LevelWarn
	}
	if errors.Is(err, saga.ErrStopping) {
		level = slog.LevelInfo
	}
	s.log.Log(c.Request().Context(), level, "request failed", "method", c.Request().Method, "route", c.Path(), "status", status, "error", err)
}

// panicked returns an error for a handler's panic.
func panicked(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// blob writes v as JSON. It does not escape HTML characters. v may belong to the request's session,
// which is free for other requests once v is encoded.
func blob(c echo.Context, status int, contentType string, v any) error {
	b, err := journal.Encode(v)
	if err != nil {
		return err
	}
	if k, ok := c.(*call); ok {
		k.letGo()
	}
	return c.Blob(status, contentType, append(b, '\n'))
}

// reply writes v as JSON.
func reply(c echo.Context, status int, v any) error {
	return blob(c, status, echo.MIMEApplicationJSON, v)
}
