// Package client calls a recourse server: it starts sagas, waits for them, and runs
// workers that do the work of their `task` steps. docs/workers.md explains the protocol.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client is a server, and who calls it. It may be used by several goroutines.
type Client struct {
	// HTTP sends the requests; New makes one that any number of workers can share.
	HTTP *http.Client

	url, key string
}

// New returns a client of the server at url, such as http://127.0.0.1:8080. key is an API key, or "" where
// none is required.
func New(url, key string) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 100
	return &Client{HTTP: &http.Client{Transport: t}, url: strings.TrimRight(url, "/"), key: key}
}

// Error is a server's refusal. Code is stable: docs/errors.md has them all.
type Error struct {
	Status int
	Code   string
	Title  string
	Detail string

	retryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (HTTP %d, %s)", e.Title, e.Detail, e.Status, e.Code)
}

// passing reports whether an error may go away by itself: the server is away, or has too much to
// do, or a request of the same key is under way.
func passing(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Code == "key_in_flight"
	}
	return err != nil
}

// Saga is a saga as the server shows it; numbers in Output keep their digits.
type Saga struct {
	ID         string            `json:"id"`
	Definition string            `json:"definition"`
	Version    string            `json:"version"`
	Status     string            `json:"status"`
	Reason     *Reason           `json:"reason"`
	Input      json.RawMessage   `json:"input"`
	Output     json.RawMessage   `json:"output"`
	Labels     map[string]string `json:"labels"`
	Open       []string          `json:"open"` // ids of inbox entries: it waits for a person
	Seq        int64             `json:"seq"`
}

// Reason says why a saga did not succeed.
type Reason struct {
	Code   string `json:"code"`
	Step   string `json:"step"`
	Error  string `json:"error"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// Ended reports whether the saga has ended: as succeeded, compensated or failed.
func (s *Saga) Ended() bool {
	return s.Status == "succeeded" || s.Status == "compensated" || s.Status == "failed"
}

// Start is a saga to be started.
type Start struct {
	Definition string            `json:"definition"`
	Version    string            `json:"version,omitempty"` // "": the newest
	Input      any               `json:"input,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Key makes the start happen once, however often it is asked for; "" makes one up, for this
	// call.
	Key string `json:"-"`
}

// Start starts a saga. While the server is away it tries again, until ctx is done: there will be
// one saga. An *Error is a refusal.
func (c *Client) Start(ctx context.Context, s Start) (*Saga, error) {
	if s.Key == "" {
		s.Key = rand.Text()
	}
	var out Saga
	err := c.insist(ctx, func() error {
		return c.call(ctx, http.MethodPost, "/v1/sagas", s, &out, "Idempotency-Key", s.Key)
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Get reads a saga.
func (c *Client) Get(ctx context.Context, id string) (*Saga, error) {
	var out Saga
	if err := c.call(ctx, http.MethodGet, "/v1/sagas/"+url.PathEscape(id), nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Wait waits until a saga has ended, however long that takes, or ctx is done.
func (c *Client) Wait(ctx context.Context, id string) (*Saga, error) {
	for {
		var out Saga
		err := c.insist(ctx, func() error {
			return c.call(ctx, http.MethodGet, "/v1/sagas/"+url.PathEscape(id), nil, &out, "Prefer", "wait=30")
		})
		if err != nil {
			return nil, err
		}
		if out.Ended() {
			return &out, nil
		}
	}
}

// insist calls until the error is none that passes, or ctx is done.
func (c *Client) insist(ctx context.Context, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		if !passing(err) || ctx.Err() != nil || rest(ctx, n, err) != nil {
			return err
		}
	}
}

const (
	firstRest = 100 * time.Millisecond
	longRest  = 5 * time.Second
)

// rest waits before another try: longer each time, by chance, and as long as the server asks for.
func rest(ctx context.Context, n int, err error) error {
	d := min(firstRest<<min(n, 10), longRest)
	d = d/2 + mathrand.N(d/2)
	var e *Error
	if errors.As(err, &e) {
		d = max(d, min(e.retryAfter, longRest))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxAnswer bounds what is read of an answer: a hundred tasks with their inputs.
const maxAnswer = 256 << 20

// call sends a request and reads its answer into out; header is names and values. Without content
// out stays as it is.
func (c *Client) call(ctx context.Context, method, path string, in, out any, header ...string) error {
	var body io.Reader
	if in != nil {
		b, err := encode(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return refusal(resp, b)
	case len(b) == 0:
		return nil
	}
	return json.Unmarshal(b, out)
}

func refusal(resp *http.Response, body []byte) error {
	e := &Error{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
	var p struct{ Type, Title, Detail string }
	if json.Unmarshal(body, &p) == nil && p.Title != "" {
		e.Code, e.Title, e.Detail = p.Type[strings.LastIndexByte(p.Type, ':')+1:], p.Title, p.Detail
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.retryAfter = time.Duration(n) * time.Second
	}
	return e
}

// encode writes v as JSON, its characters as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
