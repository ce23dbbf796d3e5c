// Package remote has the commands that talk to a server through its API, and their client.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

// Client sends requests to a server's API.
type Client struct {
	URL  string // for people
	base string // of the URLs of requests
	key  string
	http *http.Client
	ctx  context.Context
}

// maxAnswer is the maximum size of a response that is not streamed.
const maxAnswer = 64 << 20

// Client returns a client of the server.
func (f ServerFlags) Client(ctx context.Context) (*Client, error) {
	u, err := url.Parse(f.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--server %s: write a URL such as http://127.0.0.1:8080", f.Address()))
	}
	return &Client{URL: f.Address(), base: strings.TrimRight(f.Server, "/"), key: strings.TrimSpace(f.APIKey), ctx: ctx, http: &http.Client{
		// Redirects are not followed: a key must go only to the server that it was given for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Call is one request to the API.
type Call struct {
	Method string
	Path   string // escaped, with the query
	Body   any    // encoded as JSON; []byte is sent unchanged
	Header map[string]string
	accept string
}

// Answer is a response with a 2xx or a 304.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Unread reports whether the response is to a command that is stored, and that no node has read
// yet.
func (r Answer) Unread() bool { return r.Header.Get("X-Recourse-Unread") != "" }

// Into decodes the response.
func (r Answer) Into(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("the server's response cannot be read; it may be another version, or there may be a proxy in between: %w", err)
	}
	return nil
}

// Do sends a request and reads the response. POST and PATCH carry an idempotency key, so that a
// request whose response was lost is retried without a second effect. If the first attempt is still
// in flight then, Do waits for it. Errors have exit codes.
func (c *Client) Do(r Call) (Answer, error) {
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		if r.Header == nil {
			r.Header = make(map[string]string)
		}
		if r.Header["Idempotency-Key"] == "" {
			id, err := uuid.NewV4()
			if err != nil {
				return Answer{}, fmt.Errorf("idempotency key: %w", err)
			}
			r.Header["Idempotency-Key"] = id.String()
		}
	}
	until := time.Now().Add(keyHeld)
	for {
		a, err := c.send(r)
		p, ok := errors.AsType[*Problem](err)
		if !ok || Code(p) != "key_in_flight" || time.Now().After(until) || !c.Pause(min(max(p.retryAfter, time.Second), keyHeld)) {
			return a, err
		}
	}
}

// keyHeld is how long a request is repeated whose key the server has in flight. It is longer than
// a server that has died keeps a key.
const keyHeld = 65 * time.Second

// send sends a request, and again if the connection breaks.
func (c *Client) send(r Call) (Answer, error) {
	var lost error
	for try := range 3 {
		if try > 0 && !c.Pause(300*time.Millisecond) {
			break
		}
		resp, err := c.open(r)
		if err != nil {
			return Answer{}, err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		resp.Body.Close()
		if err != nil {
			lost = err
			continue
		}
		return Answer{resp.StatusCode, resp.Header, body}, nil
	}
	return Answer{}, c.unreachable(lost)
}

// open sends a request; the caller reads the body of the response.
func (c *Client) open(r Call) (*http.Response, error) {
	var body []byte
	switch b := r.Body.(type) {
	case nil:
	case []byte:
		body = b
	default:
		var err error
		if body, err = journal.Encode(b); err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
	}
	var resp *http.Response
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(c.ctx, r.Method, c.base+r.Path, bytes.NewReader(body))
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		if len(body) > 0 {
			req.Header.Set("Content-Type", "application/json")
		}
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		if r.accept != "" {
			req.Header.Set("Accept", r.accept)
		}
		for k, v := range r.Header {
			if v != "" {
				req.Header.Set(k, v)
			}
		}
		for k, v := range req.Header {
			if strings.ContainsFunc(v[0], isControl) { // net/http does not send it
				return nil, cli.Exit(cli.Usage, fmt.Errorf("the header %s has a control character in it: check --api-key and --key", k))
			}
		}
		if resp, err = c.http.Do(req); err == nil {
			break
		}
		if try == 2 || !dropped(err) || !c.Pause(300*time.Millisecond) {
			return nil, c.unreachable(err)
		}
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	err := problemOf(resp.StatusCode, text)
	if p, ok := errors.AsType[*Problem](err); ok {
		p.retryAfter = retry.After(resp.Header.Get("Retry-After"), time.Now())
	}
	return nil, err
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// dropped reports whether an established connection ended without a response.
func dropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "connection reset")
}

// Pause waits, and reports false if the program should stop.
func (c *Client) Pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *Client) unreachable(err error) error {
	if c.ctx.Err() != nil {
		return cli.Exit(cli.Failed, errors.New("interrupted"))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return cli.Exit(cli.Unreachable, fmt.Errorf("no server responds at %s (%w): start one with `recourse serve`, or name another with --server or RECOURSE_SERVER", c.URL, err))
}

// Get sends a GET and decodes the response.
func (c *Client) Get(path string, into any) (Answer, error) {
	r, err := c.Do(Call{Method: http.MethodGet, Path: path})
	if err != nil {
		return r, err
	}
	return r, r.Into(into)
}

// SagaPath returns the path of a saga or of a part of it.
func SagaPath(id string, parts ...string) string {
	var path strings.Builder
	path.WriteString("/v1/sagas/" + url.PathEscape(id))
	for _, p := range parts {
		path.WriteString("/" + url.PathEscape(p))
	}
	return path.String()
}

// SessionPath returns the path of a session or of a part of it.
func SessionPath(id string, parts ...string) string {
	return "/v1/sessions" + strings.TrimPrefix(SagaPath(id, parts...), "/v1/sagas")
}

// fullID returns the saga id that an abbreviated one stands for, so that several requests mean the
// same saga: an abbreviated id may become ambiguous at any time.
func (c *Client) fullID(text string) (string, error) {
	if len(text) == len(uuid.Nil.String()) {
		return text, nil
	}
	var v machine.View
	_, err := c.Get(SagaPath(text), &v)
	return v.ID, err
}

// Page is a page of a list of the API.
type Page[T any] struct {
	Data         []T       `json:"data"`
	Next         string    `json:"next_cursor"`
	LookedBackTo saga.Time `json:"looked_back_to"`
}

// ReadAll reads a list until its end, or until it has limit entries (0: all).
func ReadAll[T any](c *Client, path string, q url.Values, limit int) ([]T, error) {
	all, _, err := search[T](c, path, q, limit, math.MaxInt)
	return all, err
}

// search reads a list until its end, until it has limit entries (0: all), or for at most scans
// pages. In the last case back is the time up to which it has searched, otherwise zero.
func search[T any](c *Client, path string, q url.Values, limit, scans int) (all []T, back time.Time, err error) {
	for {
		size := 200
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		q.Set("limit", fmt.Sprint(size))
		var p Page[T]
		if _, err := c.Get(path+"?"+q.Encode(), &p); err != nil {
			return nil, back, err
		}
		all = append(all, p.Data...)
		if p.Next == "" || limit > 0 && len(all) >= limit {
			return all, back, nil
		}
		if !p.LookedBackTo.IsZero() {
			if scans--; scans == 0 {
				return all, p.LookedBackTo.Time, nil
			}
		}
		q.Set("cursor", p.Next)
	}
}

// Named returns the flag --server for a command that a person is told to type, "" if the command
// means this server without it.
func (f ServerFlags) Named(a *cli.App) string {
	at := strings.TrimRight(f.Server, "/")
	if at == strings.TrimRight(cmp.Or(a.Variables["RECOURSE_SERVER"], "http://127.0.0.1:8080"), "/") {
		return ""
	}
	return "--server " + f.Address()
}

// Address returns the server's URL for people: without a slash at the end, and without a password
// for a proxy.
func (f ServerFlags) Address() string {
	at := strings.TrimRight(f.Server, "/")
	switch u, err := url.Parse(at); {
	case err != nil:
		return at[strings.LastIndexByte(at, '@')+1:]
	case u.User != nil:
		return u.Redacted()
	}
	return at
}

// Command returns a command of the program, on this server, for a person to type.
func (f ServerFlags) Command(a *cli.App, line string) string {
	return "`" + strings.TrimSpace("recourse "+line+" "+f.Named(a)) + "`"
}

// ServerFlags select the server.
type ServerFlags struct {
	Server string `default:"http://127.0.0.1:8080" env:"RECOURSE_SERVER" placeholder:"URL" help:"The server's address; default ${default}."`
	APIKey string `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, if the server requires one. Prefer the environment variable."`
}
