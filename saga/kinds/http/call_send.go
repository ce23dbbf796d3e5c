package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptrace"

	"recourse/saga"
)

// send sends a request once. It returns a response whose head is complete, or
// nil and the answer that says why there is none.
//
// net/http sends a request again when a kept connection turns out to be dead,
// if it holds the request to be replayable: GET and HEAD, and anything with an
// Idempotency-Key, while the body is nil or has a GetBody (Request.isReplayable).
// So no request here has a nil body or a GetBody. An empty body that is not nil
// would be sent as chunks, except by methods that usually have none; the others
// go on a connection of their own, where net/http never resends.
//
// If surely nothing left on a kept connection, the request is sent on a new
// one: it is still one send, and a dead connection costs no attempt.
func (c *Caller) send(ctx context.Context, o *outgoing) (*nethttp.Response, saga.Answer) {
	via := c.pooled
	if len(o.body) == 0 && !usuallyBodyless(o.method) {
		via = c.lone
	}
	resp, a, stale := c.exchange(ctx, via, o)
	if stale {
		resp, a, _ = c.exchange(ctx, c.lone, o)
	}
	return resp, a
}

// usuallyBodyless lists the methods for which net/http looks whether the body
// is empty before it announces one (requestMethodUsuallyLacksBody).
func usuallyBodyless(method string) bool {
	switch method {
	case "GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND", "SEARCH":
		return true
	}
	return false
}

func (c *Caller) exchange(ctx context.Context, via *nethttp.Transport, o *outgoing) (resp *nethttp.Response, a saga.Answer, stale bool) {
	var got httptrace.GotConnInfo
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		got = info
		if w, ok := info.Conn.(*wire); ok {
			w.begin()
		}
	}}
	req := (&nethttp.Request{
		Method: o.method, URL: o.url, Host: o.url.Host, Header: o.header, // which nobody changes any more
		Body: io.NopCloser(bytes.NewReader(o.body)), ContentLength: int64(len(o.body)),
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if via == c.lone && len(o.body) == 0 {
		req.Body = nil
	}
	resp, err := via.RoundTrip(req)
	if err == nil {
		return resp, saga.Answer{}, false
	}
	w, _ := got.Conn.(*wire)
	sent := got.Conn != nil && (w == nil || !w.unsent())
	code, why := reason(ctx, err, sent)
	a = saga.Answer{Sent: sent, Code: code, Detail: o.shown + ": " + why}
	return nil, a, got.Reused && !sent && ctx.Err() == nil
}

// reason names a failure to get a response head, and says it in words.
func reason(ctx context.Context, err error, sent bool) (code, why string) {
	if before, ok := errors.AsType[*dialError](err); ok && !sent {
		return before.code, beforeSend(before)
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

// ended says how ctx ended, with "" if it did not.
func ended(ctx context.Context, sent bool) (code, why string) {
	switch {
	case ctx.Err() == nil:
		return "", ""
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		if sent {
			return "timeout", "the time-out passed before the answer was complete"
		}
		return "timeout", "the time-out passed before anything was sent"
	case sent:
		return "interrupted", "the call was interrupted after the request was sent"
	}
	return "not_sent", "the call was interrupted before anything was sent"
}

func beforeSend(e *dialError) string {
	switch {
	case e.code == "egress_denied":
		return e.err.Error()
	case e.code == "tls":
		if _, ok := errors.AsType[tls.RecordHeaderError](e.err); ok {
			return "TLS failed: the other side does not speak TLS on this port"
		}
		return "TLS failed: " + root(e.err)
	case e.code == "dns":
		if dns, ok := errors.AsType[*net.DNSError](e.err); ok && dns.IsNotFound {
			return "the host name was not found"
		}
		return "the host name could not be looked up: " + root(e.err)
	}
	return "no connection: " + root(e.err)
}

// root is the innermost error's text, shortened: outer ones repeat addresses
// and URLs.
func root(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the other side closed the connection"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return clip(printable(err.Error()), 200)
		}
		err = inner
	}
}
