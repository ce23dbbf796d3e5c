package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

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
	if r.status >= 400 {
		p := &problem{Status: r.status, Title: http.StatusText(r.status)}
		_ = json.Unmarshal(r.body, p) // what is not a problem keeps the status' own words
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
