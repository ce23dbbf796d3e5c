package http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// dialer opens connections that the guard allows. TLS is done here and not by
// net/http, so that what failed before a request is known and not guessed.
type dialer struct {
	guard    *Guard
	tls      *tls.Config
	resolver *net.Resolver
	timeout  time.Duration
}

func newDialer(cfg CallerConfig) *dialer {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLS != nil {
		conf = cfg.TLS.Clone()
	}
	conf.NextProtos = []string{"http/1.1"}
	if conf.ClientSessionCache == nil {
		conf.ClientSessionCache = tls.NewLRUClientSessionCache(256)
	}
	return &dialer{guard: cfg.Guard, tls: conf, resolver: cfg.Resolver, timeout: cfg.DialTimeout}
}

// dialError is a failure before any byte of a request.
type dialError struct {
	code string
	err  error
}

func (e *dialError) Error() string { return e.code + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func (d *dialer) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn}, nil
}

func (d *dialer) secure(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conf := d.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(raw, conf)
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &dialError{"tls", err}
	}
	return &wire{Conn: conn}, nil
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.timeout, Resolver: d.resolver, ControlContext: d.guard.Control(addr)}
	conn, err := nd.DialContext(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	if denied, ok := errors.AsType[*Denied](err); ok {
		return nil, &dialError{"egress_denied", denied}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, &dialError{"dns", dns}
	}
	return nil, &dialError{"connection", err}
}

var errBarred = errors.New("the request was given up before it left")

// wire is a connection that knows whether anything of the present request was
// written to it. net/http knows too, but does not tell; its trace hooks fire
// when bytes enter a buffer, not when they leave it.
type wire struct {
	net.Conn

	mu      sync.Mutex
	writing int  // writes under way
	left    bool // a write was accepted, in part at least
	barred  bool // no more writes
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.barred {
		w.mu.Unlock()
		return 0, errBarred
	}
	w.writing++
	w.mu.Unlock()

	n, err := w.Conn.Write(p)

	w.mu.Lock()
	w.writing--
	w.left = w.left || n > 0
	w.mu.Unlock()
	return n, err
}

// begin starts the account of one request.
func (w *wire) begin() {
	w.mu.Lock()
	w.left = false
	w.mu.Unlock()
}

// unsent reports whether nothing of the present request left, and sees to it
// that it stays so: after true, nothing can be written any more.
func (w *wire) unsent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left || w.writing > 0 {
		return false
	}
	w.barred = true
	w.Conn.Close()
	return true
}
