// Package client sends the requests of llm steps through package egress, with the keys of their
// providers, and reads the answers as they stream in.
package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

// Config configures a [Caller], and a [Sender].
type Config struct {
	LLM llm.Config // [llm.Config.Check] must have accepted it
	// Egress configures the connections. Their number is not limited: providers limit requests
	// themselves.
	Egress egress.Config
	Known  func() []string  // the values of all secrets, which are redacted from answers; nil: none
	Now    func() time.Time // for dates in Retry-After; default time.Now
}

// Caller performs requests of llm steps. One call sends its request at most once. It is safe for
// concurrent use.
type Caller struct{ *Sender }

// New returns a Caller. Close it when done.
func New(cfg Config) *Caller { return &Caller{NewSender(cfg)} }

// Call is Stream with the default timeout.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	return c.Stream(ctx, r, llm.DefaultTimeout, func() {})
}

// Stream performs a request and reads its answer as it arrives. It ends as [Sender.Send] says.
//
// The answer's body is one chat.completion. If the code is not "", it contains the part that had
// arrived, because its usage counts.
func (c *Caller) Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer {
	to := c.LLM.Owner(r.URL)
	if to == nil {
		return saga.Answer{Code: saga.CodeSecretMissing, Detail: host(r.URL) + ": no provider of the configuration has this base URL, so there is no key for it: put it back"}
	}
	out, err := prepare(r)
	if err != nil {
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: host(r.URL) + ": the request cannot be built"}
	}
	return c.Send(ctx, to, out, idle, alive, read)
}

// prepare returns the request to send.
func prepare(r saga.Request) (egress.Request, error) {
	headers, body, err := llm.Outgoing(r)
	if err != nil {
		return egress.Request{}, err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return egress.Request{}, err
	}
	out := egress.Request{Method: r.Method, URL: u, Header: make(http.Header, len(headers)+3), Body: body}
	for name, value := range headers { // any order
		out.Header.Set(name, value)
	}
	if r.Traceparent != "" { // steps set no headers of their own
		out.Header.Set("Traceparent", r.Traceparent)
	}
	return out, nil
}

// host returns the part of an address that a message may show.
func host(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return "(no URL)"
}

// read reads a body into a. If that ends in a code, it returns the reason.
func read(ctx context.Context, a *saga.Answer, contentType string, in io.Reader, redact *httptext.Redactor) (why string) {
	body := bufio.NewReader(in)
	if a.Status >= 200 && a.Status <= 299 && streams(contentType, body) {
		return readStream(ctx, a, body, redact)
	}
	text, err := ReadAll(ctx, body)
	if err != nil {
		a.Code, why = Broken(ctx, err)
	} else {
		a.Body, a.Code, why = httptext.EncodeBody(contentType, text, redact)
	}
	if a.Status < 200 || a.Status > 299 {
		a.Code, why = "", "" // the status is enough
	}
	return why
}

// streams reports whether a body is a stream of events: by its content type, or by its first bytes
// if the type says nothing.
func streams(contentType string, body *bufio.Reader) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	switch strings.TrimSpace(media) {
	case "text/event-stream":
		return true
	case "", "text/plain", "application/octet-stream":
		begin, _ := body.Peek(len("data:"))
		return string(begin) == "data:" || bytes.HasPrefix(begin, []byte(":"))
	}
	return false
}

func readStream(ctx context.Context, a *saga.Answer, body io.Reader, redact *httptext.Redactor) (why string) {
	account := quota.FromContext(ctx)
	doc, err := llm.ReadStream(body, func(bytes int) error { return account.Reserve(ctx, int64(bytes)) })
	switch {
	case err == nil:
	case errors.Is(err, llm.ErrBroken):
		a.Code, why = egress.CodeBodyInvalid, err.Error()
	case errors.Is(err, io.EOF):
		a.Code, why = egress.CodeBodyCut, "the stream ended before the response did"
	default:
		a.Code, why = Broken(ctx, err)
	}
	a.Body = redact.JSON(doc)
	account.Shrink(int64(len(a.Body)))
	return why
}
