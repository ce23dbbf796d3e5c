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

// wire is a connection for one exchange after another. It records whether anything of the current
// request was written.
type wire struct {
	net.Conn
	under net.Conn        // Conn without TLS
	tcp   syscall.RawConn // nil: it cannot be inspected
	in    *bufio.Reader
	out   *bufio.Writer

	left   bool      // at least a part of the current request was accepted
	head   int64     // bytes that may still be read before a head is complete
	failed bool      // it cannot be read any further
	since  time.Time // when it became idle
}

// newWire returns a wire over conn, which is tcp or TLS over it.
func newWire(conn, tcp net.Conn) *wire {
	w := &wire{Conn: conn, under: tcp}
	if sc, ok := tcp.(syscall.Conn); ok {
		w.tcp, _ = sc.SyscallConn()
	}
	w.in, w.out = bufio.NewReader(source{w}), bufio.NewWriter(sink{w})
	return w
}

// begin resets the state for one exchange.
func (w *wire) begin() {
	w.left = false
	w.head = maxResponseHead
}

// readHead reads a response up to its body, skipping informational ones (RFC 9110, section 15.2).
func (w *wire) readHead(r *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(w.in, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 {
			return nil, errStatus // it is unknown whether a body follows
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			w.head = math.MaxInt64 // the caller limits the body
			return resp, nil
		}
	}
}

// spent reports whether no exchange can follow the current one.
func (w *wire) spent() bool { return w.failed || w.in.Buffered() > 0 }

// quiet reports whether nothing has arrived on an idle connection: neither its end nor unexpected
// bytes.
func (w *wire) quiet() bool {
	if w.tcp == nil {
		return false
	}
	quiet := false
	var b [1]byte
	err := w.tcp.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // do not wait
	})
	return err == nil && quiet && (w.Conn == w.under || w.drained())
}

// spoke reports whether data, or the end, has arrived on a new connection. It does not see through
// TLS, whose own messages arrive, too.
func (w *wire) spoke() bool { return w.tcp != nil && w.Conn == w.under && !w.quiet() }

// drained reports whether TLS has no buffered data either, because TLS reads more than it is asked
// for.
func (w *wire) drained() bool {
	_ = w.SetReadDeadline(past)
	n, err := w.Conn.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.SetReadDeadline(time.Time{}) == nil
}

// cut closes the connection without TLS's closing alert, which can block if the server does not
// read.
func (w *wire) cut() { w.under.Close() }

// past is a deadline that ends reads and writes in progress.
var past = time.Unix(1, 0)

var (
	errHugeHead   = errors.New("the head of the answer is larger than 64 KiB")
	errSpokeFirst = errors.New("the remote service closed the connection, or sent data, before the request")
	errStatus     = errors.New("the answer's status is below 100")
)

type source struct{ w *wire }

// Read implements io.Reader.
func (s source) Read(p []byte) (int, error) {
	if s.w.head <= 0 {
		return 0, errHugeHead
	}
	n, err := s.w.Conn.Read(p[:min(int64(len(p)), s.w.head)])
	s.w.head -= int64(n)
	s.w.failed = s.w.failed || err != nil
	return n, err
}

type sink struct{ w *wire }

// Write implements io.Writer.
func (s sink) Write(p []byte) (int, error) {
	n, err := s.w.Conn.Write(p)
	s.w.left = s.w.left || n > 0
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
