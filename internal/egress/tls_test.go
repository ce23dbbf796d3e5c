package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recourse/internal/egress/egresstest"
)

// serveTLS runs script for each TLS connection, which is over under, and returns the URL and the
// configuration that a client needs.
func serveTLS(t *testing.T, version uint16, script func(conn *tls.Conn, under *heldConn)) (string, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil) // for its certificate
	s.StartTLS()
	cert, root := s.TLS.Certificates[0], s.Certificate()
	s.Close()
	addr := egresstest.ServeTCP(t, func(tcp *net.TCPConn) {
		under := &heldConn{Conn: tcp}
		script(tls.Server(under, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version}), under)
	})
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return "https://" + addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// heldConn is a connection that can hold back what is written.
type heldConn struct {
	net.Conn
	holds bool
	buf   bytes.Buffer
}

// Write implements net.Conn.
func (h *heldConn) Write(p []byte) (int, error) {
	if h.holds {
		return h.buf.Write(p)
	}
	return h.Conn.Write(p)
}

func (h *heldConn) flush() {
	h.holds = false
	_ = h.Conn.SetWriteDeadline(time.Time{}) // which the closing alert has set
	_, _ = h.buf.WriteTo(h.Conn)
}

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// answering calls say for each request on conn until the connection ends.
func answering(conn *tls.Conn, say func()) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		say()
	}
}

// Data that arrives in one TLS record with a response is not the response to the next request. This
// is as in TestClosedConnectionsAreNotUsed, but the kernel's buffer is empty: TLS has read the
// data.
func TestTLSReadAhead(t *testing.T) {
	for version, number := range versions {
		for name, after := range map[string]func(*tls.Conn){
			"an answer": func(conn *tls.Conn) { io.WriteString(conn, strings.Replace(egresstest.OK, "{}", "13", 1)) },
			"the end":   func(conn *tls.Conn) { _ = conn.CloseWrite() },
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				url, conf := serveTLS(t, number, func(conn *tls.Conn, under *heldConn) {
					answering(conn, func() {
						under.holds = true
						io.WriteString(conn, egresstest.OK)
						after(conn)
						under.flush()
					})
				})
				c := newCaller(t, Config{TLS: conf})
				opened := dialled(c)
				for i := range 3 {
					if a := c.Call(within(t, 5*time.Second), post(url, `{}`)); !a.ok() || a.Body != "{}" {
						t.Errorf("call %d = %+v", i, a)
					}
				}
				if n := len(*opened); n != 3 {
					t.Errorf("%d connections, want 3", n)
				}
				c.Close()
			})
		}
	}
}

// TLS's own messages, such as session tickets, do not prevent the reuse of a connection.
func TestTLSReused(t *testing.T) {
	for version, number := range versions {
		t.Run(version, func(t *testing.T) {
			url, conf := serveTLS(t, number, func(conn *tls.Conn, _ *heldConn) {
				answering(conn, func() { io.WriteString(conn, egresstest.OK) })
			})
			c := newCaller(t, Config{TLS: conf})
			opened := dialled(c)
			for i := range 5 {
				if a := c.Call(within(t, 5*time.Second), post(url, `{}`)); !a.ok() {
					t.Errorf("call %d = %+v", i, a)
				}
			}
			if n := len(*opened); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
			c.Close()
		})
	}
}

// A call ends at its deadline even if the remote service reads nothing, not even a closing alert.
func TestTLSTimeout(t *testing.T) {
	done := make(chan bool)
	defer close(done)
	url, conf := serveTLS(t, tls.VersionTLS13, func(conn *tls.Conn, under *heldConn) {
		_ = under.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_ = conn.Handshake()
		<-done
	})
	c := newCaller(t, Config{TLS: conf})
	dial := c.pool.dial
	c.pool.dial = func(ctx context.Context, o origin) (*conn, error) {
		w, err := dial(ctx, o)
		if err == nil {
			_ = w.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetWriteBuffer(4 << 10)
		}
		return w, err
	}
	began := time.Now()
	a := c.Call(within(t, 300*time.Millisecond), post(url, `"`+strings.Repeat("x", concurrentWriteSize-100)+`"`))
	if took := time.Since(began); took > 3*time.Second || a.Code != "timeout" {
		t.Errorf("after %v: %+v", took, a)
	}
}
