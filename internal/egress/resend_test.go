package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/internal/egress/egresstest"
)

func TestAtMostOneSend(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", "PURGE"} {
		for _, body := range []string{"", `{"amount":1}`} {
			for _, reset := range []bool{false, true} {
				name := strings.Join([]string{method, body, map[bool]string{true: "reset", false: "close"}[reset]}, " ")
				t.Run(name, func(t *testing.T) {
					c := newCaller(t, Config{})
					s := egresstest.Serve(t, egresstest.DeadAfterFirst(reset))
					r := post(s.URL, body)
					r.Method = method
					r.Header.Set("X-Idempotency-Key", "k")
					if a := c.Call(t.Context(), post(s.URL, `{}`)); !a.ok() {
						t.Fatalf("the first call = %+v", a)
					}
					a := c.Call(t.Context(), r)
					if got, want := a, (outcome{Sent: true, Code: "connection"}); !got.is(want) {
						t.Errorf("Call = %+v, want %+v", got, want)
					}
					if n := len(s.Requests()); n != 2 {
						t.Errorf("the server saw %d requests, want 2: the request was sent again", n)
					}
				})
			}
		}
	}
}

// The server above detects a request that is sent again: net/http's client, given the same
// requests, sends the second one twice.
func TestPlainClientResends(t *testing.T) {
	for _, body := range []string{"", `{}`} {
		s := egresstest.Serve(t, egresstest.DeadAfterFirst(false))
		tr := &http.Transport{}
		client := &http.Client{Transport: tr}
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		tr.CloseIdleConnections()
		if n := len(s.Requests()); n != 3 {
			t.Errorf("body %q: the plain client made %d requests, want 3", body, n)
		}
	}
}

// dialled collects the connections that c opens from now on.
func dialled(c caller) *[]*conn {
	opened, dial := new([]*conn), c.pool.dial
	c.pool.dial = func(ctx context.Context, o origin) (*conn, error) {
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

// If nothing can be written on a kept connection, the request is sent once, on a new one.
func TestStaleConnection(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	opened := dialled(c)
	for i, r := range []call{post(s.URL, `{}`), post(s.URL, `{}`), post(s.URL, `{}`)} {
		if a := c.Call(t.Context(), r); !a.ok() {
			t.Fatalf("call %d = %+v", i, a)
		}
		if i == 0 {
			w := (*opened)[0]
			w.Conn = dead{w.Conn}
		}
	}
	if n := len(s.Requests()); n != 3 {
		t.Errorf("the server saw %d requests, want 3", n)
	}
	if n := len(*opened); n != 2 {
		t.Errorf("%d connections were opened, want 2: the stale one and its successor", n)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	opened := dialled(c)
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		r := post(s.URL, `{}`)
		if r.Method = method; method == "GET" || method == "DELETE" {
			r.Body = ""
		}
		if a := c.Call(t.Context(), r); !a.ok() {
			t.Fatalf("%s = %+v", method, a)
		}
	}
	if n := len(*opened); n != 1 {
		t.Errorf("%d connections for four calls in a row, want 1", n)
	}
}

// A connection is reused even if its response arrives before the writer reports that the request is
// written.
func TestLargeRequestsReuse(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	opened := dialled(c)
	body := `"` + strings.Repeat("x", 2*concurrentWriteSize) + `"`
	for i := range 200 {
		if a := c.Call(t.Context(), post(s.URL, body)); !a.ok() {
			t.Fatalf("call %d = %+v", i, a)
		}
	}
	if n := len(*opened); n != 1 {
		t.Errorf("%d connections for calls in a row, want 1", n)
	}
}

// No request is written to a connection that the remote service has closed, or on which it has sent
// data without a request.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	for name, script := range map[string]func(int, *net.TCPConn) bool{
		"closed":  egresstest.SayAndClose(egresstest.OK),
		"unasked": egresstest.Say(egresstest.OK + egresstest.OK),
		"unasked, later": func(n int, conn *net.TCPConn) bool {
			egresstest.Say(egresstest.OK)(n, conn)
			time.Sleep(20 * time.Millisecond)
			return egresstest.Say(egresstest.OK)(n, conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, Config{})
			s := egresstest.Serve(t, script)
			opened := dialled(c)
			for i := range 3 {
				if a := c.Call(t.Context(), post(s.URL, `{}`)); !a.ok() {
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

// Idle connections are closed after their time, without another request, and the state of their
// origin is deleted.
func TestIdleConnectionsAreClosed(t *testing.T) {
	c := newCaller(t, Config{})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	opened := dialled(c)
	if a := c.Call(t.Context(), post(s.URL, `{}`)); !a.ok() {
		t.Fatalf("Call = %+v", a)
	}
	c.pool.mu.Lock()
	lines := len(c.pool.origins)
	c.pool.mu.Unlock()
	if lines != 1 {
		t.Fatalf("%d origins are kept, want 1", lines)
	}
	deadline := time.Now().Add(time.Minute)
	for lines > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		c.pool.mu.Lock()
		lines = len(c.pool.origins)
		c.pool.mu.Unlock()
	}
	if _, err := (*opened)[0].Conn.Write(nil); !errors.Is(err, net.ErrClosed) || lines > 0 {
		t.Errorf("an idle connection after its time: %v, and %d origins; want it closed and none", err, lines)
	}
}

// Data, or the end, that arrives before the request is written is no response: nothing is sent.
func TestSpokeFirst(t *testing.T) {
	for _, said := range []string{egresstest.OK, ""} {
		c := newCaller(t, Config{})
		addr := egresstest.ServeTCP(t, func(conn *net.TCPConn) { io.WriteString(conn, said) })
		dial := c.pool.dial
		c.pool.dial = func(ctx context.Context, o origin) (*conn, error) {
			w, err := dial(ctx, o)
			for err == nil && w.silent() {
				time.Sleep(time.Millisecond)
			}
			return w, err
		}
		if a := c.Call(within(t, 5*time.Second), post("http://"+addr, `{}`)); !a.is(outcome{Code: CodeConnection}) {
			t.Errorf("%q came first: %+v", said, a)
		}
	}
}

// The error depends on the bytes that the remote service may have received, not on the bytes that
// were to be written.
func TestPartsThatLeft(t *testing.T) {
	for _, read := range []int{0, 1} {
		near, far := net.Pipe() // a write goes on until the other end has read it all
		defer far.Close()
		c := newCaller(t, Config{})
		c.pool.dial = func(context.Context, origin) (*conn, error) { return newConn(near, near), nil }
		go func() { _, _ = io.CopyN(io.Discard, far, int64(read)) }()
		a := c.Call(within(t, 30*time.Millisecond), post("http://127.0.0.1", `{}`))
		if got, want := a, (outcome{Sent: read > 0, Code: "timeout"}); !got.is(want) {
			t.Errorf("%d bytes were read: Call = %+v, want %+v", read, got, want)
		}
	}
}
