package egress

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// aside is the size from which a body is written while the answer is read. Otherwise, with all
// buffers full, client and server could each wait for the other to read.
const aside = 64 << 10

// settle is how long a connection whose answer was read waits for its writer. Usually the request
// is written, and the writer has not reported it yet.
const settle = 50 * time.Millisecond

// send writes o's request to w and reads the head of its answer. Once the response's body is
// closed, w is kept or closed, and the slot in l is free. After an error w is closed, and sent says
// whether anything of the request may have been sent; the slot is still taken.
func (p *pool) send(ctx context.Context, l *line, w *wire, o *Request) (resp *http.Response, sent bool, err error) {
	x := &exchange{pool: p, line: l, wire: w, written: make(chan error, 1)}
	w.begin()
	x.release = context.AfterFunc(ctx, func() { _ = w.SetDeadline(past) })
	// Nobody changes the header after this.
	r := &http.Request{Method: o.Method, URL: o.URL, Host: o.URL.Host, Header: o.Header,
		Body: http.NoBody, ContentLength: int64(len(o.Body))}
	if len(o.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(o.Body))
	}
	if len(o.Body) < aside {
		x.write(r)
	} else {
		go x.write(r)
	}
	if resp, err = w.readHead(r); err != nil {
		x.release()
		w.cut() // this also ends the writing
		if failed := <-x.written; failed != nil {
			err = failed
		}
		return nil, w.left, err
	}
	x.last = resp.Close || resp.StatusCode == http.StatusSwitchingProtocols
	x.body, resp.Body = resp.Body, x
	return resp, true, nil
}

// exchange is the body of a response.
type exchange struct {
	pool    *pool
	line    *line
	wire    *wire
	release func() bool // disconnects ctx from the wire; false: ctx has ended it
	written chan error  // the result of writing the request

	body   io.ReadCloser
	ended  bool // the body was read completely
	last   bool // no other exchange may follow
	closed bool
}

// write writes the request. Some servers refuse a long one before they have read it, and close the
// connection. So there may be an answer after a failure, unless nothing was sent.
func (x *exchange) write(r *http.Request) {
	err := r.Write(x.wire.out)
	if err == nil {
		err = x.wire.out.Flush()
	}
	if err != nil && !x.wire.left {
		x.wire.cut()
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
	whole := x.whole()
	if x.release() && whole {
		x.pool.leave(x.line, x.wire)
		return nil
	}
	x.wire.cut()
	<-x.written
	x.pool.leave(x.line, nil)
	return nil
}

// whole reports whether request and answer were complete, so that another exchange can follow.
func (x *exchange) whole() bool {
	if !x.ended && x.body != http.NoBody || x.last || x.wire.spent() {
		return false
	}
	var late <-chan time.Time
	if len(x.written) == 0 {
		late = time.After(settle)
	}
	select {
	case err := <-x.written:
		x.written <- err
		return err == nil
	case <-late:
		return false
	}
}
