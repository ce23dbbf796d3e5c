package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Dialer opens connections that the guard allows.
type Dialer struct {
	guard    *Guard
	tls      *tls.Config
	resolver *net.Resolver
	resolve  Resolve
	timeout  time.Duration
}

// NewDialer returns a Dialer with the guard, TLS, resolvers and timeout of cfg.
func NewDialer(cfg Config) *Dialer {
	cfg.defaults()
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLS != nil {
		conf = cfg.TLS.Clone()
	}
	conf.NextProtos = []string{"http/1.1"}
	if conf.ClientSessionCache == nil {
		conf.ClientSessionCache = tls.NewLRUClientSessionCache(256)
	}
	return &Dialer{guard: cfg.Guard, tls: conf, resolver: cfg.Resolver, resolve: cfg.Resolve, timeout: cfg.DialTimeout}
}

// DialError is a failure before any byte of a request was sent.
type DialError struct {
	Code string // dns, connection, tls or egress_denied
	Err  error
}

// Error implements error.
func (e *DialError) Error() string { return e.Code + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// open connects to o, with TLS if its scheme is https.
func (d *Dialer) open(ctx context.Context, o origin) (*conn, error) {
	tcp, err := d.Dial(ctx, "tcp", o.addr)
	if err != nil {
		return nil, err
	}
	if o.scheme != "https" {
		return newConn(tcp, tcp), nil
	}
	conn, err := d.secure(ctx, tcp, o.addr)
	if err != nil {
		return nil, err
	}
	return newConn(conn, tcp), nil
}

// secure puts TLS over a connection to addr. It closes the connection after a failure.
func (d *Dialer) secure(ctx context.Context, tcp net.Conn, addr string) (net.Conn, error) {
	conf := d.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(tcp, conf)
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, &DialError{CodeTLS, err}
	}
	return conn, nil
}

// Dial connects to addr, if the guard allows it. Errors are a [*DialError].
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.timeout, Resolver: d.resolver, ControlContext: d.guard.Control(addr)}
	conn, err := nd.DialContext(ctx, network, d.resolve.of(addr))
	if err == nil {
		return conn, nil
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the dialer noticed the deadline before ctx's timer fired
	}
	if denied, ok := errors.AsType[*Denied](err); ok {
		return nil, &DialError{CodeDenied, denied}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, &DialError{CodeDNS, dns}
	}
	return nil, &DialError{CodeConnection, err}
}
