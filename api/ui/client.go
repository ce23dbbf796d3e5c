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

// client sends requests to the API with the user's key.
type client struct {
	api  http.Handler
	ctx  context.Context
	host string // Host of the user's request: the API refuses names of other sites
	addr string // the user's address
	key  string // "" for none
}

// problem is a problem document of the API (RFC 9457).
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

// reply is a response of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// get decodes the response to a GET into a value. API problems are returned as *problem.
func (c *client) get(path string, into any) (*reply, error) {
	return c.do(c.ctx, http.MethodGet, path, nil, nil, into)
}

// send sends JSON. body and into may be nil. API problems are returned as *problem.
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
		return r, fmt.Errorf("response to %s: %w", path, err)
	}
	return r, nil
}

// problemOf returns the problem in a response, nil if there is none.
func problemOf(w *buffer) *problem {
	if w.status < 400 {
		return nil
	}
	p := &problem{Status: w.status, Title: http.StatusText(w.status)}
	_ = json.Unmarshal(w.body.Bytes(), p) // other responses keep the text of the status
	return p
}

// records reads a saga's journal after a seq to its end. Errors are *problem, or say that the
// response is not a journal.
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

// lines decodes a response with one record per line while it arrives.
type lines struct {
	buffer
	records []journal.Record
	err     error // error of the first line that is not a record
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

// grown returns when a saga's journal has records after seq, or after wait. Rendering the page
// reports any error.
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

// first is an event stream that is read up to its first event.
type first struct {
	buffer
	stop context.CancelFunc
}

// Write implements http.ResponseWriter.
func (f *first) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("id: ")) { // otherwise it is a heartbeat
		f.stop()
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (f *first) Flush() {}

// request builds a request with the user's key. body may be nil.
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

// path joins the parts of a path, each escaped.
func path(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// buffer is a buffered response.
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
