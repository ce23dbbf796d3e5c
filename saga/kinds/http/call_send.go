package http

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	nethttp "net/http"

	"recourse/internal/httptext"
	"recourse/saga"
)

// send sends a request once. It returns a response whose head is complete, or nil and the answer
// that says why there is none. The response's body must be closed.
//
// If certainly nothing was sent on a kept connection, the request is sent on a new one. It is still
// sent only once, and a dead connection does not cost an attempt.
func (c *Caller) send(ctx context.Context, o *outgoing) (*nethttp.Response, saga.Answer) {
	l, err := c.pool.enter(ctx, originOf(o.url))
	if err != nil {
		return nil, o.failure(ctx, err, false)
	}
	if w := c.pool.kept(l); w != nil {
		resp, sent, err := c.pool.send(ctx, l, w, o)
		if err == nil {
			return resp, saga.Answer{}
		}
		if sent || ctx.Err() != nil {
			c.pool.leave(l, nil)
			return nil, o.failure(ctx, err, sent)
		}
	}
	sent := false
	w, err := c.pool.dial(ctx, l.origin)
	if err == nil {
		var resp *nethttp.Response
		if resp, sent, err = c.pool.send(ctx, l, w, o); err == nil {
			return resp, saga.Answer{}
		}
	}
	c.pool.leave(l, nil)
	return nil, o.failure(ctx, err, sent)
}

func (o *outgoing) failure(ctx context.Context, err error, sent bool) saga.Answer {
	code, why := Reason(ctx, err, sent)
	return saga.Answer{Sent: sent, Code: code, Detail: o.shown + ": " + why}
}

// Reason returns a code and a description of a failure to get a response head.
func Reason(ctx context.Context, err error, sent bool) (code, why string) {
	if before, ok := errors.AsType[*DialError](err); ok && (ctx.Err() == nil || before.Code == "egress_denied") {
		return before.Code, beforeSend(before)
	}
	if code, why := ended(ctx, sent); code != "" {
		return code, why
	}
	code, when := "connection", "no answer after the request was sent: "
	if !sent {
		when = "the connection failed before anything was sent: "
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		code = "tls" // an alert, after the handshake: a client certificate was refused, for example
	}
	return code, when + root(err)
}

// ended describes how ctx ended. The code is "" if it has not ended.
func ended(ctx context.Context, sent bool) (code, why string) {
	switch {
	case ctx.Err() == nil:
		return "", ""
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		if sent {
			return "timeout", "the timeout passed before the answer was complete"
		}
		return "timeout", "the timeout passed before anything was sent"
	case sent:
		return "interrupted", "the call was interrupted after the request was sent"
	}
	return "not_sent", "the call was interrupted before anything was sent"
}

func beforeSend(e *DialError) string {
	switch {
	case e.Code == "egress_denied":
		return e.Err.Error()
	case e.Code == "tls":
		if _, ok := errors.AsType[tls.RecordHeaderError](e.Err); ok {
			return "TLS failed: the remote service does not speak TLS on this port"
		}
		return "TLS failed: " + root(e.Err)
	case e.Code == "dns":
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
