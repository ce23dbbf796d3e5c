package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
	"recourse/internal/httptext"
	"recourse/saga"
)

func gzipped(t *testing.T, content []byte) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(content)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

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
		{"close without an answer", egresstest.SayAndClose(""), outcome{true, 0, "connection", ""}},
		{"close in the head", egresstest.SayAndClose("HTTP/1.1 200 OK\r\nContent-"), outcome{true, 0, "connection", ""}},
		{"reset in the head", func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nCont")
			_ = conn.SetLinger(0)
			return false
		}, outcome{true, 0, "connection", ""}},
		{"not HTTP", egresstest.SayAndClose("SSH-2.0-OpenSSH\r\n"), outcome{true, 0, "connection", ""}},
		{"a status below 100", egresstest.SayAndClose("HTTP/1.1 099 X\r\nContent-Length: 84\r\n\r\n" + egresstest.OK), outcome{true, 0, "connection", ""}},
		{"a huge head", egresstest.SayAndClose("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 0\r\n\r\n"), outcome{true, 0, "connection", ""}},
		{"another protocol", egresstest.SayAndClose("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), outcome{true, 101, "connection", ""}},
		{"informational heads first", egresstest.SayAndClose("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + egresstest.OK), outcome{true, 200, "", "{}"}},

		{"cut body", egresstest.SayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\n{}"), outcome{true, 200, "body_cut", ""}},
		{"cut to nothing", egresstest.SayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\n"), outcome{true, 200, "body_cut", ""}},
		{"reset in the body", func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, "HTTP/1.1 201 X\r\nContent-Length: 10\r\n\r\n{}")
			_ = conn.SetLinger(0)
			return false
		}, outcome{true, 201, "body_cut", ""}},
		{"broken chunk", egresstest.SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n"), outcome{true, 200, "body_cut", ""}},
		{"missing last chunk", egresstest.SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), outcome{true, 200, "body_cut", ""}},
		{"chunks", egresstest.SayAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), outcome{true, 200, "", "{}"}},
		{"cut body until close, JSON", egresstest.SayAndClose("HTTP/1.1 200 OK\r\n" + asJSON + "\r\n\r\n{\"a\":"), outcome{true, 200, "body_invalid", ""}},

		{"at the limit", egresstest.SayAndClose(egresstest.Response(200, asJSON, hundred)), outcome{true, 200, "", hundred}},
		{"over the limit", egresstest.SayAndClose(egresstest.Response(200, asJSON, hundred+" ")), outcome{true, 200, "body_too_large", ""}},
		{"over the limit, refused", egresstest.SayAndClose(egresstest.Response(402, asJSON, hundred+" ")), outcome{true, 402, "", quoted(hundred)}},
		{"invalid JSON", egresstest.SayAndClose(egresstest.Response(200, asJSON, `{"a":}`)), outcome{true, 200, "body_invalid", ""}},
		{"invalid JSON, refused", egresstest.SayAndClose(egresstest.Response(400, asJSON, `<html>`)), outcome{true, 400, "", `"<html>"`}},
		{"cut body, failed", egresstest.SayAndClose("HTTP/1.1 500 X\r\n" + asJSON + "\r\nContent-Length: 10\r\n\r\noh no"), outcome{true, 500, "", `"oh no"`}},

		{"gzip", egresstest.SayAndClose(egresstest.Response(200, asJSON+"\r\nContent-Encoding: gzip", gz(`{"n": 19.10}`))), outcome{true, 200, "", `{"n":19.10}`}},
		{"gzip at the limit", egresstest.SayAndClose(egresstest.Response(200, asJSON+"\r\nContent-Encoding: gzip", gz(hundred))), outcome{true, 200, "", hundred}},
		{"gzip bomb", egresstest.SayAndClose(egresstest.Response(200, asJSON+"\r\nContent-Encoding: gzip", gz(strings.Repeat("0", 8<<20)))), outcome{true, 200, "body_too_large", ""}},
		{"gzip of empty members", egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: gzip", strings.Repeat(gz(""), 4000))), outcome{true, 200, "body_too_large", ""}},
		{"gzip cut off", egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: gzip", gz(hundred)[:20])), outcome{true, 200, "body_cut", ""}},
		{"gzip cut by the connection", egresstest.SayAndClose("HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 999\r\n\r\n" + gz("x")), outcome{true, 200, "body_cut", ""}},
		{"gzip corrupt", egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: gzip", "not gzip at all")), outcome{true, 200, "body_invalid", ""}},
		{"gzip checksum", egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: gzip", corrupt(gz("hello")))), outcome{true, 200, "body_invalid", ""}},
		{"gzip of nothing", egresstest.SayAndClose(egresstest.Response(200, asJSON+"\r\nContent-Encoding: gzip", "")), outcome{true, 200, "", ""}},
		{"an encoding nobody asked for", egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: br", "xx")), outcome{true, 200, "body_invalid", ""}},
	}
	c := newCaller(t, Config{MaxBody: limit})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := egresstest.Serve(t, tt.script)
			a := c.Call(within(t, 10*time.Second), post(s.URL+"/pay?token=hunter22", `{}`))
			if got := of(a); got != tt.want {
				t.Errorf("Call = %+v (%s), want %+v", got, a.Detail, tt.want)
			}
			if (a.Code == "") != (a.Detail == "") || strings.Contains(a.Detail, "hunter22") {
				t.Errorf("Code %q with Detail %q", a.Code, a.Detail)
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("the server saw %d requests, want 1", n)
			}
		})
	}
}

// 16 MiB that arrive as 16 KiB are not decompressed.
func TestBombCostsNoMemory(t *testing.T) {
	c := newCaller(t, Config{MaxBody: 1000})
	s := egresstest.Serve(t, egresstest.SayAndClose(egresstest.Response(200, "Content-Encoding: gzip", gzipped(t, make([]byte, 16<<20)))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := c.Call(t.Context(), get(s.URL))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; a.Code != "body_too_large" || used > 4<<20 {
		t.Errorf("Code %q with %d bytes allocated, want body_too_large with less than 4 MiB", a.Code, used)
	}
}

// A connection is closed if the body of its response is not read to its end.
func TestUnreadBodiesAreClosed(t *testing.T) {
	c := newCaller(t, Config{MaxBody: 10})
	for _, head := range []string{"HTTP/1.1 200 OK\r\n", "HTTP/1.1 500 X\r\n", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n"} {
		hungUp := make(chan bool, 1)
		s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, head+"Content-Length: 100000\r\n\r\n"+strings.Repeat("x", 200))
			_, _ = io.Copy(io.Discard, conn)
			hungUp <- true
			return false
		})
		a := c.Call(t.Context(), get(s.URL))
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
		{"never", func(_ int, conn *net.TCPConn) bool { _, _ = io.Copy(io.Discard, conn); return false }, outcome{true, 0, "timeout", ""}},
		{"a dripping head", drip("HTTP/1.1 200 OK\r\nX-Slow: "), outcome{true, 0, "timeout", ""}},
		{"a dripping body", drip("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), outcome{true, 200, "timeout", ""}},
	}
	c := newCaller(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := egresstest.Serve(t, tt.script)
			if got := of(c.Call(within(t, 400*time.Millisecond), post(s.URL, `{}`))); got != tt.want {
				t.Errorf("Call = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFaultsBeforeSending(t *testing.T) {
	plain := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }))
	secure.Config.ErrorLog = quietLog()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	hangup := egresstest.ServeTCP(t, func(*net.TCPConn) {})
	c := newCaller(t, Config{Egress: egress.Config{Resolver: egresstest.FakeDNS(t, nil)}})
	tests := []struct {
		name, url, code string
	}{
		{"refused", "http://" + egresstest.RefusedAddr(t), "connection"},
		{"no such name", "http://nowhere.test/", "dns"},
		{"an unknown authority", secure.URL, "tls"},
		{"no TLS on this port", strings.Replace(plain.URL, "http:", "https:", 1), "tls"},
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
	if n := len(plain.Requests()); n != 0 {
		t.Errorf("the server saw %d requests, want none", n)
	}
}

func TestTLS(t *testing.T) {
	var clientAuth tls.ClientAuthType
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	c := newCaller(t, Config{Egress: egress.Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}})
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

// The code is timeout whether the dialer or the context notices the deadline first.
func TestTimeoutWhileConnecting(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	for i := range 500 {
		c.Close() // what is kept needs no connecting
		a := c.Call(within(t, time.Duration(i)*time.Microsecond), post(s.URL, `{}`))
		if a.Code != "" && a.Code != "timeout" {
			t.Fatalf("after %d µs: %+v", i, a)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCaller(t, Config{Now: func() time.Time { return now }})
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "9223372037": 24 * time.Hour, "soon": 0,
	} {
		for _, status := range []int{429, 503} {
			s := egresstest.Serve(t, egresstest.Say(egresstest.Response(status, "Retry-After: "+header, "")))
			if got := c.Call(t.Context(), post(s.URL, `{}`)); got.RetryAfter != want || got.Status != status || got.Code != "" {
				t.Errorf("Retry-After %q = %+v, want %v", header, got, want)
			}
		}
	}
}

// Client and server do not wait for each other to read, and a response that arrives before the
// request was read counts.
func TestLargeRequests(t *testing.T) {
	body := `"` + strings.Repeat("x", 3<<20) + `"`
	tests := []struct {
		name   string
		server func(net.Conn)
		want   outcome
	}{
		{"echoed while it is read", func(conn net.Conn) {
			in := bufio.NewReader(conn)
			_, _ = in.Peek(1)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n")
			if _, err := http.ReadRequest(in); err == nil {
				_, _ = io.CopyN(conn, in, int64(len(body)))
			}
		}, outcome{true, 200, "", body}},
		{"refused unread", func(conn net.Conn) {
			_, _ = io.CopyN(io.Discard, conn, 1)
			io.WriteString(conn, egresstest.Response(413, "", "too large"))
			time.Sleep(100 * time.Millisecond)
		}, outcome{true, 413, "", `"too large"`}},
		{"hung up on", func(conn net.Conn) { _, _ = io.CopyN(io.Discard, conn, 1) }, outcome{true, 0, "connection", ""}},
		{"never read", func(conn net.Conn) { time.Sleep(2 * time.Second) }, outcome{true, 0, "timeout", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, Config{})
			addr := egresstest.ServeTCP(t, func(conn *net.TCPConn) { tt.server(conn) })
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
