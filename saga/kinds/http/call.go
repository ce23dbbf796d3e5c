package http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	nethttp "net/http"
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
	maxResponseHead    = 64 << 10
	maxRedirects       = 10
	// idleTimeout is shorter than the keep-alive of common servers (2 s and up): a request
	// written just as the server closes is in doubt, and reuse under load needs no more.
	idleTimeout = time.Second
)

// CallerConfig is what a [Caller] is made of; the zero value of a field gives its default.
type CallerConfig struct {
	Guard           *Guard                            // which addresses may be reached; nil: public ones only
	Secret          func(name string) (string, error) // the value of a secret; its errors say how to provide it and never hold values
	Known           func() []string                   // values of all secrets there are, which no answer may bring into a journal; nil: those that were sent only
	MaxBody         int64                             // bytes of a decompressed body; default 4 MiB
	UserAgent       string                            // sent unless the request brings its own; default "recourse"
	Now             func() time.Time                  // for Retry-After dates; default time.Now
	MaxConnsPerHost int                               // open connections to one host:port; default 256
	DialTimeout     time.Duration                     // to look up and connect, and again for TLS; default 10 s
	TLS             *tls.Config                       // roots and client certificates; default the system's roots, TLS 1.2 and up
	Resolver        *net.Resolver                     // default the system's
}

// Caller performs requests. One [Caller.Call] sends its request at most once;
// nothing below it sends again by itself. It is safe for concurrent use.
//
// It speaks HTTP/1.1 only: net/http's HTTP/2 client resends a request without
// a body after errors that do not prove that it was not processed.
type Caller struct {
	cfg    CallerConfig
	pooled *nethttp.Transport
	lone   *nethttp.Transport // every request on a connection of its own
}

// NewCaller returns a Caller. Close it when done.
func NewCaller(cfg CallerConfig) *Caller {
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
	c := &Caller{cfg: cfg}
	c.pooled = c.transport(false)
	c.lone = c.transport(true)
	return c
}

func (c *Caller) transport(lone bool) *nethttp.Transport {
	d := newDialer(c.cfg)
	protocols := new(nethttp.Protocols)
	protocols.SetHTTP1(true)
	return &nethttp.Transport{
		Proxy:                  nil, // the environment's proxy would see every request and hide the dialled address from the guard
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		Protocols:              protocols,
		DisableKeepAlives:      lone,
		DisableCompression:     true, // decompressing is ours: the limit counts what comes out
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    c.cfg.MaxConnsPerHost,
		MaxConnsPerHost:        c.cfg.MaxConnsPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHead,
	}
}

// Close closes the idle connections. Calls under way go on.
func (c *Caller) Close() {
	c.pooled.CloseIdleConnections()
	c.lone.CloseIdleConnections()
}

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
	a.Detail = o.redact.text(a.Detail)
	return a
}

// refusal says why a request is not sent.
type refusal struct{ code, why string }

func (r *refusal) Error() string { return r.code + ": " + r.why }
