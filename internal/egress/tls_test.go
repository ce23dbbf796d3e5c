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

// serveTLS accepts TLS connections over under, which script then has, and returns
// what a caller needs to reach it.
func serveTLS(t *testing.T, version uint16, script func(conn *tls.Conn, under *held)) (string, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil) // for its certificate
	s.StartTLS()
	cert, root := s.TLS.Certificates[0], s.Certificate()
	s.Close()
	addr := egresstest.ServeTCP(t, func(tcp *net.TCPConn) {
		under := &held{Conn: tcp}
		script(tls.Server(under, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version}), under)
	})
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return "https://" + addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// held is a connection that can collect what is written.
type held struct {
	net.Conn
	holds bool
	buf   bytes.Buffer
}

// Write implements net.Conn.
func (h *held) Write(p []byte) (int, error) {
	if h.holds {
		return h.buf.Write(p)
	}
	return h.Conn.Write(p)
}

func (h *held) letGo() {
	h.holds = false
	h.Conn.SetWriteDeadline(time.Time{}) // which the farewell set
	h.buf.WriteTo(h.Conn)
}

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// answering answers each request on conn with say, until it ends.
func answering(conn *tls.Conn, say func()) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		say()
	}
}

// TestTLSReadAhead: what comes in one piece with an answer is read with it, and
// is no answer to the next request. The same as in TestClosedConnectionsAreNotUsed,
// but the kernel has nothing left to say.
func TestTLSReadAhead(t *testing.T) {
	for version, number := range versions {
		for name, after := range map[string]func(*tls.Conn){
			"an answer": func(conn *tls.Conn) { io.WriteString(conn, strings.Replace(egresstest.OK, "{}", "13", 1)) },
			"the end":   func(conn *tls.Conn) { conn.CloseWrite() },
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				url, conf := serveTLS(t, number, func(conn *tls.Conn, under *held) {
					answering(conn, func() {
						under.holds = true
						io.WriteString(conn, egresstest.OK)
						after(conn)
						under.letGo()
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

// TestTLSReused: tickets and the like are nothing that keeps a connection from being used again.
func TestTLSReused(t *testing.T) {
	for version, number := range versions {
		t.Run(version, func(t *testing.T) {
			url, conf := serveTLS(t, number, func(conn *tls.Conn, _ *held) {
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

// TestTLSTimeout: a call ends at its time, though the remote service does not read, not even a
// farewell.
func TestTLSTimeout(t *testing.T) {
	done := make(chan bool)
	defer close(done)
	url, conf := serveTLS(t, tls.VersionTLS13, func(conn *tls.Conn, under *held) {
		under.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		conn.Handshake()
		<-done
	})
	c := newCaller(t, Config{TLS: conf})
	dial := c.pool.dial
	c.pool.dial = func(ctx context.Context, o origin) (*wire, error) {
		w, err := dial(ctx, o)
		if err == nil {
			w.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetWriteBuffer(4 << 10)
		}
		return w, err
	}
	began := time.Now()
	a := c.Call(within(t, 300*time.Millisecond), post(url, `"`+strings.Repeat("x", aside-100)+`"`))
	if took := time.Since(began); took > 3*time.Second || a.Code != "timeout" {
		t.Errorf("after %v: %+v", took, a)
	}
}
