package api

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/idempotency"
	"recourse/internal/failpoint"
	"recourse/journal"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotency-Replayed"
	maxKey       = 255
	replyKept    = 24 * time.Hour
	// reserved is how long a request's key is held for it, in case the process that
	// has it dies: longer than any request may take, beside what it asked to wait.
	reserved = time.Minute
	// keepPatience is how long the store gets to take a reply before the answer goes out without.
	keepPatience = 3 * time.Second
)

// idempotencyKey reads the request's key, in its caller's scope; "" for none.
func idempotencyKey(c echo.Context) (string, error) {
	values := c.Request().Header.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	ok := len(values) == 1 && key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e })
	if !ok {
		return "", fail("invalid_request", "Idempotency-Key is one value of 1 to %d visible ASCII characters without spaces: a UUID is a good one", maxKey)
	}
	return callerOf(c).scope() + ":" + key, nil
}

func keyReused() *problem {
	return fail("idempotency_key_reused", "the key belongs to a request with another path or body: use a new key for a new request")
}

func fingerprint(c echo.Context, body []byte) string {
	return idempotency.Fingerprint(c.Request().Method, c.Request().URL.EscapedPath(), body)
}

// idempotent has a request under a key that was answered before get that answer
// again. Only successes are kept: a request that was refused did nothing, so
// its key is free for the mended one; as is that of a claim that found no task.
func (s *server) idempotent(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := idempotencyKey(c)
		if err != nil {
			return err
		}
		if key == "" {
			return next(c)
		}
		body, err := s.body(c)
		if err != nil {
			return err
		}
		mark := fingerprint(c, body)
		hold := reserved
		if c.(*call).route.stream {
			hold += s.cfg.Limits.Wait
		}
		have, fresh, err := s.cfg.Store.Begin(c.Request().Context(), key, mark, hold)
		switch {
		case err != nil:
			return err
		case !fresh && have.Fingerprint != mark:
			return keyReused()
		case !fresh && !have.Done:
			return fail("key_in_flight", "the first request has not been answered: ask again in a second. If the server's process died over it, the key is free after a minute, of a claim of tasks after two at most").after(1)
		case !fresh:
			return replay(c, have)
		}
		failpoint.Hit("request.begun")
		return s.recorded(c, key, mark, next)
	}
}

func replay(c echo.Context, r journal.Reply) error {
	h := c.Response().Header()
	for name, value := range r.Header {
		h.Set(name, value)
	}
	h.Set(replayHeader, "true")
	return c.Blob(r.Status, r.Header[echo.HeaderContentType], r.Body)
}

// keptHeaders are those of a reply that a replay brings again.
var keptHeaders = []string{echo.HeaderContentType, echo.HeaderLocation, "ETag"}

// recorded runs a request whose key is reserved, and keeps its answer or gives the key back.
func (s *server) recorded(c echo.Context, key, mark string, next echo.HandlerFunc) error {
	// The answer is kept even if the client has gone: it will ask again.
	ctx := context.WithoutCancel(c.Request().Context())
	kept := false
	defer func() {
		if kept {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Request)
		defer cancel()
		if err := s.cfg.Store.Abandon(ctx, key); err != nil {
			s.log.Warn("could not give an idempotency key back; it lapses by itself", "error", err)
		}
	}()
	held := &heldWriter{ResponseWriter: c.Response().Writer}
	c.Response().Writer = held
	defer func() { c.Response().Writer = held.ResponseWriter }() // after a panic too
	err := next(c)
	if err != nil {
		c.Response().Committed = false
		return err
	}
	if held.status < http.StatusMultipleChoices && held.status != http.StatusNoContent {
		r := journal.Reply{Fingerprint: mark, Done: true, Status: held.status, Header: map[string]string{}, Body: held.body.Bytes()}
		for _, name := range keptHeaders {
			if v := c.Response().Header().Get(name); v != "" {
				r.Header[name] = v
			}
		}
		kept = true // or nearly: what was done is not done again, so its key is not given back
		if err := s.keep(ctx, key, r); err != nil {
			s.log.Warn("could not keep the reply to a request with an idempotency key; the key stays in flight until it lapses", "error", err)
		} else {
			failpoint.Hit("request.kept")
		}
	}
	return held.release()
}

// keep stores a reply, and tries again for a while if the store does not take it:
// a repetition that finds no reply would do again what was done.
func (s *server) keep(ctx context.Context, key string, r journal.Reply) error {
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := s.cfg.Store.Finish(ctx, key, r, replyKept)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// heldWriter holds an answer back until it is known whether it is kept.
type heldWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *heldWriter) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *heldWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.body.Write(b)
}

func (w *heldWriter) release() error {
	w.ResponseWriter.WriteHeader(w.status)
	_, err := w.ResponseWriter.Write(w.body.Bytes())
	return err
}
