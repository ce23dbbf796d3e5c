package http

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"recourse/internal/httptext"
	"recourse/saga"
)

func gzipped(t *testing.T, content []byte) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(content)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func response(status int, headers, body string) string {
	if headers != "" {
		headers += "\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

func TestFaultsAfterSending(t *testing.T) {
	const limit = 1000
	const asJSON = "Content-Type: application/json"
	gz := func(content string) string { return gzipped(t, []byte(content)) }
	hundred := `"` + strings.Repeat("a", limit-2) + `"`
	tests := []struct {
		name   string
		script func(int, *net.TCPConn) bool
		want   outcome
	}{
		{"close without an answer", sayAndClose(""), outcome{true, 0, "connection", ""}},
		{"close in the head", sayAndClose("HTTP/1.1 200 OK\r\nContent-"), outcome{true, 0, "connection", ""}},
		{"reset in the head", func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nCont")
			conn.SetLinger(0)
			return false
		}, outcome{true, 0, "connection", ""}},
		{"not HTTP", sayAndClose("SSH-2.0-OpenSSH\r\n"), outcome{true, 0, "connection", ""}},
		{"a status below 100", sayAndClose("HTTP/1.1 099 X\r\nContent-Length: 84\r\n\r\n" + ok200), outcome{true, 0, "connection", ""}},
		{"a huge head", sayAndClose("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 0\r\n\r\n"), outcome{true, 0, "connection", ""}},
		{"another protocol", sayAndClose("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), outcome{true, 101, "connection", ""}},
		{"informational heads first", sayAndClose("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok200), outcome{true, 200, "", "{}"}},

		{"cut body", sayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\n{}"), outcome{true, 200, "body_cut", ""}},
		{"cut to nothing", sayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\n"), outcome{true, 200, "body_cut", ""}},
		{"reset in the body", func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, "HTTP/1.1 201 X\r\nContent-Length: 10\r\n\r\n{}")
			conn.SetLinger(0)
			return false
		}, outcome{true, 201, "body_cut", ""}},
		{"broken chunk", sayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n"), outcome{true, 200, "body_cut", ""}},
		{"missing last chunk", sayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), outcome{true, 200, "body_cut", ""}},
		{"chunks", sayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), outcome{true, 200, "", "{}"}},
		{"cut body until close, JSON", sayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\n\r\n{\"a\":"), outcome{true, 200, "body_invalid", ""}},

		{"at the limit", sayAndClose(response(200, asJSON, hundred)), outcome{true, 200, "", hundred}},
		{"over the limit", sayAndClose(response(200, asJSON, hundred+" ")), outcome{true, 200, "body_too_large", ""}},
		{"over the limit, refused", sayAndClose(response(402, asJSON, hundred+" ")), outcome{true, 402, "", quoted(hundred)}},
		{"invalid JSON", sayAndClose(response(200, asJSON, `{"a":}`)), outcome{true, 200, "body_invalid", ""}},
		{"invalid JSON, refused", sayAndClose(response(400, asJSON, `<html>`)), outcome{true, 400, "", `"<html>"`}},
		{"cut body, failed", sayAndClose("HTTP/1.1 500 X\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\noh no"), outcome{true, 500, "", `"oh no"`}},

		{"gzip", sayAndClose(response(200, asJSON+"\r\nContent-Encoding: gzip", gz(`{"n": 19.10}`))), outcome{true, 200, "", `{"n":19.10}`}},
		{"gzip at the limit", sayAndClose(response(200, asJSON+"\r\nContent-Encoding: gzip", gz(hundred))), outcome{true, 200, "", hundred}},
		{"gzip bomb", sayAndClose(response(200, asJSON+"\r\nContent-Encoding: gzip", gz(strings.Repeat("0", 8<<20)))), outcome{true, 200, "body_too_large", ""}},
		{"gzip of empty members", sayAndClose(response(200, "Content-Encoding: gzip", strings.Repeat(gz(""), 4000))), outcome{true, 200, "body_too_large", ""}},
		{"gzip cut off", sayAndClose(response(200, "Content-Encoding: gzip", gz(hundred)[:20])), outcome{true, 200, "body_cut", ""}},
		{"gzip cut by the connection", sayAndClose("HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 999\r\n\r\n" + gz("x")), outcome{true, 200, "body_cut", ""}},
		{"gzip corrupt", sayAndClose(response(200, "Content-Encoding: gzip", "not gzip at all")), outcome{true, 200, "body_invalid", ""}},
		{"gzip checksum", sayAndClose(response(200, "Content-Encoding: gzip", corrupt(gz("hello")))), outcome{true, 200, "body_invalid", ""}},
		{"gzip of nothing", sayAndClose(response(200, asJSON+"\r\nContent-Encoding: gzip", "")), outcome{true, 200, "", ""}},
		{"an encoding nobody asked for", sayAndClose(response(200, "Content-Encoding: br", "xx")), outcome{true, 200, "body_invalid", ""}},
	}
	c := newCaller(t, CallerConfig{MaxBody: limit})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveWire(t, tt.script)
			a := c.Call(within(t, 10*time.Second), post(s.url+"/pay?token=hunter22", `{}`))
			if got := of(a); got != tt.want {
				t.Errorf("Call = %+v (%s), want %+v", got, a.Detail, tt.want)
			}
			if (a.Code == "") != (a.Detail == "") || strings.Contains(a.Detail, "hunter22") {
				t.Errorf("Code %q with Detail %q", a.Code, a.Detail)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("the server saw %d requests, want 1", n)
			}
		})
	}
}

// TestBombCostsNoMemory: 16 MiB that arrive as 16 KiB are not unpacked.
func TestBombCostsNoMemory(t *testing.T) {
	c := newCaller(t, CallerConfig{MaxBody: 1000})
	s := serveWire(t, sayAndClose(response(200, "Content-Encoding: gzip", gzipped(t, make([]byte, 16<<20)))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := c.Call(t.Context(), get(s.url))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; a.Code != "body_too_large" || used > 4<<20 {
		t.Errorf("Code %q with %d bytes allocated, want body_too_large with less than 4 MiB", a.Code, used)
	}
}

// TestUnreadBodiesAreClosed: a connection whose body is not wanted to its end is hung up.
func TestUnreadBodiesAreClosed(t *testing.T) {
	c := newCaller(t, CallerConfig{MaxBody: 10})
	for _, head := range []string{"HTTP/1.1 200 OK\r\n", "HTTP/1.1 500 X\r\n", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n"} {
		hungUp := make(chan bool, 1)
		s := serveWire(t, func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, head+"Content-Length: 100000\r\n\r\n"+strings.Repeat("x", 200))
			io.Copy(io.Discard, conn)
			hungUp <- true
			return false
		})
		a := c.Call(t.Context(), get(s.url))
		select {
		case <-hungUp:
		case <-time.After(time.Minute):
			t.Errorf("after %+v the connection is still open", a)
		}
	}
}

func quoted(s string) string { return string(httptext.QuoteJSON(s)) }

func corrupt(gz string) string {
	b := []byte(gz)
	b[len(b)-8] ^= 1 // the checksum
	return string(b)
}

func TestSlowAnswers(t *testing.T) {
	drip := func(head string) func(int, *net.TCPConn) bool {
		return func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, head)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return false
				}
			}
			return false
		}
	}
	tests := []struct {
		name   string
		script func(int, *net.TCPConn) bool
		want   outcome
	}{
		{"never", func(_ int, conn *net.TCPConn) bool { io.Copy(io.Discard, conn); return false }, outcome{true, 0, "timeout", ""}},
		{"a dripping head", drip("HTTP/1.1 200 OK\r\nX-Slow: "), outcome{true, 0, "timeout", ""}},
		{"a dripping body", drip("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), outcome{true, 200, "timeout", ""}},
	}
	c := newCaller(t, CallerConfig{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveWire(t, tt.script)
			if got := of(c.Call(within(t, 400*time.Millisecond), post(s.url, `{}`))); got != tt.want {
				t.Errorf("Call = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFaultsBeforeSending(t *testing.T) {
	plain := serveWire(t, say(ok200))
	secure := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) { io.WriteString(w, "{}") }))
	secure.Config.ErrorLog = quietLog()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	hangup := serveHangup(t)
	c := newCaller(t, CallerConfig{Resolver: fakeDNS(t, nil)})
	tests := []struct {
		name, url, code string
	}{
		{"refused", "http://" + refusedAddr(t), "connection"},
		{"no such name", "http://nowhere.test/", "dns"},
		{"an unknown authority", secure.URL, "tls"},
		{"no TLS on this port", strings.Replace(plain.url, "http:", "https:", 1), "tls"},
		{"a hang-up in the handshake", "https://" + hangup, "tls"},
		{"a private address", "http://10.255.0.1/", "egress_denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := c.Call(within(t, 10*time.Second), post(tt.url+"?token=hunter22", `{}`))
			if got, want := of(a), (outcome{Code: tt.code}); got != want {
				t.Errorf("Call = %+v (%s), want %+v", got, a.Detail, want)
			}
			if a.Detail == "" || strings.Contains(a.Detail, "hunter22") {
				t.Errorf("Detail = %q", a.Detail)
			}
		})
	}
	if n := len(plain.requests()); n != 0 {
		t.Errorf("the server saw %d requests, want none", n)
	}
}

func TestTLS(t *testing.T) {
	var clientAuth tls.ClientAuthType
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quietLog()
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		conf := s.TLS.Clone()
		conf.GetConfigForClient, conf.ClientAuth = nil, clientAuth
		return conf, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := newCaller(t, CallerConfig{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	for range 2 {
		if got, want := of(c.Call(within(t, 10*time.Second), get(s.URL))), (outcome{true, 200, "", `"HTTP/1.1"`}); got != want {
			t.Fatalf("Call = %+v, want %+v", got, want)
		}
	}
	c.Close()
	// Under TLS 1.3 the refusal of a client comes after its handshake: the request may have left.
	clientAuth = tls.RequireAnyClientCert
	if a := c.Call(within(t, 10*time.Second), get(s.URL)); a.Code != "tls" && !(a.Sent && a.Code == "connection") {
		t.Errorf("a refused client = %+v, want tls, or connection after sending", a)
	}
}

// It is a timeout whether the dialer or the context notices first that the time is up.
func TestTimeoutWhileConnecting(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	for i := range 500 {
		c.Close() // what is kept needs no connecting
		a := c.Call(within(t, time.Duration(i)*time.Microsecond), post(s.url, `{}`))
		if a.Code != "" && a.Code != "timeout" {
			t.Fatalf("after %d µs: %+v", i, a)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCaller(t, CallerConfig{Now: func() time.Time { return now }})
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "9223372037": 24 * time.Hour, "soon": 0,
	} {
		for _, status := range []int{429, 503} {
			s := serveWire(t, say(response(status, "Retry-After: "+header, "")))
			if got := c.Call(t.Context(), post(s.url, `{}`)); got.RetryAfter != want || got.Status != status || got.Code != "" {
				t.Errorf("Retry-After %q = %+v, want %v", header, got, want)
			}
		}
	}
}

// The error depends on the bytes that the remote service may have received, not on the bytes that
// were to be written.
func TestPartsThatLeft(t *testing.T) {
	for _, read := range []int{0, 1} {
		near, far := net.Pipe() // a write goes on until the other end has read it all
		defer far.Close()
		c := newCaller(t, CallerConfig{})
		c.pool.dial = func(context.Context, origin) (*wire, error) { return newWire(near, near), nil }
		go io.CopyN(io.Discard, far, int64(read))
		a := c.Call(within(t, 30*time.Millisecond), post("http://127.0.0.1", `{}`))
		if got, want := of(a), (outcome{Sent: read > 0, Code: "timeout"}); got != want {
			t.Errorf("%d bytes were read: Call = %+v, want %+v", read, got, want)
		}
	}
}

// TestLargeRequests: neither side may wait for the other to read, and a refusal
// that comes before the request was read is an answer.
func TestLargeRequests(t *testing.T) {
	body := `"` + strings.Repeat("x", 3<<20) + `"`
	tests := []struct {
		name   string
		server func(net.Conn)
		want   outcome
	}{
		{"echoed while it is read", func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n")
			in := bufio.NewReader(conn)
			if _, err := nethttp.ReadRequest(in); err == nil {
				io.CopyN(conn, in, int64(len(body)))
			}
		}, outcome{true, 200, "", body}},
		{"refused unread", func(conn net.Conn) {
			io.WriteString(conn, response(413, "", "too large"))
			time.Sleep(100 * time.Millisecond)
		}, outcome{true, 413, "", `"too large"`}},
		{"hung up on", func(conn net.Conn) { io.CopyN(io.Discard, conn, 1) }, outcome{true, 0, "connection", ""}},
		{"never read", func(conn net.Conn) { time.Sleep(2 * time.Second) }, outcome{true, 0, "timeout", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, CallerConfig{})
			addr := serveTCP(t, func(conn *net.TCPConn) { tt.server(conn) })
			if got := of(c.Call(within(t, time.Second), post("http://"+addr, body))); got != tt.want {
				got.Body = httptext.Clip(got.Body, 100)
				t.Errorf("Call = %+v, want %d %s", got, tt.want.Status, tt.want.Code)
			}
		})
	}
}

func of200(a saga.Answer) bool { return a.Status == 200 && a.Code == "" }
func TestPrefixKeepsCharactersWhole(t *testing.T) {
	for body, want := range map[string]string{"abcdef": "abcd", "abcé!!": "abc", "a€€!!": "a€", "\x80\x80\x80\x80\x80\x80": "\x80\x80\x80\x80", "abc": "abc"} {
		if got := string(prefix([]byte(body), 4)); got != want {
			t.Errorf("prefix(%q, 4) = %q, want %q", body, got, want)
		}
	}
}
