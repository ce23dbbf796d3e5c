package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// client asks the API in the reader's name.
type client struct {
	api  http.Handler
	ctx  context.Context
	host string // of the reader's request: the API keeps out other sites' names
	addr string // where the reader is
	key  string // "": none
}

// problem is what the API says when it does not do what it was asked (RFC 9457).
type problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []saga.Finding `json:"errors"`
	Step   string         `json:"step"`
}

// Error implements error.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// reply is what the API has answered.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// get reads an address of the API into a value. Errors are *problem.
func (c *client) get(path string, into any) (*reply, error) {
	return c.do(c.ctx, http.MethodGet, path, nil, nil, into)
}

// send sends JSON. body and into may be nil. Errors are *problem.
func (c *client) send(method, path string, body any, header http.Header, into any) (*reply, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", path, err)
	}
	return c.do(c.ctx, method, path, data, header, into)
}

func (c *client) do(ctx context.Context, method, path string, body []byte, header http.Header, into any) (*reply, error) {
	req, err := c.request(ctx, method, path, body, header)
	if err != nil {
		return nil, err
	}
	w := &buffer{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(w, req)
	r := &reply{status: w.status, header: w.header, body: w.body.Bytes()}
	if p := problemOf(w); p != nil {
		return r, p
	}
	if into == nil || r.status == http.StatusNotModified || r.status == http.StatusNoContent {
		return r, nil
	}
	if err := json.Unmarshal(r.body, into); err != nil {
		return r, fmt.Errorf("answer of %s: %w", path, err)
	}
	return r, nil
}

// problemOf is the problem that an answer is; nil: it is none.
func problemOf(w *buffer) *problem {
	if w.status < 400 {
		return nil
	}
	p := &problem{Status: w.status, Title: http.StatusText(w.status)}
	_ = json.Unmarshal(w.body.Bytes(), p) // what is not a problem keeps the status' own words
	return p
}

// records reads all of a saga's journal after a seq. Errors are *problem, or say that the answer is
// no journal.
func (c *client) records(ctx context.Context, id string, after int64) ([]journal.Record, error) {
	at := path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(after, 10)
	req, err := c.request(ctx, http.MethodGet, at, nil, http.Header{"Accept": {"application/x-ndjson"}})
	if err != nil {
		return nil, err
	}
	w := &lines{buffer: buffer{header: http.Header{}, status: http.StatusOK}}
	c.api.ServeHTTP(w, req)
	if p := problemOf(&w.buffer); p != nil {
		return nil, p
	}
	if w.err != nil {
		return nil, fmt.Errorf("journal of %s: %w", id, w.err)
	}
	return w.records, nil
}

// lines is a response of a record a line, which are read as they come.
type lines struct {
	buffer
	records []journal.Record
	err     error // of the first line that is no record
}

// Write implements http.ResponseWriter.
func (l *lines) Write(p []byte) (int, error) {
	l.body.Write(p)
	for l.status < 400 && l.err == nil {
		line, _, ok := bytes.Cut(l.body.Bytes(), []byte("\n"))
		if !ok {
			break
		}
		var r journal.Record
		if l.err = r.UnmarshalJSON(line); l.err == nil {
			l.records = append(l.records, r)
		}
		l.body.Next(len(line) + 1)
	}
	return len(p), l.err
}

// grown returns when a saga's journal has records after seq, or when it has waited: what is wrong
// shows when the page is drawn.
func (c *client) grown(ctx context.Context, id string, seq int64, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	at := path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(seq, 10)
	req, err := c.request(ctx, http.MethodGet, at, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return
	}
	c.api.ServeHTTP(&first{buffer{header: http.Header{}, status: http.StatusOK}, cancel}, req)
}

// first is a stream of events that is read up to its first event.
type first struct {
	buffer
	stop context.CancelFunc
}

// Write implements http.ResponseWriter.
func (f *first) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("id: ")) { // else it is a sign of life
		f.stop()
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (f *first) Flush() {}

// request makes a request of the reader's. body may be nil.
func (c *client) request(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", path, err)
	}
	if body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Host, req.RemoteAddr, req.RequestURI = c.host, c.addr, path
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}

// path joins the parts of an address of the API, each escaped.
func path(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// buffer is a response that is kept.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(status int) { b.status = status }

// Write implements http.ResponseWriter.
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

var _ io.Writer = (*buffer)(nil)
