package egresstest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Result is what the program learns from one request.
type Result struct {
	OK bool // a 2xx response was accepted
	// Reported says that the sender reports the two fields below. Sent is as in egress.Failure;
	// Code is "" if there was no failure.
	Reported bool
	Sent     bool
	Code     string
}

// Send sends one request with a method other than GET and HEAD to a URL without a path, or to a
// path below it.
type Send func(ctx context.Context, url string) Result

// Config is what a sender must be able to do in a test.
type Config struct {
	Deny bool   // the guard allows no loopback addresses; otherwise it allows all of them
	CA   []byte // a certificate (PEM) to trust; nil: only those that the system trusts
}

// TLS returns the configuration of TLS that trusts CA; nil for the default.
func (c *Config) TLS() *tls.Config {
	if c.CA == nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// Allow returns the addresses that the guard allows, in the form of --egress-allow.
func (c *Config) Allow() []string {
	if c.Deny {
		return nil
	}
	return []string{"127.0.0.0/8", "::1"}
}

// Sender is a part of the program that sends requests.
type Sender struct {
	// New returns a function that sends with one and the same sender. It must reuse its
	// connections.
	New func(t *testing.T, cfg Config) Send
	// Unguarded says that the guard does not apply, because an operator chose the address.
	Unguarded bool
}

// patience is much longer than any request of the tests takes.
const patience = 20 * time.Second

// Run tests a sender against the contract of package egress.
func Run(t *testing.T, s Sender) {
	t.Run("responses", func(t *testing.T) { testResponses(t, s) })
	t.Run("doubt", func(t *testing.T) { testDoubt(t, s) })
	t.Run("at most one send", func(t *testing.T) { testOneSend(t, s) })
	t.Run("connections", func(t *testing.T) { testConnections(t, s) })
	t.Run("redirects", func(t *testing.T) { testRedirects(t, s) })
	t.Run("messages", func(t *testing.T) { testMessages(t, s) })
	t.Run("time", func(t *testing.T) { testTime(t, s) })
	t.Run("addresses", func(t *testing.T) { testAddresses(t, s) })
	t.Run("TLS", func(t *testing.T) { testTLS(t, s) })
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// expect checks what a sender has reported, if it reports it.
func expect(t *testing.T, what string, got Result, ok, sent bool, codes ...string) {
	t.Helper()
	if got.OK != ok {
		t.Errorf("%s: %+v, want a success: %v", what, got, ok)
	}
	if !got.Reported {
		return
	}
	known := got.Code == "" && len(codes) == 0
	for _, c := range codes {
		known = known || got.Code == c
	}
	if got.Sent != sent || !known {
		t.Errorf("%s: %+v, want sent %v and the code %q", what, got, sent, codes)
	}
}

// Which responses count.
func testResponses(t *testing.T, s Sender) {
	const chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nX-Sum: 1\r\n\r\n"
	for _, tt := range []struct {
		name, response string
		ok             bool
		codes          []string
	}{
		{"a response", OK, true, nil},
		{"one after informational responses", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, true, nil},
		{"one in chunks with a trailer", chunked, true, nil},
		{"one until the connection ends", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", true, nil},
		{"a refusal", Response(400, "", ""), false, nil},
		{"no response", "", false, []string{"connection"}},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", false, []string{"connection"}},
		{"only informational responses", "HTTP/1.1 103 Early Hints\r\n\r\n", false, []string{"connection"}},
		{"another protocol", "SSH-2.0-OpenSSH\r\n", false, []string{"connection"}},
		{"a head of 100 KiB", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 0\r\n\r\n", false, []string{"connection"}},
	} {
		srv := Serve(t, SayAndClose(tt.response))
		expect(t, tt.name, s.New(t, Config{})(within(t, patience), srv.URL), tt.ok, true, tt.codes...)
		if n := len(srv.Requests()); n != 1 {
			t.Errorf("%s: the server has read %d requests, want 1", tt.name, n)
		}
	}
}

// Whether a part of the request may have been sent.
func testDoubt(t *testing.T, s Sender) {
	expect(t, "nobody listens", s.New(t, Config{})(within(t, patience), "http://"+RefusedAddr(t)), false, false, "connection")
	expect(t, "no such name", s.New(t, Config{})(within(t, patience), "http://nobody.invalid"), false, false, "dns")
	// The end of the connection may be noticed before the request is written, or after.
	hangup := "http://" + ServeTCP(t, func(*net.TCPConn) {})
	if r := s.New(t, Config{})(within(t, patience), hangup); r.OK || r.Reported && r.Code != "connection" {
		t.Errorf("a connection that ends: %+v", r)
	}
	begun := "http://" + ServeTCP(t, func(conn *net.TCPConn) { _, _ = io.CopyN(io.Discard, conn, 1) })
	expect(t, "a connection that ends within the request", s.New(t, Config{})(within(t, patience), begun), false, true, "connection")
}

// A request on a kept connection that turns out to be dead is not sent again if it may have
// arrived.
func testOneSend(t *testing.T, s Sender) {
	for _, reset := range []bool{false, true} {
		srv, send := Serve(t, DeadAfterFirst(reset)), s.New(t, Config{})
		expect(t, "the first request", send(within(t, patience), srv.URL), true, true)
		expect(t, "the second request", send(within(t, patience), srv.URL), false, true, "connection")
		if n := len(srv.Requests()); n != 2 {
			t.Errorf("reset %v: the server has read %d requests, want 2", reset, n)
		}
	}
}

// Connections are reused, unless they have ended or data has arrived on them.
func testConnections(t *testing.T, s Sender) {
	for name, tt := range map[string]struct {
		script Script
		conns  int
	}{
		"kept":            {Say(OK), 1},
		"closed":          {SayAndClose(OK), 3},
		"unasked data":    {Say(OK + OK), 3},
		"to be closed":    {Say(strings.Replace(OK, "\r\n", "\r\nConnection: close\r\n", 1)), 3},
		"another refusal": {Say(Response(503, "", "later")), 1},
	} {
		srv, send := Serve(t, tt.script), s.New(t, Config{})
		for range 3 {
			expect(t, name, send(within(t, patience), srv.URL), name != "another refusal", true)
			time.Sleep(20 * time.Millisecond)
		}
		if n := srv.Connections(); n != tt.conns {
			t.Errorf("%s: %d connections for 3 requests, want %d", name, n, tt.conns)
		}
	}
}

func testRedirects(t *testing.T, s Sender) {
	target := Serve(t, Say(OK))
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := Serve(t, Say(Response(status, "Location: "+target.URL, "")))
		expect(t, "a redirect", s.New(t, Config{})(within(t, patience), srv.URL), false, true)
	}
	if n := len(target.Requests()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// What a request contains.
func testMessages(t *testing.T, s Sender) {
	srv, send := Serve(t, Say("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")), s.New(t, Config{})
	for range 2 {
		expect(t, "a response", send(within(t, patience), srv.URL), true, true)
	}
	for _, r := range srv.Requests() {
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "recourse") {
			t.Errorf("User-Agent is %q", r.Header.Get("User-Agent"))
		}
		if r.Header.Get("Cookie") != "" || r.Header.Get("Connection") != "" || r.Header.Get("Expect") != "" {
			t.Errorf("headers %v", r.Header)
		}
		if r.Chunked || r.Length != int64(len(r.Body)) {
			t.Errorf("%d bytes of a body with the length %d", len(r.Body), r.Length)
		}
	}
}

// The context ends every part of an exchange.
func testTime(t *testing.T, s Sender) {
	silent := func(begin string) Script {
		return func(_ int, conn *net.TCPConn) bool {
			_, _ = io.WriteString(conn, begin)
			_, _ = io.Copy(io.Discard, conn) // until the sender closes the connection
			return false
		}
	}
	for name, begin := range map[string]string{"no response": "", "half a head": "HTTP/1.1 200 OK\r\nX-Slow: "} {
		srv := Serve(t, silent(begin))
		began := time.Now()
		expect(t, name, s.New(t, Config{})(within(t, 200*time.Millisecond), srv.URL), false, true, "timeout")
		if took := time.Since(began); took > patience/2 {
			t.Errorf("%s: the timeout took %v", name, took)
		}
	}
	handshake := "https://" + ServeTCP(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	expect(t, "no handshake", s.New(t, Config{})(within(t, 200*time.Millisecond), handshake), false, false, "timeout")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv := Serve(t, Say(OK))
	expect(t, "cancelled before", s.New(t, Config{})(ctx, srv.URL), false, false, "not_sent")
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests were sent after the cancellation", n)
	}
	ctx, cancel = context.WithCancel(t.Context())
	srv = Serve(t, func(int, *net.TCPConn) bool {
		cancel()
		time.Sleep(50 * time.Millisecond)
		return false
	})
	expect(t, "cancelled after", s.New(t, Config{})(ctx, srv.URL), false, true, "interrupted")
}

func testAddresses(t *testing.T, s Sender) {
	if s.Unguarded {
		return
	}
	srv := Serve(t, Say(OK))
	send := s.New(t, Config{Deny: true})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0"} {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, host, send(within(t, patience), "http://"+host+":"+port), false, false, "egress_denied")
	}
	expect(t, "metadata", s.New(t, Config{})(within(t, patience), "http://169.254.169.254"), false, false, "egress_denied")
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func testTLS(t *testing.T, s Sender) {
	seen := make(chan string, 10)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Proto
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	expect(t, "an unknown authority", s.New(t, Config{})(within(t, patience), srv.URL), false, false, "tls")
	plain := Serve(t, Say(OK))
	expect(t, "a port without TLS", s.New(t, Config{})(within(t, patience), strings.Replace(plain.URL, "http:", "https:", 1)), false, false, "tls")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	expect(t, "a known authority", s.New(t, Config{CA: ca})(within(t, patience), srv.URL), true, true)
	other := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1) // the certificate is not for this name
	expect(t, "another name", s.New(t, Config{CA: ca})(within(t, patience), other), false, false, "tls")
	if n, proto := len(seen), <-seen; n != 1 || proto != "HTTP/1.1" {
		t.Errorf("the server has read %d requests, the first in %s; want one in HTTP/1.1", n, proto)
	}
}
