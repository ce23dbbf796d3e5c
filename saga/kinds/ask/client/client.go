// Package client sends the requests of asks through package egress, with the keys of their
// providers, and passes the responses on to the agents that wait for them.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/ask/relay"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
)

// Config configures a [Caller].
type Config struct {
	llmclient.Config
	// Content returns a content of a session by its hash, in hex. Errors: ask.ErrErased, those of
	// the store.
	Content func(ctx context.Context, session, hash string) ([]byte, error)
	Relay   *relay.Relay
}

// Caller performs asks. One call sends its request at most once. It is safe for concurrent use.
type Caller struct {
	*llmclient.Sender
	cfg Config
}

// New returns a Caller. Close it when done.
func New(cfg Config) *Caller { return &Caller{llmclient.NewSender(cfg.Config), cfg} }

// Call implements engine.Caller: Stream with the default timeout.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	return c.Stream(ctx, r, ask.Timeout, func() {})
}

// Stream implements engine.Streamer. It ends as [llmclient.Sender.Send] says. The answer's content
// has the bytes that an agent gets, and its body their meaning.
func (c *Caller) Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer {
	q, route, to, err := ask.Open(c.LLM, r)
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
	out, err := prepare(r, q, body)
	if err != nil {
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: "the request cannot be built"}
	}
	return c.Send(ctx, to, out, idle, alive, func(ctx context.Context, a *saga.Answer, kind string, in io.Reader, redact *httptext.Redactor) string {
		read := reader{ctx: ctx, relay: c.cfg.Relay, redact: redact, a: a, key: r.Headers[keyHeader], meaning: ask.NewReading(route, q), in: in}
		err := read.all(kind)
		if err == nil {
			return ""
		}
		var why string
		a.Code, why = llmclient.Broken(ctx, err)
		return why
	})
}

// keyHeader is the header with an ask's idempotency key. The provider gets it, too.
const keyHeader = "Idempotency-Key"

// body returns the body to send: as the agent has just sent it, or from the store.
func (c *Caller) body(ctx context.Context, q *ask.Question, r saga.Request) ([]byte, error) {
	if r.Content != nil {
		return q.Outgoing(*r.Content)
	}
	content, ok := c.cfg.Relay.Body(q.Body)
	if !ok {
		var err error
		if content, err = q.Assemble(func(hash string) ([]byte, error) { return c.cfg.Content(ctx, r.Headers[ask.SessionHeader], hash) }); err != nil {
			return nil, err
		}
	}
	return q.Outgoing(content)
}

// prepare returns the request to send.
func prepare(r saga.Request, q *ask.Question, body []byte) (egress.Request, error) {
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
	return out, nil
}

// reader reads one response into an answer.
type reader struct {
	ctx     context.Context
	relay   *relay.Relay
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
	body, err := llmclient.ReadAll(r.ctx, r.in)
	if !ok {
		r.a.Body, _, _ = httptext.EncodeBody(kind, body, r.redact)
		return nil // the status is enough
	}
	if err != nil {
		return err
	}
	r.a.Content = []byte(r.redact.Text(string(body)))
	r.meaning.Document(r.a.Content)
	r.a.Body = r.meant()
	return nil
}

// meant is the meaning of the response, which a stream's events have before they are redacted.
func (r *reader) meant() json.RawMessage {
	m := r.meaning.Meaning
	m.Fault = r.redact.Detail(m.Fault)
	return r.redact.JSON(saga.Encode(m))
}

// stream reads server-sent events, and passes on the ones that may leave.
func (r *reader) stream(kind string) error {
	out := r.relay.Join(r.key)
	defer r.relay.Leave(r.key, out)
	account := quota.FromContext(r.ctx)
	var memory error
	err := out.Copy(r.in, kind, r.meaning, func(raw []byte, drop bool) (event []byte, more bool) {
		if memory = account.Reserve(r.ctx, int64(2*(len(r.a.Content)+len(raw)))); memory != nil {
			return nil, false
		}
		if !drop {
			event = []byte(r.redact.Text(string(raw)))
			r.a.Content = append(r.a.Content, event...)
		}
		return event, true
	})
	r.a.Body = r.meant()
	switch {
	case memory != nil:
		return memory
	case errors.Is(err, io.EOF) || r.meaning.Whole && !errors.Is(err, llm.ErrTooLarge):
		return nil // whether it is whole, its meaning says
	}
	return err
}
