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

	"recourse/api/rest"
)

// agent is a client of the protocol, which acts in sessions.
type agent struct {
	cfg Config
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
	id  string
	api *rest.Client // with the session token
}

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

// enter returns the session that a request names, whose lease is renewed. Errors: *failure, and
// those of the API.
func (a *agent) enter(ctx context.Context, id string) (*session, error) {
	s := &session{agent: a, id: a.who.Session}
	token, attach := a.who.Token, a.who.Attach
	if a.byKey() {
		if id == "" {
			return nil, fail("invalid_request", "the argument `session` is missing: call session_open, and send the `session` that it returns with each call")
		}
		secret, derived, err := a.cfg.Life(a.who.Key, id)
		if err != nil {
			return nil, fail("session_not_found", "%.100q is not the id of a session: call session_open, and send the `session` that it returns", id)
		}
		s.id, token = id, derived
		attach = func(ctx context.Context) error { return a.attach(ctx, id, secret) }
	}
	s.api = a.api.WithKey(token)
	_, err := s.send(ctx, http.MethodPost, "heartbeat", struct{}{}, nil)
	if code := codeOf(err); attach != nil && (code == "superseded" || code == "unknown_token") {
		err = attach(ctx) // the lease has ended; the same secret continues the life
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// attach begins, or continues, the life of a session in which the owner of the key acts.
func (a *agent) attach(ctx context.Context, id, secret string) error {
	_, err := do(ctx, a.api.WithKey(a.who.Key), http.MethodPost, rest.Path("v1", "sessions", id, "attach"), map[string]string{"holder": "mcp", "secret": secret}, nil)
	return err
}

// send sends a request of the session. body and into may be nil.
func (s *session) send(ctx context.Context, method, part string, body, into any) (*rest.Reply, error) {
	return do(ctx, s.api, method, rest.Path("v1", "sessions", s.id)+"/"+part, body, into)
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

// rest returns a failure if members are left that the tool does not know.
func (m members) end(known ...string) error {
	for name := range m { // any order: one is enough
		if !slices.Contains(known, name) {
			return fail("invalid_request", "there is no argument %.60q: the tool has %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}
