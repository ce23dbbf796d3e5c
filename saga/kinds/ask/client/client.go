// Package client sends the requests of asks through package egress, with the keys of their
// providers, and passes the responses on to the agents that wait for them.
package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/ask/relay"
	"recourse/saga/kinds/llm"
)

// longest is the maximum duration of one response, even if parts of it keep arriving.
const longest = time.Hour

// Config configures a [Caller].
type Config struct {
	LLM    llm.Config // [llm.Config.Check] must have accepted it
	Egress egress.Config
	// Content returns a content of a session by its hash, in hex. Errors: ask.ErrErased, those of
	// the store.
	Content func(ctx context.Context, session, hash string) ([]byte, error)
	Relay   *relay.Relay
	Known   func() []string  // the values of all secrets, which are redacted from responses; nil: none
	Now     func() time.Time // for dates in Retry-After; default time.Now
}

// Caller performs asks. One call sends its request at most once. It is safe for concurrent use.
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

// Call implements engine.Caller: Stream with the default timeout.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	return c.Stream(ctx, r, ask.Timeout, func() {})
}

// Stream implements engine.Streamer. The answer's content has the bytes that an agent gets, and its
// body their meaning. The key of a provider is sent only to that provider, and does not appear in
// the answer.
func (c *Caller) Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer {
	q, route, to, err := ask.Open(c.cfg.LLM, r)
	switch {
	case err != nil:
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: err.Error()}
	case to == nil:
		return saga.Answer{Code: saga.CodeSecretMissing, Detail: "no provider of the configuration has this base URL, so there is no key for it: put it back"}
	}
	body, err := c.body(ctx, q, r)
	if err != nil {
		return saga.Answer{Code: "not_sent", Detail: "the request's contents could not be read: " + err.Error()}
	}
	out, err := prepare(r, q, to, body)
	if err != nil {
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: "the request cannot be built"}
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	silence := time.AfterFunc(idle, func() { cut(context.DeadlineExceeded) })
	defer silence.Stop()
	redact := httptext.NewRedactor(c.secrets())
	resp, f := c.sender.Send(ctx, out)
	if f != nil {
		return saga.Answer{Sent: f.Sent, Code: f.Code, Detail: redact.Detail(out.URL.Host + ": " + f.Why)}
	}
	defer resp.Body.Close()
	account := quota.FromContext(ctx)
	account.OnWait(func(waits bool) { // waiting for the quota does not count as the provider's silence
		if waits {
			silence.Stop()
		} else {
			silence.Reset(idle)
		}
	})
	a := saga.Answer{Sent: true, Status: resp.StatusCode, Headers: httptext.KeptHeaders(resp.Header, redact),
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), c.cfg.Now())}
	read := reader{Caller: c, ctx: ctx, account: account, redact: redact, a: &a, key: r.Headers[keyHeader], meaning: ask.NewReading(route, q),
		in: pulse{resp.Body, func() { silence.Reset(idle); alive() }}}
	if err := read.all(resp.Header.Get("Content-Type")); err != nil {
		a.Code, a.Detail = broken(ctx, err)
		a.Detail = redact.Detail(out.URL.Host + ": " + a.Detail)
	}
	return a
}

// keyHeader is the header with an ask's idempotency key. The provider gets it, too.
const keyHeader = "Idempotency-Key"

// body returns the body to send: as the agent has just sent it, or from the store.
func (c *Caller) body(ctx context.Context, q *ask.Question, r saga.Request) ([]byte, error) {
	content, ok := c.cfg.Relay.Body(q.Body)
	if !ok {
		var err error
		if content, err = q.Assemble(func(hash string) ([]byte, error) { return c.cfg.Content(ctx, r.Headers[ask.SessionHeader], hash) }); err != nil {
			return nil, err
		}
	}
	return q.Outgoing(content)
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
func prepare(r saga.Request, q *ask.Question, to *llm.Provider, body []byte) (egress.Request, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return egress.Request{}, err
	}
	out := egress.Request{Method: r.Method, URL: u, Header: make(http.Header), Body: body}
	for name, value := range q.Headers { // any order
		out.Header.Set(name, value)
	}
	out.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if key := r.Headers[keyHeader]; key != "" {
		out.Header.Set(keyHeader, key)
	}
	if r.Traceparent != "" {
		out.Header.Set("Traceparent", r.Traceparent)
	}
	switch {
	case to.APIKey == "":
	case to.API == llm.AnthropicAPI:
		out.Header.Set("X-Api-Key", string(to.APIKey))
	default:
		out.Header.Set("Authorization", "Bearer "+string(to.APIKey))
	}
	return out, nil
}

// pulse reports that bytes have arrived.
type pulse struct {
	io.Reader
	beat func()
}

// Read implements io.Reader.
func (p pulse) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.beat()
	}
	return n, err
}

// reader reads one response into an answer.
type reader struct {
	*Caller
	ctx     context.Context
	account *quota.Account
	redact  *httptext.Redactor
	a       *saga.Answer
	key     string // of the ask
	meaning *ask.Reading
	in      io.Reader
}

// all reads a response of this Content-Type.
func (r *reader) all(kind string) error {
	ok := r.a.Status >= 200 && r.a.Status <= 299
	if ok && httptext.MediaType(kind) == "text/event-stream" {
		return r.stream(kind)
	}
	body, err := quota.ReadAll(r.ctx, r.in, llm.MaxBody, -1)
	if len(body) > llm.MaxBody {
		body, err = nil, llm.ErrTooLarge
	}
	if !ok {
		r.a.Body, _, _ = httptext.EncodeBody(kind, body, r.redact)
		return nil // the status is enough
	}
	if err != nil {
		return err
	}
	r.a.Content = []byte(r.redact.Text(string(body)))
	r.meaning.Document(r.a.Content)
	r.a.Body = saga.Encode(r.meaning.Meaning)
	return nil
}

// stream reads server-sent events, and passes on the ones that may leave.
func (r *reader) stream(kind string) error {
	out := r.cfg.Relay.Join(r.key)
	defer r.cfg.Relay.Leave(r.key, out)
	var memory error
	err := ask.Events(r.in, func(raw, data []byte) bool {
		if memory = r.account.Reserve(r.ctx, int64(2*(len(r.a.Content)+len(raw)))); memory != nil {
			return false
		}
		hold, drop, done := r.meaning.Event(data)
		if !drop {
			event := []byte(r.redact.Text(string(raw)))
			r.a.Content = append(r.a.Content, event...)
			if !hold {
				out.Pass(kind, event)
			}
		}
		return !done
	})
	r.a.Body = saga.Encode(r.meaning.Meaning)
	switch {
	case memory != nil:
		return memory
	case errors.Is(err, io.EOF) || r.meaning.Whole && !errors.Is(err, llm.ErrTooLarge):
		return nil // whether it is whole, its meaning says
	}
	return err
}

// broken describes a failure to read a response.
func broken(ctx context.Context, err error) (code, why string) {
	if errors.Is(err, llm.ErrTooLarge) {
		return egress.CodeBodyTooLarge, err.Error()
	}
	if f := egress.BodyFailure(ctx, err); f.Code != egress.CodeBodyCut {
		return f.Code, f.Why
	}
	return egress.CodeBodyCut, "the connection broke before the response's end"
}
