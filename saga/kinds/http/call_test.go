package http

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"recourse/saga"
)

// wireServer is a server that a test scripts byte by byte.
type wireServer struct {
	url string

	mu   sync.Mutex
	seen []seenRequest
}

type seenRequest struct {
	Line, Body string
	Header     nethttp.Header
	Chunked    bool
	Length     int64
}

// serveWire answers each request with script(n, conn), n counting from 1 over
// all connections; false closes the connection.
func serveWire(t *testing.T, script func(n int, conn *net.TCPConn) bool) *wireServer {
	t.Helper()
	s := &wireServer{}
	s.url = "http://" + serveTCP(t, func(conn *net.TCPConn) { s.serve(conn, script) })
	return s
}

func (s *wireServer) serve(conn *net.TCPConn, script func(int, *net.TCPConn) bool) {
	in := bufio.NewReader(conn)
	for {
		req, err := nethttp.ReadRequest(in)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		s.mu.Lock()
		s.seen = append(s.seen, seenRequest{req.Method + " " + req.RequestURI, string(body), req.Header, len(req.TransferEncoding) > 0, req.ContentLength})
		n := len(s.seen)
		s.mu.Unlock()
		if !script(n, conn) {
			return
		}
	}
}

func (s *wireServer) requests() []seenRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func say(answer string) func(int, *net.TCPConn) bool {
	return func(_ int, conn *net.TCPConn) bool {
		_, err := io.WriteString(conn, answer)
		return err == nil
	}
}

func sayAndClose(answer string) func(int, *net.TCPConn) bool {
	return func(_ int, conn *net.TCPConn) bool { io.WriteString(conn, answer); return false }
}

const ok200 = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// newCaller returns a caller that may reach loopback, and checks at the end
// that no goroutine is left. Servers that a test starts after it close first.
func newCaller(t *testing.T, cfg CallerConfig) *Caller {
	t.Helper()
	if cfg.Guard == nil {
		cfg.Guard = mustGuard(t, "127.0.0.0/8", "::1")
	}
	before := goleak.IgnoreCurrent()
	c := NewCaller(cfg)
	t.Cleanup(func() {
		c.Close()
		goleak.VerifyNone(t, before)
	})
	return c
}

func mustGuard(t *testing.T, allow ...string) *Guard {
	t.Helper()
	g, err := NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
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

func TestCallSends(t *testing.T) {
	tests := []struct {
		name string
		req  saga.Request
		want seenRequest
	}{
		{"a JSON body goes byte for byte",
			saga.Request{Method: "POST", URL: "/a?b=1", Headers: map[string]string{"content-type": "application/json", "idempotency-key": "k"},
				Body: json.RawMessage(`{ "n": 9007199254740993, "m":19.10, "e":1e400 }`)},
			seenRequest{"POST /a?b=1", `{ "n": 9007199254740993, "m":19.10, "e":1e400 }`,
				nethttp.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Content-Length": {"47"}}, false, 47}},
		{"a body without a type is JSON", saga.Request{Method: "PUT", URL: "/", Body: json.RawMessage(`[1]`)},
			seenRequest{"PUT /", `[1]`, nethttp.Header{"Content-Type": {"application/json"}, "Content-Length": {"3"}}, false, 3}},
		{"text goes as text", saga.Request{Method: "POST", URL: "/", Headers: map[string]string{"Content-Type": "text/plain"}, Body: json.RawMessage(`"a\n\"b\""`)},
			seenRequest{"POST /", "a\n\"b\"", nethttp.Header{"Content-Type": {"text/plain"}, "Content-Length": {"5"}}, false, 5}},
		{"a POST without a body says so", saga.Request{Method: "POST", URL: "/"},
			seenRequest{"POST /", "", nethttp.Header{"Content-Length": {"0"}}, false, 0}},
		{"a DELETE without a body", saga.Request{Method: "DELETE", URL: "/x"}, seenRequest{"DELETE /x", "", nethttp.Header{}, false, 0}},
		{"a GET", saga.Request{Method: "GET", URL: "/x%2Fy?q=%20"}, seenRequest{"GET /x%2Fy?q=%20", "", nethttp.Header{}, false, 0}},
		{"its own user agent", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"User-Agent": "mine"}},
			seenRequest{"GET /", "", nethttp.Header{"User-Agent": {"mine"}}, false, 0}},
		{"where in a trace it comes from", saga.Request{Method: "GET", URL: "/", Traceparent: "00-a-b-01"},
			seenRequest{"GET /", "", nethttp.Header{"Traceparent": {"00-a-b-01"}}, false, 0}},
		{"its own trace", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"traceparent": "mine"}, Traceparent: "00-a-b-01"},
			seenRequest{"GET /", "", nethttp.Header{"Traceparent": {"mine"}}, false, 0}},
		{"a range is not compressed", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"Range": "bytes=0-1", "Accept-Encoding": "identity"}},
			seenRequest{"GET /", "", nethttp.Header{"Range": {"bytes=0-1"}, "Accept-Encoding": {"identity"}}, false, 0}},
	}
	c := newCaller(t, CallerConfig{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveWire(t, say(ok200))
			tt.req.URL = s.url + tt.req.URL
			if got, want := of(c.Call(t.Context(), tt.req)), (outcome{true, 200, "", "{}"}); got != want {
				t.Fatalf("Call = %+v, want %+v", got, want)
			}
			for name, value := range map[string]string{"User-Agent": "recourse", "Accept-Encoding": "gzip"} {
				if tt.want.Header.Get(name) == "" {
					tt.want.Header.Set(name, value)
				}
			}
			if diff := cmp.Diff([]seenRequest{tt.want}, s.requests()); diff != "" {
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
		{"no scheme", get("pay.example/x"), CodeURLInvalid},
		{"another scheme", get("ftp://pay.example/x"), CodeURLInvalid},
		{"a file", get("file:///etc/passwd"), CodeURLInvalid},
		{"no host", get("http:///x"), CodeURLInvalid},
		{"only a port", get("http://:80/x"), CodeURLInvalid},
		{"opaque", get("http:pay.example"), CodeURLInvalid},
		{"a user", get("http://me:hunter22@pay.example/"), CodeURLInvalid},
		{"port 0", get("http://pay.example:0/"), CodeURLInvalid},
		{"port 65536", get("http://pay.example:65536/"), CodeURLInvalid},
		{"an empty port", get("http://pay.example:/"), CodeURLInvalid},
		{"a space", get("http://pay.example/a b"), CodeURLInvalid},
		{"a line break", get("http://pay.example/a\r\nX: y"), CodeURLInvalid},
		{"a bad escape", get("http://pay.example/%zz"), CodeURLInvalid},
		{"a backslash", get(`http://evil.example\@pay.example/`), CodeURLInvalid},
		{"a decimal address", get("http://2130706433/"), CodeURLInvalid},
		{"an octal address", get("http://0177.0.0.1/"), CodeURLInvalid},
		{"a hex address", get("http://0x7f.0.0.0x1/"), CodeURLInvalid},
		{"a short address", get("http://127.1/"), CodeURLInvalid},
		{"a dotted short address", get("http://127.1./"), CodeURLInvalid},
		{"a method with a space", saga.Request{Method: "GET /x", URL: "http://127.0.0.1:1/"}, CodeRequestInvalid},
		{"no method", saga.Request{URL: "http://127.0.0.1:1/"}, CodeRequestInvalid},
		{"CONNECT", saga.Request{Method: "CONNECT", URL: "http://127.0.0.1:1/"}, CodeRequestInvalid},
		{"CR LF in a value", header("X-A", "a\r\nX-B: c"), CodeRequestInvalid},
		{"NUL in a value", header("X-A", "a\x00"), CodeRequestInvalid},
		{"a bad name", header("X A", "a"), CodeRequestInvalid},
		{"an empty name", header("", "a"), CodeRequestInvalid},
		{"Host", header("host", "other.example"), CodeRequestInvalid},
		{"Content-Length", header("Content-Length", "3"), CodeRequestInvalid},
		{"Transfer-Encoding", header("transfer-encoding", "chunked"), CodeRequestInvalid},
		{"a header twice", saga.Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-A": "1", "x-a": "2"}}, CodeRequestInvalid},
		{"an object as text", saga.Request{Method: "POST", URL: "http://127.0.0.1:1/", Headers: map[string]string{"Content-Type": "text/plain"},
			Body: json.RawMessage(`{}`)}, CodeRequestInvalid},
	}
	c := newCaller(t, CallerConfig{})
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
	s := serveWire(t, func(_ int, conn *net.TCPConn) bool {
		busy <- true
		<-release
		return say(ok200)(0, conn)
	})
	c := newCaller(t, CallerConfig{MaxConnsPerHost: 1})
	first := make(chan saga.Answer, 1)
	go func() { first <- c.Call(context.Background(), post(s.url, `{}`)) }()
	<-busy
	if got, want := of(c.Call(within(t, 30*time.Millisecond), post(s.url, `{}`))), (outcome{Code: "timeout"}); got != want {
		t.Errorf("a call that got no connection = %+v, want %+v", got, want)
	}
	close(release)
	if a := <-first; a.Status != 200 {
		t.Errorf("the first call = %+v", a)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

func TestCallInterrupted(t *testing.T) {
	c := newCaller(t, CallerConfig{})
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
			s := serveWire(t, func(_ int, conn *net.TCPConn) bool {
				io.WriteString(conn, answer)
				cancel(errors.New("shutting down"))
				io.Copy(io.Discard, conn) // until the caller hangs up
				return false
			})
			a := c.Call(ctx, post(s.url, `{}`))
			if !a.Sent || a.Code != "interrupted" {
				t.Errorf("Call = %+v, want sent and interrupted", a)
			}
		})
	}
}

func TestNoCookies(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie2: c\r\nETag: \"x\"\r\nVary: a\r\nVary: b\r\nContent-Length: 0\r\n\r\n"))
	a := c.Call(t.Context(), get(s.url))
	want := saga.Answer{Sent: true, Status: 200, Headers: map[string]string{"etag": `"x"`, "vary": "a, b", "content-length": "0"}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	c.Call(t.Context(), get(s.url))
	if got := s.requests()[1].Header.Get("Cookie"); got != "" {
		t.Errorf("the second request has the cookie %q", got)
	}
}
