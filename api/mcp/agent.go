package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"recourse/api/rest"
)

// agent is a client of the protocol, which acts in sessions.
type agent struct {
	*Handler
	api *rest.Client
	ctx context.Context // of the HTTP request, which ends when the client has disconnected
	who Caller
}

// byKey reports whether the client has an API key, or none is required. Then each tool has an
// argument that names the session.
func (a *agent) byKey() bool { return a.who.Token == "" }

// session is a session in whose name a request is made.
type session struct {
	*agent
	id     string
	token  string
	api    *rest.Client // with the token
	attach func(context.Context) error
	models bool // its requests to models are in its journal
}

// ModelsHeader is a header of responses with a call: "true" if its session has requests to models.
const ModelsHeader = "X-Recourse-Models"

// until returns a context that ends with ctx, and when the client has disconnected: in the older
// revision of the protocol, ctx alone does not.
func (a *agent) until(ctx context.Context) (context.Context, context.CancelFunc) {
	merged, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.ctx, cancel)
	return merged, func() {
		stop()
		cancel()
	}
}

// failure is why a tool refuses a request.
type failure struct {
	code, text string
}

// Error implements error.
func (f *failure) Error() string { return f.code + ": " + f.text }

func fail(code, text string, args ...any) error { return &failure{code, fmt.Sprintf(text, args...)} }

// codeOf returns the code of a problem of the API; "" if err is none.
func codeOf(err error) string {
	if p, ok := errors.AsType[*rest.Problem](err); ok {
		return strings.TrimPrefix(p.Type, "urn:recourse:problem:")
	}
	return ""
}

// enter returns the session that a request names. Errors: *failure, and those of the API.
func (a *agent) enter(ctx context.Context, id string) (*session, error) {
	s := &session{agent: a, id: a.who.Session, token: a.who.Token, attach: a.who.Attach}
	if a.byKey() {
		if id == "" {
			return nil, fail("invalid_request", "the argument `session` is missing: call session_open, and send the `session` that it returns with each call")
		}
		secret, token, err := a.cfg.Life(a.who.Name, id)
		if err != nil {
			return nil, fail("session_not_found", "%.100q is not the id of a session: call session_open, and send the `session` that it returns", id)
		}
		s.id, s.token = id, token
		s.attach = func(ctx context.Context) error { return a.attach(ctx, id, secret) }
	}
	s.api = a.api.WithKey(s.token)
	return s, s.renew(ctx)
}

// renewEvery is how often a lease is renewed at most: a third of the shortest one.
const renewEvery = 1500 * time.Millisecond

// renew renews the lease of the session.
func (s *session) renew(ctx context.Context) error {
	if !s.leases.due(s.token, time.Now()) {
		return nil
	}
	if _, err := s.send(ctx, http.MethodPost, "heartbeat", struct{}{}, nil); err != nil {
		return err
	}
	s.leases.renewed(s.token, time.Now().Add(renewEvery))
	return nil
}

// leases remembers when leases have to be renewed. Forgetting it renews one too early.
type leases struct {
	mu   sync.Mutex
	next map[string]time.Time // by token. Guarded by mu
}

// mostLeases bounds the memory of leases.
const mostLeases = 10_000

func (l *leases) due(token string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !now.Before(l.next[token])
}

func (l *leases) renewed(token string, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil || len(l.next) >= mostLeases {
		l.next = make(map[string]time.Time)
	}
	l.next[token] = next
}

// attach begins, or continues, the life of a session in which the client acts.
func (a *agent) attach(ctx context.Context, id, secret string) error {
	_, err := do(ctx, a.api, http.MethodPost, rest.Path("v1", "sessions", id, "attach"), map[string]string{"holder": "mcp", "secret": secret}, nil)
	return err
}

// send sends a request of the session. body and into may be nil. If the lease has ended, it
// continues the life with the same secret.
func (s *session) send(ctx context.Context, method, part string, body, into any) (*rest.Reply, error) {
	path := rest.Path("v1", "sessions", s.id)
	if part != "" {
		path += "/" + part
	}
	reply, err := do(ctx, s.api, method, path, body, into)
	if code := codeOf(err); s.attach != nil && (code == "superseded" || code == "unknown_token") {
		if err := s.attach(ctx); err != nil {
			return nil, err
		}
		reply, err = do(ctx, s.api, method, path, body, into)
	}
	if err == nil && reply.Header.Get(ModelsHeader) != "" {
		s.models = true
	}
	return reply, err
}

func do(ctx context.Context, api *rest.Client, method, path string, body, into any) (*rest.Reply, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = encode(body); err != nil {
			return nil, fmt.Errorf("request to %s: %w", path, err)
		}
	}
	return api.Do(ctx, method, path, data, nil, into)
}

// encode is json.Marshal without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// members are those of a JSON object, whose values are not decoded, so that numbers keep their
// digits.
type members map[string]json.RawMessage

// parse reads a tool's arguments. Error: *failure, also for a member that is there twice, because
// readers disagree about which one counts.
func parse(arguments json.RawMessage) (members, error) {
	m := members{}
	if len(arguments) == 0 || string(arguments) == "null" {
		return m, nil
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fail("invalid_request", "the arguments must be a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fail("invalid_json", "the arguments are not JSON: %s", err)
		}
		text, _ := name.(string) // the decoder allows nothing else here
		if m[text] != nil {
			return nil, fail("invalid_json", "the argument %.60q is there twice: send it once", text)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fail("invalid_json", "the arguments are not JSON: %s", err)
		}
		m[text] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fail("invalid_json", "the arguments are not JSON: %s", err)
	}
	return m, nil
}

// take removes a member and decodes it into v. Error: *failure.
func (m members) take(name string, v any, what string) error {
	raw, ok := m[name]
	delete(m, name)
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fail("invalid_request", "the argument `%s` must be %s", name, what)
	}
	return nil
}

// end returns a failure if members are left that the tool does not know.
func (m members) end(known ...string) error {
	for name := range m { // any order: one is enough
		if !slices.Contains(known, name) {
			return fail("invalid_request", "there is no argument %.60q: the tool has %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}
