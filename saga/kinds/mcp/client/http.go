package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga/kinds/mcp"
)

const maxErrorBody = 4 << 10 // bytes of the body of an error that an answer keeps

// httpLink speaks streamable HTTP: each request is one POST, whose response has the reply as JSON,
// or as one of the events of a stream.
type httpLink struct {
	s       *server
	speaks  string
	session string // "": none
	ended   atomic.Bool
	ids     *atomic.Int64
}

// greetHTTP finds out which revision the server speaks, and begins a session if it is the older
// one.
func greetHTTP(ctx context.Context, s *server, k *keys) (link, *failure) {
	l := &httpLink{s: s, speaks: stateless, ids: new(atomic.Int64)}
	rep, f := l.request(ctx, "server/discover", map[string]any{}, "", k)
	switch {
	case f == nil && speaksStateless(rep):
		return l, nil
	case f != nil && (!f.sent || f.status == 0 || f.status == http.StatusUnauthorized || f.status >= 500):
		return nil, f
	}
	old := &httpLink{s: s, speaks: legacy, ids: l.ids}
	rep, header, f := old.exchange(ctx, "initialize", s.initialize(), "", k)
	if f != nil {
		return nil, f
	}
	if old.speaks, f = greeted(rep); f != nil {
		return nil, f
	}
	old.session = header.Get("Mcp-Session-Id")
	if _, _, f := old.post(ctx, 0, "notifications/initialized", nil, "", k); f != nil {
		return nil, f
	}
	return old, nil
}

func (l *httpLink) usable() bool     { return !l.ended.Load() }
func (l *httpLink) revision() string { return l.speaks }
func (l *httpLink) retire() bool     { return true } // requests in flight do not need the link
func (l *httpLink) has(*keys) bool   { return true } // each request has its own
func (l *httpLink) leave()           {}
func (l *httpLink) close()           {}

func (l *httpLink) request(ctx context.Context, method string, params map[string]any, name string, k *keys) (reply, *failure) {
	if l.speaks == stateless {
		params = l.s.withMeta(params)
	}
	rep, _, f := l.exchange(ctx, method, params, name, k)
	return rep, f
}

// exchange sends a request and reads the reply.
func (l *httpLink) exchange(ctx context.Context, method string, params map[string]any, name string, k *keys) (reply, http.Header, *failure) {
	id := l.ids.Add(1)
	rep, resp, f := l.post(ctx, id, method, params, name, k)
	if resp == nil {
		return reply{}, nil, f
	}
	// A server that does not know the session has done nothing: the protocol wants 404, some say
	// 400.
	lost := l.session != "" && (resp.code == http.StatusNotFound || resp.code == http.StatusBadRequest && (f != nil || rep.err != nil && !mcp.Refusal(rep.err.Code)))
	if lost {
		l.ended.Store(true)
		return reply{}, nil, &failure{sent: true, status: resp.code, code: mcp.CodeSessionEnded, why: "it answers with HTTP " + resp.status}
	}
	return rep, resp.header, f
}

// head is an HTTP response without its body.
type head struct {
	code   int
	status string // the code with its text
	header http.Header
}

// post sends one message, and reads the reply if id is not 0. The head is nil if there is no
// response.
func (l *httpLink) post(ctx context.Context, id int64, method string, params map[string]any, name string, k *keys) (reply, *head, *failure) {
	body, err := encode(id, method, params)
	if err != nil {
		return reply{}, nil, &failure{code: egress.CodeRequestInvalid, why: "the message cannot be encoded"}
	}
	header := http.Header{"Content-Type": {httptext.JSON}, "Accept": {"application/json, text/event-stream"}}
	for name, value := range k.values { // any order
		header.Set(name, value)
	}
	if method != "initialize" {
		header.Set("Mcp-Protocol-Version", l.speaks)
	}
	if l.session != "" {
		header.Set("Mcp-Session-Id", l.session)
	}
	if l.speaks == stateless {
		header.Set("Mcp-Method", method)
		if name != "" {
			header.Set("Mcp-Name", headerText(name))
		}
	}
	resp, f := l.s.sender.Send(ctx, egress.Request{Method: http.MethodPost, URL: l.s.address, Header: header, Body: body})
	if f != nil {
		return reply{}, nil, &failure{sent: f.Sent, code: f.Code, why: l.s.address.Host + ": " + f.Why}
	}
	defer resp.Body.Close()
	h := &head{code: resp.StatusCode, status: resp.Status, header: resp.Header}
	if id == 0 {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // a notification has no reply
		if resp.StatusCode > 299 {
			return reply{}, h, &failure{sent: true, status: resp.StatusCode, why: method + ": HTTP " + resp.Status}
		}
		return reply{}, h, nil
	}
	rep, rf := l.read(ctx, resp, id, k)
	if rf != nil {
		rf.sent, rf.status = true, resp.StatusCode
		rf.headers = httptext.KeptHeaders(resp.Header, k.redact)
		rf.retryAfter = retry.After(resp.Header.Get("Retry-After"), l.s.cfg.Now())
	}
	rep.status = resp.StatusCode
	return rep, h, rf
}

// headerText encodes a name for a header, as the protocol says, unless it is plain.
func headerText(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.HasPrefix(name, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	return name
}

func (l *httpLink) read(ctx context.Context, resp *http.Response, id int64, k *keys) (reply, *failure) {
	if httptext.MediaType(resp.Header.Get("Content-Type")) == "text/event-stream" && resp.StatusCode <= 299 {
		return l.stream(ctx, resp.Body, id)
	}
	body, f := egress.ReadBody(ctx, resp, l.s.cfg.MaxBody)
	if f == nil {
		rep, err := decode(body, id)
		if err == nil {
			return rep, nil
		}
		f = &egress.Failure{Code: egress.CodeBodyInvalid, Why: err.Error()}
	}
	if resp.StatusCode > 299 || resp.StatusCode < 200 { // the status is enough; the body is for people
		text := httptext.Clip(k.redact.Part(string(body)), maxErrorBody)
		return reply{}, &failure{body: httptext.EncodeText([]byte(text), nil), why: "HTTP " + resp.Status}
	}
	return reply{}, &failure{code: f.Code, why: l.s.address.Host + ": " + f.Why}
}

// stream reads the events of a response up to the reply.
func (l *httpLink) stream(ctx context.Context, body io.Reader, id int64) (reply, *failure) {
	account := quota.FromContext(ctx)
	in := bufio.NewScanner(body)
	in.Buffer(make([]byte, 0, 4<<10), int(l.s.cfg.MaxBody)+(64<<10))
	var data []byte
	for in.Scan() {
		line := in.Bytes()
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(text, []byte(" "))...), '\n')
			if int64(len(data)) > l.s.cfg.MaxBody {
				return reply{}, &failure{code: egress.CodeBodyTooLarge, why: "an event of the response is larger than the limit"}
			}
			if err := account.Reserve(ctx, int64(len(data))); err != nil {
				f := egress.BodyFailure(ctx, err)
				return reply{}, &failure{code: f.Code, why: f.Why}
			}
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue
		}
		rep, err := decode(data, id)
		if err == nil {
			return rep, nil
		}
		if !errors.Is(err, errOther) {
			return reply{}, &failure{code: egress.CodeBodyInvalid, why: err.Error()}
		}
		data = data[:0]
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return reply{}, &failure{code: egress.CodeBodyTooLarge, why: "an event of the response is larger than the limit"}
	case err != nil:
		f := egress.BodyFailure(ctx, err)
		return reply{}, &failure{code: f.Code, why: l.s.address.Host + ": " + f.Why}
	}
	return reply{}, &failure{code: egress.CodeBodyCut, why: "the stream ended before the response did"}
}
