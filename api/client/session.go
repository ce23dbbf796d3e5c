package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrWaits means that a person has not decided within the patience of a call or step. An agent that
// `recourse agent run` has started should end with the exit code [Parked] then, and runs again
// after the decision.
var ErrWaits = errors.New("a person has to decide first")

// Parked is the exit code by which `recourse agent run` runs an agent again once a decision has
// come.
const Parked = 75

// Unsuccessful means that a call or an own step has ended without success.
type Unsuccessful struct {
	Path   string
	Status string // failed (it has no effect), in_doubt, or undone
	Code   string
	Title  string
	Detail string
}

// Error implements error.
func (u *Unsuccessful) Error() string {
	return strings.TrimRight(fmt.Sprintf("%s: %s %s %s %s", u.Path, u.Status, u.Code, u.Title, u.Detail), " ")
}

// Open describes a session of an agent. docs/agents.md explains the fields.
type Open struct {
	Name    string   `json:"name"`
	Actions []string `json:"actions"`          // names, or names with versions: book@3
	Key     string   `json:"key,omitempty"`    // with the same key, the same session; "": a new one
	Input   any      `json:"input,omitempty"`  // for the agent
	Models  []string `json:"models,omitempty"` // that the session may ask
	Budget  string   `json:"budget,omitempty"` // such as "5.00 USD"
	// Parent is the id of the saga or session whose budget pays for this one; "": its own.
	Parent   string            `json:"parent,omitempty"`
	MaxCalls int               `json:"max_calls,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Timeout  string            `json:"timeout,omitempty"` // such as "2h"; then the session is aborted
	Lease    string            `json:"lease,omitempty"`   // how long a process may be silent; default 30s
}

// SessionView is a session as the server returns it.
type SessionView struct {
	ID         string          `json:"id"`
	Definition string          `json:"definition"`
	Status     string          `json:"status"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	Cost       Costs           `json:"cost"`
	Residual   []Residue       `json:"residual"` // effects that remain after an abort
}

// Session is a session that this process is attached to. Several goroutines may use it. End it with
// Commit or Abort, or leave it to another process with Detach.
type Session struct {
	ID   string
	Life int // counts the processes that have attached to the session

	client *Client // its key is the token of the life
	attach func(context.Context) (attached, error)
	over   chan struct{}
	lost   sync.Once
	quit   context.CancelFunc
	left   bool // it was committed, aborted or detached; guarded by mu
	mu     sync.Mutex
}

// attached is the response of an attach.
type attached struct {
	Life    int   `json:"life"`
	LeaseMS int64 `json:"lease_ms"`

	at time.Time // when the request was sent
}

// Open opens a session, or finds that of o.Key, and attaches to it. While the server is down it
// retries until ctx is done. An *Error is a refusal.
func (c *Client) Open(ctx context.Context, o Open) (*Session, error) {
	var header []string
	if o.Key == "" {
		header = []string{"Idempotency-Key", rand.Text()}
	}
	var view SessionView
	err := c.retry(ctx, func() error {
		return c.call(ctx, http.MethodPost, "/v1/sessions", o, &view, header...)
	})
	if err != nil {
		return nil, err
	}
	return c.Attach(ctx, view.ID)
}

// Attach attaches this process to a session, and sends heartbeats until it is left. If another
// process is attached, Attach waits for the end of its lease until ctx is done. The process that
// attached before can no longer act in the session.
func (c *Client) Attach(ctx context.Context, id string) (*Session, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	// The caller makes the secret, so that a repeated request is the same life.
	secret := base64.RawURLEncoding.EncodeToString(random)
	host, _ := os.Hostname() // "" will do
	body := map[string]string{"holder": fmt.Sprintf("%s:%d", host, os.Getpid()), "secret": secret}
	attach := func(ctx context.Context) (a attached, err error) {
		err = c.retry(ctx, func() error {
			a.at = time.Now()
			return c.call(ctx, http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/attach", body, &a)
		})
		return a, err
	}
	life, err := attach(ctx)
	for refused(err, "session_held") {
		if pause(ctx, time.Second) != nil {
			return nil, err
		}
		life, err = attach(ctx)
	}
	if err != nil {
		return nil, err
	}
	beating, quit := context.WithCancel(context.WithoutCancel(ctx))
	s := &Session{ID: id, Life: life.Life, client: &Client{HTTP: c.HTTP, url: c.url, key: "rst_" + strings.ReplaceAll(id, "-", "") + "_" + secret}, attach: attach, over: make(chan struct{}), quit: quit}
	lease := time.Duration(life.LeaseMS) * time.Millisecond
	go s.beat(beating, lease, life.at.Add(lease))
	return s, nil
}

// AttachFromEnv returns the session of this process, which `recourse agent run` has started. The
// command sends the heartbeats.
func AttachFromEnv() (*Session, error) {
	id := os.Getenv("RECOURSE_SESSION")
	if id == "" {
		return nil, errors.New("there is no session: run this process by `recourse agent run`, or open a session by Client.Open")
	}
	life, err := strconv.Atoi(os.Getenv("RECOURSE_LIFE"))
	if err != nil {
		return nil, fmt.Errorf("RECOURSE_LIFE: %w", err)
	}
	return &Session{ID: id, Life: life, client: New(os.Getenv("RECOURSE_URL"), os.Getenv("RECOURSE_TOKEN")), over: make(chan struct{}), quit: func() {}}, nil
}

// Over is closed when the session has ended, or another process has followed, or may follow: no
// heartbeat had a response for as long as the lease lasts. It is not closed under `recourse agent
// run`, which ends the process instead.
func (s *Session) Over() <-chan struct{} { return s.over }

// Get returns the session.
func (s *Session) Get(ctx context.Context) (SessionView, error) {
	var view SessionView
	err := s.request(ctx, http.MethodGet, "", nil, &view)
	return view, err
}

// Call describes a call of an action.
type Call struct {
	Action string
	Input  any
	// Once identifies the call: calls with the same Once are the same call. Without it,
	// docs/agents.md has the rules. Never let a model choose it.
	Once  string
	Again int // makes another call with the same input
	// Patience is how long a person has to decide; 0: until ctx is done, negative: no time.
	Patience time.Duration
}

// CallView is a call as the server returns it.
type CallView struct {
	Path     string          `json:"path"`
	Action   string          `json:"action"`
	Status   string          `json:"status"`
	Replayed bool            `json:"replayed"` // it was made before, and this is its recorded result
	Key      string          `json:"key"`      // the idempotency key of its requests
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output"`
	Error    *Failure        `json:"error"`
	Cost     string          `json:"cost"`
	WaitsFor string          `json:"waits_for"` // approval, repeat, doubt, budget, credentials
	Undo     string          `json:"undo"`      // available, none, running, done
}

// Failure says why a call or a step has failed.
type Failure struct {
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// longestWait is how long a request waits for the end of a call.
const longestWait = 30 * time.Second

// Call calls an action, and waits for its end. A call that was made before returns its recorded
// result. Errors: *Unsuccessful, ErrWaits, an *Error that refuses the call, and that of ctx.
func (s *Session) Call(ctx context.Context, c Call) (*CallView, error) {
	wait := longestWait
	if c.Patience != 0 {
		wait = max(time.Second, min(wait, c.Patience))
	}
	body := map[string]any{"action": c.Action, "input": c.Input, "wait": inMillis(wait)}
	if c.Once != "" {
		body["id"] = c.Once
	}
	if c.Again != 0 {
		body["again"] = c.Again
	}
	var p patience
	replayed := false
	for first := true; ; first = false {
		var view CallView
		if err := s.request(ctx, http.MethodPost, "/calls", body, &view); err != nil { // repeated, it is the same call
			return nil, err
		}
		if first {
			replayed = view.Replayed
		}
		view.Replayed = replayed
		switch view.Status {
		case "succeeded":
			return &view, nil
		case "running", "waiting":
		default:
			return nil, unsuccessful(view.Path, view.Status, view.Error)
		}
		if view.WaitsFor != "" && p.over(c.Patience) {
			return nil, fmt.Errorf("%s waits for %s: %w", view.Path, view.WaitsFor, ErrWaits)
		}
	}
}

// patience measures how long a person has had to decide.
type patience struct{ since time.Time }

// over reports whether the time is over. It begins with the first call of over.
func (p *patience) over(limit time.Duration) bool {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return limit < 0 || limit > 0 && time.Since(p.since) >= limit
}

func unsuccessful(path, status string, f *Failure) *Unsuccessful {
	u := &Unsuccessful{Path: path, Status: status}
	if f != nil {
		u.Code, u.Title, u.Detail = f.Code, f.Title, f.Detail
	}
	return u
}

// Undo undoes one call, such as refund[0], or own step, such as own.report, unless it is undone,
// and waits until that is done. The session goes on. Errors are those of Call.
func (s *Session) Undo(ctx context.Context, path string) error {
	part := "/calls/" + url.PathEscape(path)
	if id, own := strings.CutPrefix(path, "own."); own {
		part = "/steps/" + url.PathEscape(id)
	}
	var view CallView
	if err := s.request(ctx, http.MethodPost, part+"/undo", struct{}{}, &view); err != nil {
		// After a lost response it is undone, or being undone.
		if !refused(err, "nothing_to_undo") || s.request(ctx, http.MethodGet, part, nil, &view) != nil || view.Undo == "none" {
			return err
		}
	}
	for {
		if err := s.request(ctx, http.MethodGet, part, nil, &view); err != nil || view.Undo == "done" {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// Commit ends the session once its calls have ended. Only a later undo of all of it can follow,
// within `undo_within`. output may be nil.
func (s *Session) Commit(ctx context.Context, output any) error {
	body := make(map[string]any)
	if output != nil {
		body["output"] = output
	}
	for {
		err := s.request(ctx, http.MethodPost, "/commit", body, nil)
		if err == nil {
			s.leave()
			return nil
		}
		if !refused(err, "calls_open") || pause(ctx, 500*time.Millisecond) != nil {
			return err
		}
	}
}

// Abort ends the session, and undoes its effects in the reverse order. It does not wait for that:
// see Client.Wait.
func (s *Session) Abort(ctx context.Context, reason string) error {
	body := make(map[string]any)
	if reason != "" {
		body["reason"] = reason
	}
	err := s.request(ctx, http.MethodPost, "/abort", body, nil)
	if err == nil {
		s.leave()
	}
	return err
}

// Detach lets another process attach to the session, which goes on. It does nothing after Commit or
// Abort, and under `recourse agent run`. If the server cannot be reached, others have to wait for
// the end of the lease.
func (s *Session) Detach(ctx context.Context) error {
	if s.attach == nil || !s.leave() {
		return nil
	}
	return s.client.call(ctx, http.MethodPost, s.path("/detach"), struct{}{}, nil)
}

// leave ends the heartbeats, and reports whether it is the first to do so.
func (s *Session) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.left
	s.left = true
	s.quit()
	return first
}

func (s *Session) path(part string) string { return "/v1/sessions/" + url.PathEscape(s.ID) + part }

// request sends a request of the session, and repeats it while the server is down. If the lease has
// ended, it attaches again, which fails if another process has followed.
func (s *Session) request(ctx context.Context, method, part string, in, out any, header ...string) error {
	if out == nil {
		out = new(json.RawMessage)
	}
	send := func() error {
		return s.client.retry(ctx, func() error {
			return s.client.call(ctx, method, s.path(part), in, out, header...)
		})
	}
	err := send()
	if s.attach == nil || !refused(err, "superseded") {
		return err
	}
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left {
		return err
	}
	if _, err := s.attach(ctx); err != nil {
		return err
	}
	return send()
}

// beat sends heartbeats until the session is left or lost. The lease ends at the time until, and a
// heartbeat extends it. After a lease without a response it goes on, because the session is this
// process's again if no other has followed.
func (s *Session) beat(ctx context.Context, lease time.Duration, until time.Time) {
	expiry := time.AfterFunc(time.Until(until), s.lose) // a heartbeat may hang until after that
	defer expiry.Stop()
	for pause(ctx, lease/3) == nil {
		began := time.Now()
		stop, err := s.heartbeat(ctx, lease/3)
		switch {
		case ctx.Err() != nil:
			return
		case stop, err != nil && !temporary(err):
			s.lose()
			return
		case err == nil:
			expiry.Reset(time.Until(began.Add(lease)))
		}
	}
}

// heartbeat sends one, and reports whether the session is over. Its connection may be dead, so it
// waits for a response no longer than until the next one.
func (s *Session) heartbeat(ctx context.Context, every time.Duration) (stop bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	var said struct {
		Stop bool `json:"stop"`
	}
	err := s.request(ctx, http.MethodPost, "/heartbeat", struct{}{}, &said)
	return said.Stop, err
}

func (s *Session) lose() { s.lost.Do(func() { close(s.over) }) }

// refused reports whether an error is a refusal with this code.
func refused(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
