package egress

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// conn is a connection for one exchange after another. It records whether anything of the current
// request was written.
type conn struct {
	net.Conn
	under net.Conn        // Conn without TLS
	tcp   syscall.RawConn // nil: it cannot be inspected
	in    *bufio.Reader
	out   *bufio.Writer

	sent   bool      // at least a part of the current request was accepted
	head   int64     // bytes that may still be read before a head is complete
	failed bool      // it cannot be read any further
	since  time.Time // when it became idle
}

// newConn returns a conn over tcp. over is tcp, or TLS over it.
func newConn(over, tcp net.Conn) *conn {
	c := &conn{Conn: over, under: tcp}
	if sc, ok := tcp.(syscall.Conn); ok {
		c.tcp, _ = sc.SyscallConn()
	}
	c.in, c.out = bufio.NewReader(source{c}), bufio.NewWriter(sink{c})
	return c
}

// begin resets the state for one exchange.
func (c *conn) begin() {
	c.sent = false
	c.head = maxResponseHead
}

// readHead reads a response up to its body, skipping informational ones (RFC 9110, section 15.2).
func (c *conn) readHead(r *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 {
			return nil, errStatus // it is unknown whether a body follows
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.head = math.MaxInt64 // the caller limits the body
			return resp, nil
		}
	}
}

// unusable reports whether no exchange can follow the current one.
func (c *conn) unusable() bool { return c.failed || c.in.Buffered() > 0 }

// silent reports whether nothing has arrived on an idle connection: neither its end nor unexpected
// bytes.
func (c *conn) silent() bool {
	if c.tcp == nil {
		return false
	}
	empty := false
	var b [1]byte
	err := c.tcp.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		empty = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // do not wait
	})
	return err == nil && empty && (c.Conn == c.under || c.drained())
}

// spokeFirst reports whether data, or the end, has arrived on a new connection. It does not see
// through TLS, whose own messages arrive, too.
func (c *conn) spokeFirst() bool { return c.tcp != nil && c.Conn == c.under && !c.silent() }

// drained reports whether TLS has no buffered data either, because TLS reads more than it is asked
// for.
func (c *conn) drained() bool {
	_ = c.SetReadDeadline(pastDeadline)
	n, err := c.Conn.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}

// abort closes the connection without TLS's closing alert, which can block if the server does not
// read.
func (c *conn) abort() { c.under.Close() }

// pastDeadline is a deadline that ends reads and writes in progress.
var pastDeadline = time.Unix(1, 0)

var (
	errHugeHead   = errors.New("the head of the response is larger than 64 KiB")
	errSpokeFirst = errors.New("the remote service closed the connection, or sent data, before the request")
	errStatus     = errors.New("the response's status is below 100")
)

type source struct{ c *conn }

// Read implements io.Reader.
func (s source) Read(p []byte) (int, error) {
	if s.c.head <= 0 {
		return 0, errHugeHead
	}
	n, err := s.c.Conn.Read(p[:min(int64(len(p)), s.c.head)])
	s.c.head -= int64(n)
	s.c.failed = s.c.failed || err != nil
	return n, err
}

type sink struct{ c *conn }

// Write implements io.Writer.
func (s sink) Write(p []byte) (int, error) {
	n, err := s.c.Conn.Write(p)
	s.c.sent = s.c.sent || n > 0
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
