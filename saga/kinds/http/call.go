package http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"recourse/saga"
)

// Codes that a [saga.Answer] of this package adds to those that it lists: the
// request cannot be sent as it is, so trying again is of no use.
const (
	CodeURLInvalid     = "url_invalid"     // no http(s) URL with a host, or one with user:password
	CodeRequestInvalid = "request_invalid" // a method, header or body that cannot be sent
)

const (
	defaultMaxBody     = 4 << 20
	defaultConns       = 256
	defaultDialTimeout = 10 * time.Second
	maxResponseHead    = 64 << 10 // with the informational ones before it
	maxRedirects       = 10
)

// CallerConfig is what a [Caller] is made of; the zero value of a field gives its default.
type CallerConfig struct {
	Guard           *Guard                            // which addresses may be reached; nil: public ones only
	Secret          func(name string) (string, error) // the value of a secret; its errors say how to provide it and never hold values
	SecretHosts     *SecretHosts                      // where secrets may go; nil: anywhere
	Known           func() []string                   // values of all secrets there are, which no answer may bring into a journal; nil: those that were sent only
	MaxBody         int64                             // bytes of a decompressed body; default 4 MiB
	UserAgent       string                            // sent unless the request brings its own; default "recourse"
	Now             func() time.Time                  // for Retry-After dates; default time.Now
	MaxConnsPerHost int                               // open connections to one host:port; default 256
	DialTimeout     time.Duration                     // to look up and connect, and again for TLS; default 10 s
	TLS             *tls.Config                       // roots and client certificates; default the system's roots, TLS 1.2 and up
	Resolver        *net.Resolver                     // default the system's
	Resolve         Resolve                           // where some names lead instead, ahead of the Resolver
}

// Caller performs requests. One [Caller.Call] sends its request at most once;
// nothing below it sends again by itself. It is safe for concurrent use.
//
// Messages are written and read by net/http, in HTTP/1.1. Its Transport is not
// used: it sends again what it holds to be replayable when a kept connection
// turns out to be dead (Request.isReplayable, and its HTTP/2 client even more),
// does not tell whether anything left, and hands each request to two goroutines.
// No proxy of the environment is used: it would see every request, and hide the
// dialled address from the guard.
type Caller struct {
	cfg  CallerConfig
	pool *pool
}

// NewCaller returns a Caller. Close it when done.
func NewCaller(cfg CallerConfig) *Caller {
	cfg.defaults()
	return &Caller{cfg: cfg, pool: newPool(cfg.MaxConnsPerHost, NewDialer(cfg).open)}
}

func (cfg *CallerConfig) defaults() {
	if cfg.Guard == nil {
		cfg.Guard = &Guard{}
	}
	if cfg.Secret == nil {
		cfg.Secret = func(string) (string, error) { return "", errors.New("no secrets are configured; see --secret-dir") }
	}
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "recourse"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxConnsPerHost <= 0 {
		cfg.MaxConnsPerHost = defaultConns
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
}

// Close closes the idle connections. Calls under way go on.
func (c *Caller) Close() { c.pool.Close() }

// Call performs a request and says what came of it; it does not fail otherwise.
//
// ctx carries the deadline of the whole attempt: connecting, sending, and
// reading the answer to its end. When ctx is cancelled rather than timed out,
// the answer's code is "interrupted" if the request may have left, else "not_sent".
// Sent is false only if it is proven that no byte of the request left.
// A status of 2xx is a success only if Code is "" too: the body may be cut.
// Values of secrets do not appear in the answer, even if the other side echoes them.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	o, err := c.prepare(r)
	if err != nil {
		a := saga.Answer{Code: CodeRequestInvalid, Detail: shown(r.Method, r.URL) + ": the request cannot be built"}
		if refused, ok := errors.AsType[*refusal](err); ok {
			a.Code, a.Detail = refused.code, shown(r.Method, r.URL)+": "+refused.why
		}
		return a
	}
	resp, a := c.send(ctx, o)
	if resp != nil {
		a = c.follow(ctx, o, resp)
	}
	a.Detail = o.redact.Detail(a.Detail)
	return a
}

// refusal says why a request is not sent.
type refusal struct{ code, why string }

func (r *refusal) Error() string { return r.code + ": " + r.why }
