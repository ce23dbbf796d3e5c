// Package client sends the requests of http steps: it inserts secrets, sends through package
// egress, follows the redirects of reads, and turns responses into answers.
package client

import (
	"context"
	"errors"
	"time"

	"recourse/internal/egress"
	"recourse/saga"
	kind "recourse/saga/kinds/http"
)

const (
	defaultMaxBody = 4 << 20
	maxRedirects   = 10
)

// Config configures a [Caller]. The zero value of a field selects its default.
type Config struct {
	Egress egress.Config
	// Secret returns the value of a secret. Its errors say how to provide it and never hold values.
	Secret      func(name string) (string, error)
	SecretHosts *egress.SecretHosts // the hosts that may receive secrets; nil: any host
	// Known returns the values of all existing secrets, which are redacted from answers; nil: only
	// those that were sent.
	Known   func() []string
	MaxBody int64            // bytes of a decompressed body; default 4 MiB
	Now     func() time.Time // for dates in Retry-After; default time.Now
}

// Caller performs requests. One [Caller.Call] sends its request at most once. It is safe for
// concurrent use.
type Caller struct {
	cfg    Config
	sender *egress.Sender
}

// New returns a Caller. Close it when done.
func New(cfg Config) *Caller {
	if cfg.Secret == nil {
		cfg.Secret = func(string) (string, error) { return "", errors.New("no secrets are configured; see --secret-dir") }
	}
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Caller{cfg: cfg, sender: egress.New(cfg.Egress)}
}

// Close closes the idle connections. Calls in flight continue.
func (c *Caller) Close() { c.sender.Close() }

// Call performs a request and returns its answer. Every failure is part of the answer.
//
// ctx has the deadline of the whole attempt: connecting, sending, and reading the complete answer.
// If ctx is cancelled instead, the answer's code is "interrupted" if the request may have been
// sent, else "not_sent". Sent is false only if certainly no byte of the request was sent. A status
// of 2xx is a success only if Code is "", because the body may be cut. Values of secrets do not
// appear in the answer, even if the remote service echoes them.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	o, err := c.prepare(r)
	if err != nil {
		a := saga.Answer{Code: kind.CodeRequestInvalid, Detail: shown(r.Method, r.URL) + ": the request cannot be built"}
		if refused, ok := errors.AsType[*refusal](err); ok {
			a.Code, a.Detail = refused.code, shown(r.Method, r.URL)+": "+refused.why
		}
		return a
	}
	var a saga.Answer
	if resp, f := c.sender.Send(ctx, o.Request); f == nil {
		a = c.follow(ctx, o, resp)
	} else {
		a = o.failed(f)
	}
	a.Detail = o.redact.Detail(a.Detail)
	return a
}

// failed returns the answer for a request without a response.
func (o *outgoing) failed(f *egress.Failure) saga.Answer {
	return saga.Answer{Sent: f.Sent, Code: f.Code, Detail: o.shown + ": " + f.Why}
}

// refusal is the reason why a request is not sent.
type refusal struct{ code, why string }

func (r *refusal) Error() string { return r.code + ": " + r.why }
