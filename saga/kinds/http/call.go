package http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"recourse/saga"
)

// Codes that a [saga.Answer] of this package may have in addition to those that it lists. The
// request cannot be sent as it is, so a retry is of no use.
const (
	CodeURLInvalid     = "url_invalid"     // not an http(s) URL with a host, or a URL with user:password
	CodeRequestInvalid = "request_invalid" // a method, header or body that cannot be sent
)

const (
	defaultMaxBody     = 4 << 20
	defaultConns       = 256
	defaultDialTimeout = 10 * time.Second
	maxResponseHead    = 64 << 10 // including informational responses before it
	maxRedirects       = 10
)

// CallerConfig configures a [Caller]. The zero value of a field selects its default.
type CallerConfig struct {
	Guard *Guard // which addresses are allowed; nil: public ones only
	// Secret returns the value of a secret. Its errors say how to provide it and never hold values.
	Secret      func(name string) (string, error)
	SecretHosts *SecretHosts // the hosts that may receive secrets; nil: any host
	// Known returns the values of all existing secrets, which are redacted from answers; nil: only
	// those that were sent.
	Known           func() []string
	MaxBody         int64            // bytes of a decompressed body; default 4 MiB
	UserAgent       string           // sent unless the request brings its own; default "recourse"
	Now             func() time.Time // for dates in Retry-After; default time.Now
	MaxConnsPerHost int              // open connections to one host:port; default 256
	DialTimeout     time.Duration    // for name lookup and connecting, and again for TLS; default 10 s
	// TLS has roots and client certificates. The default is the system's roots, TLS 1.2 and up.
	TLS      *tls.Config
	Resolver *net.Resolver // default the system's
	// Resolve has fixed addresses for some names, which take precedence over the Resolver.
	Resolve Resolve
}

// Caller performs requests. One [Caller.Call] sends its request at most once; no layer below it
// sends again. It is safe for concurrent use.
//
// It reads and writes messages with net/http, in HTTP/1.1, but does not use its Transport. The
// Transport resends requests that it considers replayable when a kept connection turns out to be
// dead (Request.isReplayable; its HTTP/2 client resends even more), does not say whether anything
// was sent, and passes each request to two goroutines. The Caller ignores proxies in the
// environment, because a proxy would see every request and hide the dialled address from the guard.
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

// Close closes the idle connections. Calls in flight continue.
func (c *Caller) Close() { c.pool.Close() }

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

// refusal is the reason why a request is not sent.
type refusal struct{ code, why string }

func (r *refusal) Error() string { return r.code + ": " + r.why }
