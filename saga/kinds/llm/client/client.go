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
	"slices"
	"strings"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

// longest is the maximum duration of one answer, even if parts of it keep arriving.
const longest = time.Hour

// Config configures a [Caller].
type Config struct {
	LLM llm.Config // [llm.Config.Check] must have accepted it
	// Egress configures the connections. Their number is not limited: providers limit requests
	// themselves.
	Egress egress.Config
	Known  func() []string  // the values of all secrets, which are redacted from answers; nil: none
	Now    func() time.Time // for dates in Retry-After; default time.Now
}

// Caller performs requests of llm steps. One call sends its request at most once. A connection is
// kept if its last answer was read to the end, which streams usually are not: an answer is over
// when it says so. It is safe for concurrent use.
type Caller struct {
	cfg    Config
	sender *egress.Sender
}

// New returns a Caller. Close it when done.
func New(cfg Config) *Caller {
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Egress.MaxConnsPerHost = egress.Unlimited
	return &Caller{cfg: cfg, sender: egress.New(cfg.Egress)}
}

// Close closes the idle connections. Calls in flight continue.
func (c *Caller) Close() { c.sender.Close() }

// Call is Stream with the default timeout.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	return c.Stream(ctx, r, llm.DefaultTimeout, func() {})
}

// Stream performs a request and reads its answer as it arrives. It ends with the code timeout if
// nothing arrives for longer than idle, before the first byte or between any two, after an hour in
// total, or at ctx's deadline. If ctx is cancelled the code is interrupted or not_sent. alive is
// called whenever something has arrived.
//
// The answer's body is one chat.completion. If the code is not "", it contains the part that had
// arrived, because its usage counts. The key of a provider is sent only to that provider, and does
// not appear in the answer.
func (c *Caller) Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer {
	to := c.cfg.LLM.Owner(r.URL)
	if to == nil {
		return saga.Answer{Code: saga.CodeSecretMissing, Detail: host(r.URL) + ": no provider of the configuration has this base URL, so there is no key for it: put it back"}
	}
	redact := httptext.NewRedactor(c.secrets())
	out, err := c.prepare(r, to)
	if err != nil {
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: host(r.URL) + ": the request cannot be built"}
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	silence := time.AfterFunc(idle, func() { cut(context.DeadlineExceeded) })
	defer silence.Stop()
	resp, f := c.sender.Send(ctx, out)
	if f != nil {
		return saga.Answer{Sent: f.Sent, Code: f.Code, Detail: redact.Detail(host(r.URL) + ": " + f.Why)}
	}
	defer resp.Body.Close()
	quota.FromContext(ctx).OnWait(func(waits bool) { // waiting for the quota does not count as the provider's silence
		if waits {
			silence.Stop()
		} else {
			silence.Reset(idle)
		}
	})
	in := &pulse{resp.Body, func() { silence.Reset(idle); alive() }}
	silence.Reset(idle)
	a := saga.Answer{Sent: true, Status: resp.StatusCode, Headers: httptext.KeptHeaders(resp.Header, redact),
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), c.cfg.Now())}
	why := read(ctx, &a, resp.Header.Get("Content-Type"), in, redact)
	if a.Code != "" {
		a.Detail = redact.Detail(host(r.URL) + ": " + why)
	}
	return a
}

// secrets returns the values that no answer may contain.
func (c *Caller) secrets() []string {
	values := slices.Clone(c.cfg.Known())
	for _, p := range c.cfg.LLM.Providers {
		values = append(values, string(p.APIKey))
	}
	return values
}

// prepare returns the request to send, with the key in it. It must not be shown or stored.
func (c *Caller) prepare(r saga.Request, to *llm.Provider) (egress.Request, error) {
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
	if to.APIKey != "" {
		out.Header.Set("Authorization", "Bearer "+string(to.APIKey))
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

// pulse reports that bytes have arrived.
type pulse struct {
	io.Reader
	beat func()
}

// Read implements io.Reader.
func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.beat()
	}
	return n, err
}

// read reads a body into a. If that ends in a code, it returns the reason.
func read(ctx context.Context, a *saga.Answer, contentType string, in io.Reader, redact *httptext.Redactor) (why string) {
	body := bufio.NewReader(in)
	if a.Status >= 200 && a.Status <= 299 && streams(contentType, body) {
		return readStream(ctx, a, body, redact)
	}
	text, err := quota.ReadAll(ctx, body, llm.MaxBody, -1)
	switch {
	case len(text) > llm.MaxBody:
		a.Code, why = egress.CodeBodyTooLarge, llm.ErrTooLarge.Error()
	case err != nil:
		a.Code, why = broken(ctx, err)
	default:
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
	case errors.Is(err, llm.ErrTooLarge):
		a.Code, why = egress.CodeBodyTooLarge, err.Error()
	case errors.Is(err, llm.ErrBroken):
		a.Code, why = egress.CodeBodyInvalid, err.Error()
	case errors.Is(err, io.EOF):
		a.Code, why = egress.CodeBodyCut, "the stream ended before the response did"
	default:
		a.Code, why = broken(ctx, err)
	}
	a.Body = redact.JSON(doc)
	account.Shrink(int64(len(a.Body)))
	return why
}

// broken describes a failure to read on.
func broken(ctx context.Context, err error) (code, why string) {
	if f := egress.BodyFailure(ctx, err); f.Code != egress.CodeBodyCut {
		return f.Code, f.Why
	}
	return egress.CodeBodyCut, "the connection broke before the response's end"
}
