package egress

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// concurrentWriteSize is the size from which a body is written while the answer is read. Otherwise,
// with all buffers full, client and server could each wait for the other to read.
const concurrentWriteSize = 64 << 10

// writerGrace is how long a connection whose answer was read waits for its writer. Usually the
// request is written, and the writer has not reported it yet.
const writerGrace = 50 * time.Millisecond

// send writes a request to c and reads the head of its answer. Once the response's body is closed,
// c is kept or closed, and the slot in oc is free. After an error c is closed, and sent says
// whether anything of the request may have been sent; the slot is still taken.
func (p *pool) send(ctx context.Context, oc *originConns, c *conn, o *Request) (resp *http.Response, sent bool, err error) {
	x := &exchange{pool: p, origin: oc, conn: c, written: make(chan error, 1)}
	c.begin()
	x.detach = context.AfterFunc(ctx, func() { _ = c.SetDeadline(pastDeadline) })
	// Nobody changes the header after this.
	r := &http.Request{Method: o.Method, URL: o.URL, Host: o.URL.Host, Header: o.Header,
		Body: http.NoBody, ContentLength: int64(len(o.Body))}
	if len(o.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(o.Body))
	}
	if len(o.Body) < concurrentWriteSize {
		x.write(r)
	} else {
		go x.write(r)
	}
	if resp, err = c.readHead(r); err != nil {
		x.detach()
		c.abort() // this also ends the writing
		if failed := <-x.written; failed != nil {
			err = failed
		}
		return nil, c.sent, err
	}
	x.last = resp.Close || resp.StatusCode == http.StatusSwitchingProtocols
	x.body, resp.Body = resp.Body, x
	return resp, true, nil
}

// exchange is the body of a response.
type exchange struct {
	pool    *pool
	origin  *originConns
	conn    *conn
	detach  func() bool // disconnects ctx from the connection; false: ctx has ended it
	written chan error  // the result of writing the request

	body   io.ReadCloser
	ended  bool // the body was read completely
	last   bool // no other exchange may follow
	closed bool
}

// write writes the request. Some servers refuse a long one before they have read it, and close the
// connection. So there may be an answer after a failure, unless nothing was sent.
func (x *exchange) write(r *http.Request) {
	err := r.Write(x.conn.out)
	if err == nil {
		err = x.conn.out.Flush()
	}
	if err != nil && !x.conn.sent {
		x.conn.abort()
	}
	x.written <- err
}

// Read implements io.Reader.
func (x *exchange) Read(p []byte) (int, error) {
	if x.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	x.ended = x.ended || err == io.EOF
	return n, err
}

// Close implements io.Closer.
func (x *exchange) Close() error {
	if x.closed {
		return nil
	}
	x.closed = true
	whole := x.complete()
	if x.detach() && whole {
		x.pool.release(x.origin, x.conn)
		return nil
	}
	x.conn.abort()
	<-x.written //nolint:errcheck // the response is what counts
	x.pool.release(x.origin, nil)
	return nil
}

// complete reports whether request and answer were complete, so that another exchange can follow.
func (x *exchange) complete() bool {
	if !x.ended && x.body != http.NoBody || x.last || x.conn.unusable() {
		return false
	}
	var late <-chan time.Time
	if len(x.written) == 0 {
		late = time.After(writerGrace)
	}
	select {
	case err := <-x.written:
		x.written <- err
		return err == nil
	case <-late:
		return false
	}
}
