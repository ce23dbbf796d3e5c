package http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// dialer opens connections that the guard allows.
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

// open connects to o, with TLS if its scheme is https.
func (d *dialer) open(ctx context.Context, o origin) (*wire, error) {
	tcp, err := d.dial(ctx, "tcp", o.addr)
	if err != nil {
		return nil, err
	}
	if o.scheme != "https" {
		return newWire(tcp, tcp), nil
	}
	conf := d.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(o.addr)
	}
	conn := tls.Client(tcp, conf)
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, &dialError{"tls", err}
	}
	return newWire(conn, tcp), nil
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.timeout, Resolver: d.resolver, ControlContext: d.guard.Control(addr)}
	conn, err := nd.DialContext(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the dialer looked at the clock before ctx's timer went off
	}
	if denied, ok := errors.AsType[*Denied](err); ok {
		return nil, &dialError{"egress_denied", denied}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, &dialError{"dns", dns}
	}
	return nil, &dialError{"connection", err}
}
