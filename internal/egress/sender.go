package egress

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"

	"recourse/internal/httptext"
)

const (
	defaultConns       = 256
	defaultDialTimeout = 10 * time.Second
	// defaultIdleTimeout is shorter than the keep-alive of common servers (2 s and more). A request
	// that is written just as the server closes the connection is in doubt, and reuse under load
	// needs no longer timeout.
	defaultIdleTimeout = time.Second

	maxResponseHead = 64 << 10 // including informational responses before it
)

// Unlimited is a number of connections without a limit.
const Unlimited = math.MaxInt32

// Config configures a [Sender] or a [Dialer]. The zero value of a field selects its default.
type Config struct {
	Guard *Guard // which addresses are allowed; nil: public ones only
	// TLS has roots and client certificates. The default is the system's roots, TLS 1.2 and up.
	TLS      *tls.Config
	Resolver *net.Resolver // default the system's
	// Resolve has fixed addresses for some names, which take precedence over the Resolver.
	Resolve         Resolve
	DialTimeout     time.Duration // for name lookup and connecting, and again for TLS; default 10 s
	MaxConnsPerHost int           // open connections to one host:port; default 256
	IdleTimeout     time.Duration // how long an unused connection is kept; default 1 s
	UserAgent       string        // sent unless the request brings its own; default "recourse"
}

func (cfg *Config) defaults() {
	if cfg.Guard == nil {
		cfg.Guard = &Guard{}
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.MaxConnsPerHost <= 0 {
		cfg.MaxConnsPerHost = defaultConns
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = defaultIdleTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "recourse"
	}
}

// Sender sends requests and keeps connections for the next ones. It is safe for concurrent use. The
// package comment is its contract.
//
// It reads and writes messages with net/http but does not use its Transport. The Transport resends
// requests that it considers replayable when a kept connection turns out to be dead
// (Request.isReplayable; its HTTP/2 client resends even more), does not say whether anything was
// sent, and passes each request to two goroutines.
type Sender struct {
	pool  *pool
	agent []string
}

// New returns a Sender. Close it when done.
func New(cfg Config) *Sender {
	cfg.defaults()
	return &Sender{pool: newPool(cfg.MaxConnsPerHost, cfg.IdleTimeout, NewDialer(cfg).open), agent: []string{cfg.UserAgent}}
}

// Close closes the idle connections. Requests in flight continue.
func (s *Sender) Close() { s.pool.Close() }

// Request is a request to send. Nobody may change its header and its body until the response's body
// is closed.
type Request struct {
	Method string
	URL    *url.URL // http or https: see [CheckURL]
	// Header must not set what the sender itself sets: see [httptext.Settable]. Send adds
	// User-Agent if it is not there. nil: no headers.
	Header http.Header
	Body   []byte // empty: none
}

// check returns why a request cannot be sent, or nil.
func (r *Request) check() *Failure {
	if !httptext.IsToken(r.Method) || r.Method == http.MethodConnect {
		return &Failure{Code: CodeRequestInvalid, Why: "the method is not one that HTTP can send"}
	}
	for name, values := range r.Header { // any order
		if !httptext.Settable(name) {
			return &Failure{Code: CodeRequestInvalid, Why: "the header " + httptext.Clip(httptext.Printable(name), 100) + " cannot be set"}
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return &Failure{Code: CodeRequestInvalid, Why: "the header " + name + " has a line break or control character in its value"}
			}
		}
	}
	return CheckURL(r.URL)
}

// Send sends a request and returns its response once the head is complete. The response's body must
// be read from only one goroutine, and closed. If there is no response, Send returns the failure
// instead.
func (s *Sender) Send(ctx context.Context, r Request) (*http.Response, *Failure) {
	if f := r.check(); f != nil {
		return nil, f
	}
	if r.Header == nil {
		r.Header = make(http.Header, 1)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header["User-Agent"] = s.agent
	}
	oc, err := s.pool.acquire(ctx, originOf(r.URL))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	if c := s.pool.takeIdle(oc); c != nil {
		resp, sent, err := s.pool.send(ctx, oc, c, &r)
		if err == nil {
			return resp, nil
		}
		if sent || ctx.Err() != nil {
			s.pool.release(oc, nil)
			return nil, failure(ctx, err, sent)
		}
	}
	sent := false
	c, err := s.pool.dial(ctx, oc.origin)
	switch {
	case err != nil:
	case c.spokeFirst():
		c.abort()
		err = errSpokeFirst
	default:
		var resp *http.Response
		if resp, sent, err = s.pool.send(ctx, oc, c, &r); err == nil {
			return resp, nil
		}
	}
	s.pool.release(oc, nil)
	return nil, failure(ctx, err, sent)
}
