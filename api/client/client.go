/*
Package client calls a recourse server. It starts sagas, waits for them and watches their journals;
runs workers that do the work of `task` steps; and gives agents their sessions. It needs only the
standard library. docs/sdk.md says what is promised.

A session undoes what an agent has done if the agent cannot finish, and repeats nothing if it is
started again:

	c := client.New("http://127.0.0.1:8080", os.Getenv("RECOURSE_API_KEY"))
	s, err := c.Open(ctx, client.Open{Name: "support", Actions: []string{"refund"}, Key: "ticket-7"})
	if err != nil {
		return err
	}
	defer s.Detach(ctx)
	if _, err := s.Call(ctx, client.Call{Action: "refund", Input: map[string]any{"order": "o-1", "amount": 1910}}); err != nil {
		return s.Abort(ctx, err.Error())
	}
	return s.Commit(ctx, nil)

While the server is down, requests are repeated with the same keys until the context is done, so
that no effect is repeated.
*/
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

// Client sends requests to a server with an API key. Several goroutines may use it.
type Client struct {
	// HTTP sends the requests. New sets one that any number of workers can share. It does not
	// follow redirects, because the key is for this server only.
	HTTP *http.Client

	url, key string
}

// New returns a client of the server at url, such as http://127.0.0.1:8080. key is an API key, or
// "" if the server requires none. Spaces and line breaks around it, as of a file, do not count.
func New(url, key string) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 100
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{HTTP: &http.Client{Transport: t, CheckRedirect: stay}, url: strings.TrimRight(url, "/"), key: strings.TrimSpace(key)}
}

// Error is a problem that the server returned. Codes are stable: docs/errors.md lists them.
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

// unsendable is the error of a request that cannot be made, such as one whose input has no JSON.
type unsendable struct{ error }

// Unwrap returns the cause.
func (u *unsendable) Unwrap() error { return u.error }

// temporary reports whether a retry may succeed: the server is down or overloaded, or a request
// with the same key is in flight. A server that cannot read a definition or a journal cannot do so
// later either.
func temporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Code == "definition_unusable" || e.Code == "journal_unreadable" {
			return false
		}
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Code == "key_in_flight"
	}
	if _, ok := errors.AsType[*unsendable](err); ok {
		return false
	}
	return err != nil
}

// Saga is a saga as the server returns it. Numbers in Input and Output keep their digits.
type Saga struct {
	ID         string            `json:"id"`
	Definition string            `json:"definition"`
	Version    string            `json:"version"`
	Status     string            `json:"status"`
	Reason     *Reason           `json:"reason"`
	Input      json.RawMessage   `json:"input"`
	Output     json.RawMessage   `json:"output"`
	Labels     map[string]string `json:"labels"`
	Cost       Costs             `json:"cost"`
	Residual   []Residue         `json:"residual"` // effects that remain
	Doubts     []Residue         `json:"doubts"`   // steps that may have happened, of a saga that went on without them
	Open       []string          `json:"open"`     // ids of inbox entries, which need a person
	Seq        int64             `json:"seq"`
}

// Costs is what a saga or session has cost: decimals in the currency.
type Costs struct {
	Currency string `json:"currency"`
	Spent    string `json:"spent"`
	Reserved string `json:"reserved"`
	Budget   string `json:"budget"` // "": none
}

// Residue is a step whose effect remains, or may remain, and why.
type Residue struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Reason says why a saga did not succeed.
type Reason struct {
	Code   string `json:"code"`
	Step   string `json:"step"`
	Error  string `json:"error"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// Ended reports whether the saga has ended: succeeded, compensated or failed.
func (s *Saga) Ended() bool {
	return s.Status == "succeeded" || s.Status == "compensated" || s.Status == "failed"
}

// Start describes a saga to start.
type Start struct {
	Definition string            `json:"definition"`
	Version    string            `json:"version,omitempty"` // "": the newest
	Input      any               `json:"input,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Key is the idempotency key: starts with the same key start one saga. If it is empty, the call
	// uses a random key.
	Key string `json:"-"`
}

// Start starts a saga. While the server is down it retries until ctx is done, and starts one saga
// at most. An *Error is a refusal.
func (c *Client) Start(ctx context.Context, s Start) (*Saga, error) {
	if s.Key == "" {
		s.Key = rand.Text()
	}
	var out Saga
	err := c.retry(ctx, func() error {
		return c.call(ctx, http.MethodPost, "/v1/sagas", s, &out, "Idempotency-Key", s.Key)
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Get reads a saga. While the server is down it retries until ctx is done.
func (c *Client) Get(ctx context.Context, id string) (*Saga, error) { return c.get(ctx, id) }

func (c *Client) get(ctx context.Context, id string, header ...string) (*Saga, error) {
	var out Saga
	err := c.retry(ctx, func() error {
		return c.call(ctx, http.MethodGet, "/v1/sagas/"+url.PathEscape(id), nil, &out, header...)
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Wait waits until a saga has ended or ctx is done.
func (c *Client) Wait(ctx context.Context, id string) (*Saga, error) {
	for {
		out, err := c.get(ctx, id, "Prefer", "wait=30")
		if err != nil || out.Ended() {
			return out, err
		}
	}
}

// retry repeats call while its error is temporary, until ctx is done.
func (c *Client) retry(ctx context.Context, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		if !temporary(err) || ctx.Err() != nil || backoff(ctx, n, err) != nil {
			return err
		}
	}
}

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second

	maxRetryAfter = 24 * 60 * 60 // seconds; a longer wait would be an outage without an error
)

// backoff waits before a retry: exponentially longer, with jitter, and at least as long as the
// server's Retry-After.
func backoff(ctx context.Context, n int, err error) error {
	d := min(minBackoff<<min(n, 10), maxBackoff)
	d = d/2 + mathrand.N(d/2)
	if e, ok := errors.AsType[*Error](err); ok {
		d = max(d, e.retryAfter)
	}
	return pause(ctx, d)
}

// inMillis writes a duration as the API reads it: in whole numbers.
func inMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// pause waits for d; the error is that of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxAnswer is the maximum size of a response. The largest has a hundred tasks with their inputs.
const maxAnswer = 256 << 20

// attemptTime is how long one attempt of a request may take. No request asks the server to wait
// longer than longestWait.
const attemptTime = longestWait + callTime

// call sends a request and decodes the response into out. header holds names and values. An empty
// response leaves out unchanged. Its connection may be dead, so it fails after attemptTime.
func (c *Client) call(ctx context.Context, method, path string, in, out any, header ...string) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = encode(in); err != nil {
			return &unsendable{err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	b, err := c.send(ctx, method, path, "application/json", body, header...)
	if err != nil || len(b) == 0 {
		return err
	}
	return json.Unmarshal(b, out)
}

// request makes a request with the client's key. header holds names and values.
func (c *Client) request(ctx context.Context, method, path string, body []byte, header ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, &unsendable{err}
	}
	if u := req.URL; u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &unsendable{fmt.Errorf("the scheme %q and host %q are no server's address: write a URL such as http://127.0.0.1:8080", u.Scheme, u.Host)}
	}
	if c.key != "" {
		header = append([]string{"Authorization", "Bearer " + c.key}, header...)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if strings.ContainsFunc(header[i+1], isControl) { // net/http does not send it
			return nil, &unsendable{fmt.Errorf("the value of the header %s has a control character", header[i])}
		}
		req.Header.Set(header[i], header[i+1])
	}
	return req, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// send sends a request and returns the response; with an error, what has arrived of it.
func (c *Client) send(ctx context.Context, method, path, contentType string, body []byte, header ...string) ([]byte, error) {
	req, err := c.request(ctx, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	// Without it, net/http does not send a request with an idempotency key once more when a
	// connection breaks off. A worker has to know that its claim was repeated.
	req.GetBody = nil
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode >= 300 {
		return nil, refusal(resp, b)
	}
	return b, err
}

// problem is the body of a refusal.
type problem struct{ Type, Title, Detail string }

// as returns the error. retryAfter is in seconds.
func (p *problem) as(status, retryAfter int) *Error {
	wait := time.Duration(min(max(retryAfter, 0), maxRetryAfter)) * time.Second
	return &Error{Status: status, Code: p.Type[strings.LastIndexByte(p.Type, ':')+1:], Title: p.Title, Detail: p.Detail, retryAfter: wait}
}

func refusal(resp *http.Response, body []byte) error {
	p := problem{Title: http.StatusText(resp.StatusCode)}
	if json.Unmarshal(body, &p) != nil || p.Type == "" {
		p = problem{Title: http.StatusText(resp.StatusCode)}
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		p.Detail = "the address leads to " + to + ": use that of the server itself"
	}
	return p.as(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After")))
}

// retryAfter returns the seconds in a header Retry-After, which has a number of them or a date (RFC
// 9110, section 10.2.3), rounded up; 0 if it has neither.
func retryAfter(header string) int {
	if at, err := http.ParseTime(header); err == nil {
		return int((time.Until(at) + time.Second - 1) / time.Second)
	}
	seconds, _ := strconv.Atoi(header)
	return seconds
}

// encode returns v as JSON. It does not escape HTML characters.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
