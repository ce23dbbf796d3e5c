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
	// reserved is how long a key stays reserved if the process that serves its request dies. It is
	// longer than any request may take, besides the wait that it asked for.
	reserved = time.Minute
	// keepTimeout bounds the retries of storing a reply. After it the response is sent although the
	// reply is not stored.
	keepTimeout = 3 * time.Second
)

// idempotencyKey returns the request's key, prefixed with the caller's scope; "" for none.
func idempotencyKey(c echo.Context) (string, error) {
	values := c.Request().Header.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || !isKey(key) {
		return "", fail("invalid_request", "Idempotency-Key is one value of 1 to %d visible ASCII characters without spaces: a UUID is a good one", maxKey)
	}
	return callerOf(c).scope() + ":" + key, nil
}

// isKey reports whether a text can be a key: 1 to maxKey visible ASCII characters.
func isKey(text string) bool {
	return text != "" && len(text) <= maxKey && !strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e })
}

func keyReused() *problem {
	return fail("idempotency_key_reused", "the key belongs to a request with another path or body: use a new key for a new request")
}

func fingerprint(c echo.Context, body []byte) string {
	return idempotency.Fingerprint(c.Request().Method, c.Request().URL.EscapedPath(), body)
}

// idempotent replays the stored response to a request whose key was used before. Only successes are
// stored. A refused request did nothing, so its key is free for the corrected one; so is the key of
// a claim that found no task.
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
		k := c.(*call)
		k.key, k.mark = key, mark
		lapse := reserved
		if k.route.stream {
			lapse += s.cfg.Limits.Wait
		}
		until := time.Now().Add(lapse) // the store counts from a later time
		have, fresh, err := s.cfg.Store.Begin(c.Request().Context(), key, mark, lapse)
		switch {
		case err != nil:
			return err
		case !fresh && have.Fingerprint != mark:
			return keyReused()
		case !fresh && !have.Done:
			return fail("key_in_flight", "the first request with this key is still in flight: retry in a second. If the server's process died during it, the key is free after one minute; for a claim of tasks, after at most two").after(1)
		case !fresh:
			return replay(c, have)
		}
		failpoint.Hit("request.begun")
		return s.recorded(c, key, mark, until, next)
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

// keptHeaders are the headers that a stored reply contains.
var keptHeaders = []string{echo.HeaderContentType, echo.HeaderLocation, "ETag", unreadHeader}

// recorded runs a request whose key is reserved until a time. It stores a successful response, and
// otherwise releases the key, but not after that time.
func (s *server) recorded(c echo.Context, key, mark string, until time.Time, next echo.HandlerFunc) error {
	// The reply is stored even if the client has disconnected: it will repeat the request.
	ctx := context.WithoutCancel(c.Request().Context())
	kept := false
	defer func() {
		if kept {
			return
		}
		// After that time a repetition of the request may have reserved the key.
		ctx, done := context.WithDeadline(ctx, until)
		defer done()
		ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Request)
		defer cancel()
		if err := s.cfg.Store.Abandon(ctx, key); err != nil {
			s.log.Warn("could not release an idempotency key; it expires by itself", "error", err)
		}
	}()
	w := &bufferedWriter{ResponseWriter: c.Response().Writer}
	c.Response().Writer = w
	defer func() { c.Response().Writer = w.ResponseWriter }() // after a panic, too
	err := next(c)
	if err != nil {
		c.Response().Committed = false
		return err
	}
	if w.status < http.StatusMultipleChoices && w.status != http.StatusNoContent {
		r := journal.Reply{Fingerprint: mark, Done: true, Status: w.status, Header: map[string]string{}, Body: w.body.Bytes()}
		for _, name := range keptHeaders {
			if v := c.Response().Header().Get(name); v != "" {
				r.Header[name] = v
			}
		}
		kept = true // even if storing fails: the effect must not be repeated, so the key is not released
		if err := s.keep(ctx, key, r); err != nil {
			s.log.Warn("could not store the reply to a request with an idempotency key; the key stays in flight until it expires", "error", err)
		} else {
			failpoint.Hit("request.kept")
		}
	}
	return w.release()
}

// keep stores a reply, with retries: without a stored reply, a repeated request would have its
// effect a second time.
func (s *server) keep(ctx context.Context, key string, r journal.Reply) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
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

// bufferedWriter buffers a response until its reply is stored.
type bufferedWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *bufferedWriter) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *bufferedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.body.Write(b)
}

func (w *bufferedWriter) release() error {
	w.ResponseWriter.WriteHeader(w.status)
	_, err := w.ResponseWriter.Write(w.body.Bytes())
	return err
}
