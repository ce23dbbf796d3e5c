package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"recourse/internal/httptext"
)

// Codes of failures.
const (
	CodeURLInvalid     = "url_invalid"     // not an http(s) URL with a host, or a URL with user:password
	CodeRequestInvalid = "request_invalid" // a method or header that cannot be sent
	CodeDenied         = "egress_denied"   // the guard does not allow the address
	CodeDNS            = "dns"
	CodeConnection     = "connection"
	CodeTLS            = "tls"
	CodeTimeout        = "timeout"     // the context's deadline passed
	CodeInterrupted    = "interrupted" // the context was cancelled after the request may have been sent
	CodeNotSent        = "not_sent"    // the context was cancelled before

	CodeBodyCut      = "body_cut" // the body ended early
	CodeBodyTooLarge = "body_too_large"
	CodeBodyInvalid  = "body_invalid" // it cannot be decompressed
)

// Failure says why there is no response, or no complete body.
type Failure struct {
	Sent bool   // the service may have received a part of the request
	Code string // one of the codes of this package
	// Why is a sentence for people, without URL and headers of the request. It may contain text of
	// the remote service, of any length.
	Why string
}

// Error implements error.
func (f *Failure) Error() string { return f.Code + ": " + f.Why }

// failure describes an error before a response's head was complete.
func failure(ctx context.Context, err error, sent bool) *Failure {
	if before, ok := errors.AsType[*DialError](err); ok && (ctx.Err() == nil || before.Code == CodeDenied) {
		return &Failure{Sent: sent, Code: before.Code, Why: beforeSend(before)}
	}
	if f := ended(ctx, sent); f != nil {
		return f
	}
	code, when := CodeConnection, "no response after the request was sent: "
	if !sent {
		when = "the connection failed before anything was sent: "
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		code = CodeTLS // an alert, after the handshake: a client certificate was refused, for example
	}
	return &Failure{Sent: sent, Code: code, Why: when + root(err)}
}

// ended describes how ctx ended. It returns nil if ctx has not ended.
func ended(ctx context.Context, sent bool) *Failure {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		if sent {
			return &Failure{Sent: true, Code: CodeTimeout, Why: "the timeout passed before the response was complete"}
		}
		return &Failure{Code: CodeTimeout, Why: "the timeout passed before anything was sent"}
	case sent:
		return &Failure{Sent: true, Code: CodeInterrupted, Why: "the call was interrupted after the request was sent"}
	}
	return &Failure{Code: CodeNotSent, Why: "the call was interrupted before anything was sent"}
}

func beforeSend(e *DialError) string {
	switch {
	case e.Code == CodeDenied:
		return e.Err.Error()
	case e.Code == CodeTLS:
		if _, ok := errors.AsType[tls.RecordHeaderError](e.Err); ok {
			return "TLS failed: the remote service does not speak TLS on this port"
		}
		return "TLS failed: " + root(e.Err)
	case e.Code == CodeDNS:
		if dns, ok := errors.AsType[*net.DNSError](e.Err); ok && dns.IsNotFound {
			return "the host name was not found"
		}
		return "the host name could not be looked up: " + root(e.Err)
	}
	return "no connection: " + root(e.Err)
}

// root returns the text of the innermost error, because outer errors repeat addresses and URLs. It
// may contain text of the remote service, of any length.
func root(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the remote service closed the connection"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return httptext.Printable(err.Error())
		}
		err = inner
	}
}
