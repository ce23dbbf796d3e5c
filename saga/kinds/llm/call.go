package llm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/kinds/http"
)

// longest is the maximum duration of one answer, even if parts of it keep arriving.
const longest = time.Hour

// CallerConfig configures a [Caller].
type CallerConfig struct {
	LLM Config // [Config.Check] must have accepted it
	// Of HTTP only Guard, Known, UserAgent, Now, DialTimeout, TLS, Resolver and Resolve are used,
	// as for http steps.
	HTTP http.CallerConfig
}

// Caller performs requests of llm steps. One call sends its request at most once. It uses a
// connection of its own, so that net/http has no dead kept connection after which it would resend.
// It is safe for concurrent use.
type Caller struct {
	cfg       CallerConfig
	transport *nethttp.Transport
}

// NewCaller returns a Caller.
func NewCaller(cfg CallerConfig) *Caller {
	if cfg.HTTP.Known == nil {
		cfg.HTTP.Known = func() []string { return nil }
	}
	if cfg.HTTP.UserAgent == "" {
		cfg.HTTP.UserAgent = "recourse"
	}
	if cfg.HTTP.Now == nil {
		cfg.HTTP.Now = time.Now
	}
	d := http.NewDialer(cfg.HTTP)
	return &Caller{cfg: cfg, transport: &nethttp.Transport{DialContext: d.Dial, DialTLSContext: d.DialTLS,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}}
}

// Call is Stream with the default timeout.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	return c.Stream(ctx, r, DefaultTimeout, func() {})
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
	to := c.cfg.LLM.owner(r.URL)
	if to == nil {
		return saga.Answer{Code: saga.CodeSecretMissing, Detail: host(r.URL) + ": no provider of the configuration has this base URL, so there is no key for it: put it back"}
	}
	redact := httptext.NewRedactor(c.secrets())
	out, err := c.prepare(r, to)
	if err != nil {
		return saga.Answer{Code: http.CodeRequestInvalid, Detail: host(r.URL) + ": the request cannot be built"}
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	silence := time.AfterFunc(idle, func() { cut(context.DeadlineExceeded) })
	defer silence.Stop()
	var connected atomic.Bool // from here on something may have been sent
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	resp, err := c.transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		sent := connected.Load()
		code, why := http.Reason(ctx, err, sent)
		return saga.Answer{Sent: sent, Code: code, Detail: redact.Detail(host(r.URL) + ": " + why)}
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
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), c.cfg.HTTP.Now())}
	why := read(ctx, &a, resp.Header.Get("Content-Type"), in, redact)
	if a.Code != "" {
		a.Detail = redact.Detail(host(r.URL) + ": " + why)
	}
	return a
}

// secrets returns the values that no answer may contain.
func (c *Caller) secrets() []string {
	values := slices.Clone(c.cfg.HTTP.Known())
	for _, p := range c.cfg.LLM.Providers {
		values = append(values, string(p.APIKey))
	}
	return values
}

// prepare returns the request to send, with the key in it. It must not be shown or stored.
func (c *Caller) prepare(r saga.Request, to *Provider) (*nethttp.Request, error) {
	body, err := unseal(r.Body)
	if err != nil {
		return nil, err
	}
	out, err := nethttp.NewRequest(r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.GetBody = nil // it must not be resent
	for name, value := range r.Headers {
		if !ours(name) {
			out.Header.Set(name, value)
		}
	}
	if r.Traceparent != "" { // steps set no headers of their own
		out.Header.Set("Traceparent", r.Traceparent)
	}
	out.Header.Set("User-Agent", c.cfg.HTTP.UserAgent)
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
	text, err := quota.ReadAll(ctx, body, maxBody, -1)
	switch {
	case len(text) > maxBody:
		a.Code, why = "body_too_large", errTooLarge.Error()
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
	limited := &io.LimitedReader{R: body, N: maxStream}
	account := quota.FromContext(ctx)
	reserve := func(bytes int) error { return account.Reserve(ctx, int64(bytes)) }
	s := &assembly{reserve: reserve}
	err := events(limited, reserve, s.take)
	switch {
	case s.whole() && !errors.Is(err, errTooLarge): // only its usage can be missing
	case errors.Is(err, errTooLarge) || limited.N <= 0:
		a.Code, why = "body_too_large", errTooLarge.Error()
	case errors.Is(err, errBroken):
		a.Code, why = "body_invalid", errBroken.Error()
	case errors.Is(err, io.EOF):
		a.Code, why = "body_cut", "the stream ended before the answer did"
	default:
		a.Code, why = broken(ctx, err)
	}
	a.Body = redact.JSON(s.document())
	account.Shrink(int64(len(a.Body)))
	return why
}

// broken describes a failure to read on.
func broken(ctx context.Context, err error) (code, why string) {
	if code, why := http.Reason(ctx, err, true); code != "connection" {
		return code, why
	}
	return "body_cut", "the connection broke before the answer's end"
}
