package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
	"recourse/saga"
	kind "recourse/saga/kinds/http"
)

// newCaller returns a caller that may reach loopback, and checks at the end
// that no goroutine is left. Servers that a test starts after it close first.
func newCaller(t *testing.T, cfg Config) *Caller {
	t.Helper()
	if cfg.Egress.Guard == nil {
		guard, err := egress.NewGuard([]string{"127.0.0.0/8", "::1"})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Egress.Guard = guard
	}
	before := goleak.IgnoreCurrent()
	c := New(cfg)
	t.Cleanup(func() {
		c.Close()
		goleak.VerifyNone(t, before)
	})
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func get(url string) saga.Request { return saga.Request{Method: "GET", URL: url} }

func post(url, body string) saga.Request {
	return saga.Request{Method: "POST", URL: url, Headers: map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k"},
		Body: json.RawMessage(body)}
}

// outcome is what the engine decides by.
type outcome struct {
	Sent   bool
	Status int
	Code   string
	Body   string
}

func of(a saga.Answer) outcome { return outcome{a.Sent, a.Status, a.Code, string(a.Body)} }

// seen is a request that a server has read.
func seen(line, body string, header http.Header, length int64) egresstest.Request {
	return egresstest.Request{Line: line, Body: body, Header: header, Length: length}
}

func TestCallSends(t *testing.T) {
	tests := []struct {
		name string
		req  saga.Request
		want egresstest.Request
	}{
		{"a JSON body goes byte for byte",
			saga.Request{Method: "POST", URL: "/a?b=1", Headers: map[string]string{"content-type": "application/json", "idempotency-key": "k"},
				Body: json.RawMessage(`{ "n": 9007199254740993, "m":19.10, "e":1e400 }`)},
			seen("POST /a?b=1", `{ "n": 9007199254740993, "m":19.10, "e":1e400 }`,
				http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Content-Length": {"47"}}, 47)},
		{"a body without a type is JSON", saga.Request{Method: "PUT", URL: "/", Body: json.RawMessage(`[1]`)},
			seen("PUT /", `[1]`, http.Header{"Content-Type": {"application/json"}, "Content-Length": {"3"}}, 3)},
		{"text goes as text", saga.Request{Method: "POST", URL: "/", Headers: map[string]string{"Content-Type": "text/plain"}, Body: json.RawMessage(`"a\n\"b\""`)},
			seen("POST /", "a\n\"b\"", http.Header{"Content-Type": {"text/plain"}, "Content-Length": {"5"}}, 5)},
		{"a POST without a body says so", saga.Request{Method: "POST", URL: "/"},
			seen("POST /", "", http.Header{"Content-Length": {"0"}}, 0)},
		{"a DELETE without a body", saga.Request{Method: "DELETE", URL: "/x"}, seen("DELETE /x", "", http.Header{}, 0)},
		{"a GET", saga.Request{Method: "GET", URL: "/x%2Fy?q=%20"}, seen("GET /x%2Fy?q=%20", "", http.Header{}, 0)},
		{"its own user agent", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"User-Agent": "mine"}},
			seen("GET /", "", http.Header{"User-Agent": {"mine"}}, 0)},
		{"where in a trace it comes from", saga.Request{Method: "GET", URL: "/", Traceparent: "00-a-b-01"},
			seen("GET /", "", http.Header{"Traceparent": {"00-a-b-01"}}, 0)},
		{"its own trace", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"traceparent": "mine"}, Traceparent: "00-a-b-01"},
			seen("GET /", "", http.Header{"Traceparent": {"mine"}}, 0)},
		{"a range is not compressed", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"Range": "bytes=0-1", "Accept-Encoding": "identity"}},
			seen("GET /", "", http.Header{"Range": {"bytes=0-1"}, "Accept-Encoding": {"identity"}}, 0)},
	}
	c := newCaller(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
			tt.req.URL = s.URL + tt.req.URL
			if got, want := of(c.Call(t.Context(), tt.req)), (outcome{true, 200, "", "{}"}); got != want {
				t.Fatalf("Call = %+v, want %+v", got, want)
			}
			for name, value := range map[string]string{"User-Agent": "recourse", "Accept-Encoding": "gzip"} {
				if tt.want.Header.Get(name) == "" {
					tt.want.Header.Set(name, value)
				}
			}
			if diff := cmp.Diff([]egresstest.Request{tt.want}, s.Requests()); diff != "" {
				t.Errorf("the server saw (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallRefusesToSend(t *testing.T) {
	header := func(name, value string) saga.Request {
		return saga.Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: map[string]string{name: value}}
	}
	tests := []struct {
		name string
		req  saga.Request
		code string
	}{
		{"no scheme", get("pay.example/x"), kind.CodeURLInvalid},
		{"another scheme", get("ftp://pay.example/x"), kind.CodeURLInvalid},
		{"a file", get("file:///etc/passwd"), kind.CodeURLInvalid},
		{"no host", get("http:///x"), kind.CodeURLInvalid},
		{"only a port", get("http://:80/x"), kind.CodeURLInvalid},
		{"opaque", get("http:pay.example"), kind.CodeURLInvalid},
		{"a user", get("http://me:hunter22@pay.example/"), kind.CodeURLInvalid},
		{"port 0", get("http://pay.example:0/"), kind.CodeURLInvalid},
		{"port 65536", get("http://pay.example:65536/"), kind.CodeURLInvalid},
		{"an empty port", get("http://pay.example:/"), kind.CodeURLInvalid},
		{"a space", get("http://pay.example/a b"), kind.CodeURLInvalid},
		{"a line break", get("http://pay.example/a\r\nX: y"), kind.CodeURLInvalid},
		{"a bad escape", get("http://pay.example/%zz"), kind.CodeURLInvalid},
		{"a backslash", get(`http://evil.example\@pay.example/`), kind.CodeURLInvalid},
		{"a decimal address", get("http://2130706433/"), kind.CodeURLInvalid},
		{"an octal address", get("http://0177.0.0.1/"), kind.CodeURLInvalid},
		{"a hex address", get("http://0x7f.0.0.0x1/"), kind.CodeURLInvalid},
		{"a short address", get("http://127.1/"), kind.CodeURLInvalid},
		{"a dotted short address", get("http://127.1./"), kind.CodeURLInvalid},
		{"a method with a space", saga.Request{Method: "GET /x", URL: "http://127.0.0.1:1/"}, kind.CodeRequestInvalid},
		{"no method", saga.Request{URL: "http://127.0.0.1:1/"}, kind.CodeRequestInvalid},
		{"CONNECT", saga.Request{Method: "CONNECT", URL: "http://127.0.0.1:1/"}, kind.CodeRequestInvalid},
		{"CR LF in a value", header("X-A", "a\r\nX-B: c"), kind.CodeRequestInvalid},
		{"NUL in a value", header("X-A", "a\x00"), kind.CodeRequestInvalid},
		{"a bad name", header("X A", "a"), kind.CodeRequestInvalid},
		{"an empty name", header("", "a"), kind.CodeRequestInvalid},
		{"Host", header("host", "other.example"), kind.CodeRequestInvalid},
		{"Content-Length", header("Content-Length", "3"), kind.CodeRequestInvalid},
		{"Transfer-Encoding", header("transfer-encoding", "chunked"), kind.CodeRequestInvalid},
		{"a header twice", saga.Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-A": "1", "x-a": "2"}}, kind.CodeRequestInvalid},
		{"an object as text", saga.Request{Method: "POST", URL: "http://127.0.0.1:1/", Headers: map[string]string{"Content-Type": "text/plain"},
			Body: json.RawMessage(`{}`)}, kind.CodeRequestInvalid},
	}
	c := newCaller(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := c.Call(t.Context(), tt.req)
			if got, want := of(a), (outcome{Code: tt.code}); got != want {
				t.Errorf("Call = %+v, want %+v", got, want)
			}
			if a.Detail == "" || strings.Contains(a.Detail, "hunter22") || strings.ContainsAny(a.Detail, "\r\n\x00") {
				t.Errorf("Detail = %q", a.Detail)
			}
		})
	}
}

func TestCallIsBoundedByItsConnections(t *testing.T) {
	busy, release := make(chan bool), make(chan bool)
	s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
		busy <- true
		<-release
		return egresstest.Say(egresstest.OK)(0, conn)
	})
	c := newCaller(t, Config{Egress: egress.Config{MaxConnsPerHost: 1}})
	first := make(chan saga.Answer, 1)
	go func() { first <- c.Call(context.Background(), post(s.URL, `{}`)) }()
	<-busy
	if got, want := of(c.Call(within(t, 30*time.Millisecond), post(s.URL, `{}`))), (outcome{Code: "timeout"}); got != want {
		t.Errorf("a call that got no connection = %+v, want %+v", got, want)
	}
	close(release)
	if a := <-first; a.Status != 200 {
		t.Errorf("the first call = %+v", a)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

func TestCallInterrupted(t *testing.T) {
	c := newCaller(t, Config{})
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, want := of(c.Call(ctx, post("http://127.0.0.1:1", `{}`))), (outcome{Code: "not_sent"}); got != want {
			t.Errorf("Call = %+v, want %+v", got, want)
		}
	})
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
		t.Run("after "+answer, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
				io.WriteString(conn, answer)
				cancel(errors.New("shutting down"))
				_, _ = io.Copy(io.Discard, conn) // until the caller hangs up
				return false
			})
			a := c.Call(ctx, post(s.URL, `{}`))
			if !a.Sent || a.Code != "interrupted" {
				t.Errorf("Call = %+v, want sent and interrupted", a)
			}
		})
	}
}

func TestNoCookies(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie2: c\r\nETag: \"x\"\r\nVary: a\r\nVary: b\r\nContent-Length: 0\r\n\r\n"))
	a := c.Call(t.Context(), get(s.URL))
	want := saga.Answer{Sent: true, Status: 200, Headers: map[string]string{"etag": `"x"`, "vary": "a, b", "content-length": "0"}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	c.Call(t.Context(), get(s.URL))
	if got := s.Requests()[1].Header.Get("Cookie"); got != "" {
		t.Errorf("the second request has the cookie %q", got)
	}
}
