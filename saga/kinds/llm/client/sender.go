package client

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

// longest is the maximum duration of one response, even if parts of it keep arriving.
const longest = time.Hour

// Sender sends requests to the providers of language models. It is what llm steps and the requests
// of sessions share. It is safe for concurrent use.
type Sender struct {
	Config
	out *egress.Sender
	// drains is for how long the rest of a body is read after the end of its answer.
	drains time.Duration
}

// NewSender returns a Sender. Close it when done.
func NewSender(cfg Config) *Sender {
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Egress.MaxConnsPerHost = egress.Unlimited
	return &Sender{cfg, egress.New(cfg.Egress), 10 * time.Millisecond}
}

// Close closes the idle connections. Calls in flight continue.
func (s *Sender) Close() { s.out.Close() }

// Read reads the body of a response, of a content type, into an answer that has its status and its
// headers. If it sets the answer's code, it returns the reason.
type Read func(ctx context.Context, a *saga.Answer, contentType string, body io.Reader, redact *httptext.Redactor) (why string)

// Send sends a request, with the provider's key, and reads the response as it arrives. It ends with
// the code timeout if nothing arrives for longer than idle, before the first byte or between any
// two, after an hour in total, or at ctx's deadline. If ctx is cancelled the code is interrupted or
// not_sent. alive is called whenever something has arrived.
//
// The key is sent only to the provider, and redact removes it from the answer.
func (s *Sender) Send(ctx context.Context, to *llm.Provider, r egress.Request, idle time.Duration, alive func(), read Read) saga.Answer {
	if name, value := to.KeyHeader(); name != "" {
		r.Header.Set(name, value) // from now on, the request must not be shown or stored
	}
	redact := httptext.NewRedactor(s.secrets())
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	silence := time.AfterFunc(idle, func() { cut(context.DeadlineExceeded) })
	defer silence.Stop()
	resp, f := s.out.Send(ctx, r)
	if f != nil {
		return saga.Answer{Sent: f.Sent, Code: f.Code, Detail: redact.Detail(r.URL.Host + ": " + f.Why)}
	}
	defer resp.Body.Close()
	quota.FromContext(ctx).OnWait(func(waits bool) { // waiting for the quota does not count as the provider's silence
		if waits {
			silence.Stop()
		} else {
			silence.Reset(idle)
		}
	})
	in := pulse{resp.Body, func() { silence.Reset(idle); alive() }}
	silence.Reset(idle)
	a := saga.Answer{Sent: true, Status: resp.StatusCode, Headers: httptext.KeptHeaders(resp.Header, redact),
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), s.Now())}
	why := read(ctx, &a, resp.Header.Get("Content-Type"), in, redact)
	if a.Code != "" {
		a.Detail = redact.Detail(r.URL.Host + ": " + why)
		return a
	}
	silence.Stop()
	s.drain(resp.Body, func() { cut(nil) })
	return a
}

// mostDrained limits the bytes that are read of a body after the end of its answer.
const mostDrained = 4 << 10

// drain reads a body to its end, so that its connection can be used again: a stream of events says
// that it is over before the bytes are that end it. If the end does not come soon, cut ends it.
func (s *Sender) drain(body io.Reader, cut func()) {
	late := time.AfterFunc(s.drains, cut)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, mostDrained) // a body that has not ended costs only its connection
}

// secrets returns the values that no answer may contain.
func (s *Sender) secrets() []string {
	values := slices.Clone(s.Known())
	for _, p := range s.LLM.Providers {
		values = append(values, string(p.APIKey))
	}
	return values
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

// ReadAll reads a body that is no stream, within the memory that ctx has for it. Errors:
// llm.ErrTooLarge, those of the quota and of in.
func ReadAll(ctx context.Context, in io.Reader) ([]byte, error) {
	body, err := quota.ReadAll(ctx, in, llm.MaxBody, -1)
	if len(body) > llm.MaxBody {
		return nil, llm.ErrTooLarge
	}
	return body, err
}

// Broken returns the code, and the reason, of a failure to read a response to its end.
func Broken(ctx context.Context, err error) (code, why string) {
	if errors.Is(err, llm.ErrTooLarge) {
		return egress.CodeBodyTooLarge, err.Error()
	}
	if f := egress.BodyFailure(ctx, err); f.Code != egress.CodeBodyCut {
		return f.Code, f.Why
	}
	return egress.CodeBodyCut, "the connection broke before the response's end"
}
