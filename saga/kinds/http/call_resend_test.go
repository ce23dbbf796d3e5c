package http

import (
	"context"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/saga"
)

// deadAfterFirst answers the first request, keeps the connection, takes the
// next request whole and then hangs up: what a server does whose idle timeout
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

// dialled collects the connections that c opens from now on.
func dialled(c *Caller) *[]*wire {
	opened, dial := new([]*wire), c.pool.dial
	c.pool.dial = func(ctx context.Context, o origin) (*wire, error) {
		w, err := dial(ctx, o)
		if err == nil {
			*opened = append(*opened, w)
		}
		return w, err
	}
	return opened
}

// dead is a connection that the remote service reset, which shows only when something is written.
type dead struct{ net.Conn }

// Write implements net.Conn.
func (dead) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestStaleConnection: a kept connection on which nothing can be written costs
// no attempt, and the request is seen once.
func TestStaleConnection(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	opened := dialled(c)
	for i, r := range []saga.Request{post(s.url, `{}`), post(s.url, `{}`), post(s.url, `{}`)} {
		if a := c.Call(t.Context(), r); !of200(a) {
			t.Fatalf("call %d = %+v", i, a)
		}
		if i == 0 {
			w := (*opened)[0]
			w.Conn = dead{w.Conn}
		}
	}
	if n := len(s.requests()); n != 3 {
		t.Errorf("the server saw %d requests, want 3", n)
	}
	if n := len(*opened); n != 2 {
		t.Errorf("%d connections were opened, want 2: the stale one and its successor", n)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	opened := dialled(c)
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		r := post(s.url, `{}`)
		if r.Method = method; method == "GET" || method == "DELETE" {
			r.Body = nil
		}
		if a := c.Call(t.Context(), r); !of200(a) {
			t.Fatalf("%s = %+v", method, a)
		}
	}
	if n := len(*opened); n != 1 {
		t.Errorf("%d connections for four calls in a row, want 1", n)
	}
}

// TestLargeRequestsReuse: an answer that is faster than the writer's word that
// the request is written does not cost the connection.
func TestLargeRequestsReuse(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	opened := dialled(c)
	body := `"` + strings.Repeat("x", 2*aside) + `"`
	for i := range 200 {
		if a := c.Call(t.Context(), post(s.url, body)); !of200(a) {
			t.Fatalf("call %d = %+v", i, a)
		}
	}
	if n := len(*opened); n != 1 {
		t.Errorf("%d connections for calls in a row, want 1", n)
	}
}

// TestClosedConnectionsAreNotUsed: one that the remote service closed, or on which it spoke
// unasked, is not written to.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	for name, script := range map[string]func(int, *net.TCPConn) bool{
		"closed":  sayAndClose(ok200),
		"unasked": say(ok200 + ok200),
		"unasked, later": func(n int, conn *net.TCPConn) bool {
			say(ok200)(n, conn)
			time.Sleep(20 * time.Millisecond)
			return say(ok200)(n, conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, CallerConfig{})
			s := serveWire(t, script)
			opened := dialled(c)
			for i := range 3 {
				if a := c.Call(t.Context(), post(s.url, `{}`)); !of200(a) {
					t.Fatalf("call %d = %+v", i, a)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if n := len(*opened); n != 3 {
				t.Errorf("%d connections were opened, want 3", n)
			}
		})
	}
}

// TestIdleConnectionsAreClosed: not only when the next request would use them, and nothing stays of
// an origin.
func TestIdleConnectionsAreClosed(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	s := serveWire(t, say(ok200))
	opened := dialled(c)
	if a := c.Call(t.Context(), post(s.url, `{}`)); !of200(a) {
		t.Fatalf("Call = %+v", a)
	}
	c.pool.mu.Lock()
	lines := len(c.pool.lines)
	c.pool.mu.Unlock()
	if lines != 1 {
		t.Fatalf("%d origins are kept, want 1", lines)
	}
	deadline := time.Now().Add(time.Minute)
	for lines > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		c.pool.mu.Lock()
		lines = len(c.pool.lines)
		c.pool.mu.Unlock()
	}
	if _, err := (*opened)[0].Conn.Write(nil); !errors.Is(err, net.ErrClosed) || lines > 0 {
		t.Errorf("an idle connection after its time: %v, and %d origins; want it closed and none", err, lines)
	}
}
