package http

import (
	"context"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"

	"recourse/saga"
)

// deadAfterFirst answers the first request, keeps the connection, takes the
// next request whole and then hangs up: what a server does whose idle time-out
// races with a request, or that crashes after the effect.
func deadAfterFirst(reset bool) func(int, *net.TCPConn) bool {
	return func(n int, conn *net.TCPConn) bool {
		if n == 1 {
			return say(ok200)(n, conn)
		}
		if reset {
			conn.SetLinger(0)
		}
		return false
	}
}

func TestAtMostOneSend(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", "PURGE"} {
		for _, body := range []string{"", `{"amount":1}`} {
			for _, reset := range []bool{false, true} {
				name := strings.Join([]string{method, body, map[bool]string{true: "reset", false: "close"}[reset]}, " ")
				t.Run(name, func(t *testing.T) {
					c := newCaller(t, CallerConfig{})
					s := serveWire(t, deadAfterFirst(reset))
					r := post(s.url, body)
					r.Method = method
					r.Headers["X-Idempotency-Key"] = "k"
					if a := c.Call(t.Context(), post(s.url, `{}`)); !of200(a) {
						t.Fatalf("the first call = %+v", a)
					}
					a := c.Call(t.Context(), r)
					if got, want := of(a), (outcome{Sent: true, Code: "connection"}); got != want {
						t.Errorf("Call = %+v, want %+v", got, want)
					}
					if n := len(s.requests()); n != 2 {
						t.Errorf("the server saw %d requests, want 2: the request was sent again", n)
					}
				})
			}
		}
	}
}

// TestPlainClientResends shows that the server above does catch a resend: the
// standard client, given the same requests, sends the second one twice.
func TestPlainClientResends(t *testing.T) {
	for _, body := range []string{"", `{}`} {
		s := serveWire(t, deadAfterFirst(false))
		tr := &nethttp.Transport{}
		client := &nethttp.Client{Transport: tr}
		for range 2 {
			req, err := nethttp.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			if resp, err := client.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		tr.CloseIdleConnections()
		if n := len(s.requests()); n != 3 {
			t.Errorf("body %q: the plain client made %d requests, want 3", body, n)
		}
	}
}

// TestStaleConnection: a kept connection on which nothing can be written costs
// no attempt, and the request is seen once.
func TestStaleConnection(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	var opened []*wire
	dial := c.pooled.DialContext
	c.pooled.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if w, ok := conn.(*wire); ok {
			opened = append(opened, w)
		}
		return conn, err
	}
	for i, r := range []saga.Request{post(s.url, `{}`), post(s.url, `{}`), post(s.url, `{}`)} {
		if a := c.Call(t.Context(), r); !of200(a) {
			t.Fatalf("call %d = %+v", i, a)
		}
		if i == 0 {
			opened[0].mu.Lock()
			opened[0].barred = true // as if the peer had reset it
			opened[0].mu.Unlock()
		}
	}
	if n := len(s.requests()); n != 3 {
		t.Errorf("the server saw %d requests, want 3", n)
	}
	if len(opened) != 2 {
		t.Errorf("%d pooled connections were opened, want 2: the stale one and its successor", len(opened))
	}
}

func TestConnectionsAreReused(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	dials := 0
	dial := c.pooled.DialContext
	c.pooled.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return dial(ctx, network, addr)
	}
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		r := post(s.url, `{}`)
		if r.Method = method; method == "GET" || method == "DELETE" {
			r.Body = nil
		}
		if a := c.Call(t.Context(), r); !of200(a) {
			t.Fatalf("%s = %+v", method, a)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections for four calls in a row, want 1", dials)
	}
}
