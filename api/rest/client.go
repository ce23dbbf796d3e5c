// Package rest sends requests to the API in the same process, with the key of a user.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Client sends requests to the API with the user's key.
type Client struct {
	api  http.Handler
	ctx  context.Context
	host string // Host of the user's request: the API refuses names of other sites
	addr string // the user's address
	key  string // "" for none
}

// New returns a client that sends requests for the user of r. key is "" for none.
func New(api http.Handler, r *http.Request, key string) *Client {
	return &Client{api: api, ctx: r.Context(), host: r.Host, addr: r.RemoteAddr, key: key}
}

// WithKey returns a client with another key.
func (c *Client) WithKey(key string) *Client {
	other := *c
	other.key = key
	return &other
}

// WithContext returns a client whose Get and Send have another context.
func (c *Client) WithContext(ctx context.Context) *Client {
	other := *c
	other.ctx = ctx
	return &other
}

// Problem is a problem document of the API (RFC 9457).
type Problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []saga.Finding `json:"errors"`
	Step   string         `json:"step"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// Reply is a response of the API.
type Reply struct {
	Status int
	Header http.Header

	body []byte
}

// Unread reports whether the response is to a command that is stored, and that no node has read
// yet.
func (r *Reply) Unread() bool { return r.Header.Get("X-Recourse-Unread") != "" }

// Text returns the body of the response.
func (r *Reply) Text() string { return string(r.body) }

// Get decodes the response to a GET into a value. API problems are returned as *Problem.
func (c *Client) Get(path string, into any) (*Reply, error) {
	return c.Do(c.ctx, http.MethodGet, path, nil, nil, into)
}

// Send sends JSON. body and into may be nil. API problems are returned as *Problem.
func (c *Client) Send(method, path string, body any, header http.Header, into any) (*Reply, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", path, err)
	}
	return c.Do(c.ctx, method, path, data, header, into)
}

// Do sends a body, which may be nil, and decodes the response into a value, which may be nil. API
// problems are returned as *Problem.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, header http.Header, into any) (*Reply, error) {
	req, err := c.Request(ctx, method, path, body, header)
	if err != nil {
		return nil, err
	}
	w := NewRecorder()
	if err := c.serve(&w, req); err != nil {
		return nil, err
	}
	r := &Reply{Status: w.Status, Header: w.header, body: w.Body.Bytes()}
	if p := problemOf(&w); p != nil {
		return r, p
	}
	if into == nil || r.Status == http.StatusNotModified || r.Status == http.StatusNoContent {
		return r, nil
	}
	if err := json.Unmarshal(r.body, into); err != nil {
		return r, fmt.Errorf("response to %s: %w", path, err)
	}
	return r, nil
}

// problemOf returns the problem in a response, nil if there is none.
func problemOf(w *Recorder) *Problem {
	if w.Status < 400 {
		return nil
	}
	p := &Problem{Status: w.Status, Title: http.StatusText(w.Status)}
	_ = json.Unmarshal(w.Body.Bytes(), p) // other responses keep the text of the status
	return p
}

// Records reads a saga's journal after a seq to its end. Errors are *Problem, or say that the
// response is not a journal.
func (c *Client) Records(ctx context.Context, id string, after int64) ([]journal.Record, error) {
	at := Path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(after, 10)
	req, err := c.Request(ctx, http.MethodGet, at, nil, http.Header{"Accept": {"application/x-ndjson"}})
	if err != nil {
		return nil, err
	}
	w := &lines{Recorder: NewRecorder()}
	if err := c.serve(w, req); err != nil {
		return nil, err
	}
	if p := problemOf(&w.Recorder); p != nil {
		return nil, p
	}
	if w.err != nil {
		return nil, fmt.Errorf("journal of %s: %w", id, w.err)
	}
	return w.records, nil
}

// lines decodes a response with one record per line while it arrives.
type lines struct {
	Recorder
	records []journal.Record
	err     error // error of the first line that is not a record
}

// Write implements http.ResponseWriter.
func (l *lines) Write(p []byte) (int, error) {
	l.Body.Write(p)
	for l.Status < 400 && l.err == nil {
		line, _, ok := bytes.Cut(l.Body.Bytes(), []byte("\n"))
		if !ok {
			break
		}
		var r journal.Record
		if l.err = r.UnmarshalJSON(line); l.err == nil {
			l.records = append(l.records, r)
		}
		l.Body.Next(len(line) + 1)
	}
	return len(p), l.err
}

// Grown returns when a saga's journal has records after seq, or after wait. Rendering the page
// reports any error.
func (c *Client) Grown(ctx context.Context, id string, seq int64, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	at := Path("v1", "sagas", id, "journal") + "?after=" + strconv.FormatInt(seq, 10)
	req, err := c.Request(ctx, http.MethodGet, at, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return
	}
	_ = c.serve(&first{NewRecorder(), cancel}, req)
}

// serve lets the API answer a request. The API panics with http.ErrAbortHandler to cut off a
// response that it cannot finish. For the request that a user's request sends that is an error.
func (c *Client) serve(w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		v := recover()
		if e, ok := v.(error); ok && errors.Is(e, http.ErrAbortHandler) {
			err = fmt.Errorf("response to %s: it ended early: %w", req.URL.Path, io.ErrUnexpectedEOF)
		} else if v != nil {
			panic(v)
		}
	}()
	c.api.ServeHTTP(w, req)
	return nil
}

// first is an event stream that is read up to its first event.
type first struct {
	Recorder
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

// Request builds a request with the user's key. body may be nil.
func (c *Client) Request(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", path, err)
	}
	if body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	req.Host, req.RemoteAddr, req.RequestURI = c.host, c.addr, path
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}

// Path joins the parts of a path, each escaped.
func Path(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// Recorder is a response that is kept in memory. Make it with NewRecorder.
type Recorder struct {
	Status int
	Body   bytes.Buffer

	header http.Header
}

// NewRecorder returns an empty response with status 200.
func NewRecorder() Recorder { return Recorder{Status: http.StatusOK, header: http.Header{}} }

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) { r.Status = status }

// Write implements http.ResponseWriter.
func (r *Recorder) Write(p []byte) (int, error) { return r.Body.Write(p) }

var _ http.ResponseWriter = (*Recorder)(nil)
