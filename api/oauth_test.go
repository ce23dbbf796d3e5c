package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recourse/internal/oauth"
	"recourse/internal/test/issuer"
	"recourse/saga/machine"
)

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newOAuth returns a server that takes the tokens of an issuer, with the actions of the tests, and
// the key of an admin.
func newOAuth(t *testing.T, more ...setup) (*fixture, *issuer.Issuer, *syncBuffer) {
	t.Helper()
	i, log := issuer.New(t), new(syncBuffer)
	v := oauth.New(oauth.Config{Issuer: i.URL, Audience: issuer.Audience, JWKS: i.JWKS()})
	t.Cleanup(v.Close)
	x := newFixture(t, append([]setup{func(c *Config) {
		c.OAuth, c.RequireKeys, c.Log = v, true, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}}, more...)...)
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	return x, i, log
}

const listTools = `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`

// askMCP sends a message to the MCP server with a token.
func askMCP(x *fixture, token, message string) *answer {
	x.t.Helper()
	return x.do("POST", "/mcp", message, header{"Accept", "application/json, text/event-stream"}, header{"Authorization", "Bearer " + token})
}

// The MCP server says which tokens it takes, to clients without one, with a wrong one, and with one
// that is good for other things.
func TestOAuthChallenges(t *testing.T) {
	x, i, log := newOAuth(t)
	metadata := `resource_metadata="` + x.url + `/.well-known/oauth-protected-resource/mcp"`
	challenged := func(name string, a *answer, status int, c code, parts ...string) {
		t.Helper()
		p := a.problem(status, c)
		got := a.Header.Get("WWW-Authenticate")
		for _, part := range append(parts, metadata) {
			if !strings.HasPrefix(got, "Bearer ") || !strings.Contains(got, part) {
				t.Errorf("%s: WWW-Authenticate is %q, want %s", name, got, part)
			}
		}
		if status == http.StatusUnauthorized && len(parts) == 0 && strings.Contains(got, "error") {
			t.Errorf("%s: an error without credentials: %s", name, got)
		}
		if strings.Contains(p.Detail, "eyJ") {
			t.Errorf("%s: the problem has the token: %s", name, p.Detail)
		}
	}
	admin := x.auth
	x.auth = ""
	challenged("no token", x.do("POST", "/mcp", listTools, header{"Accept", "application/json, text/event-stream"}), 401, "key_required")
	challenged("wrong session token", askMCP(x, "rst_x", listTools), 401, "unknown_token")
	challenged("wrong key", askMCP(x, "rk_x", listTools), 401, "key_invalid")
	invalid := `error="invalid_token"`
	for name, token := range map[string]string{
		"audience":      i.Token("ann", "action:charge", issuer.Claims{"aud": "https://other.example/mcp"}),
		"issuer":        i.Token("ann", "action:charge", issuer.Claims{"iss": "https://other.example"}),
		"expired":       i.Token("ann", "action:charge", issuer.Claims{"exp": time.Now().Add(-time.Minute).Unix()}),
		"not yet valid": i.Token("ann", "action:charge", issuer.Claims{"nbf": time.Now().Add(time.Hour).Unix()}),
		"none":          i.Sign("none", "", "ann", "action:charge"),
		"HS256":         i.Sign("HS256", "", "ann", "action:charge"),
		"unknown key":   i.Sign("ES256", "-2", "ann", "action:charge"),
		"no JWT":        "opaque",
	} {
		challenged(name, askMCP(x, token, listTools), 401, "token_invalid", invalid)
	}
	for name, scope := range map[string]string{"no scope": "", "other scopes": "openid charge actions:charge", "an empty name": "action:"} {
		challenged(name, askMCP(x, i.Token("ann", scope), listTools), 403, "insufficient_scope", `error="insufficient_scope"`, `scope="action:big action:charge action:mail"`)
	}
	call := `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mail", "arguments": {"session": "s", "order": "A", "text": "t"}}}`
	challenged("another action", askMCP(x, i.Token("ann", "action:charge"), call), 403, "insufficient_scope", `error="insufficient_scope"`, `scope="action:mail"`)

	// The metadata needs no key, and leads from the resource to its issuer.
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		var m metadataView
		x.do("GET", path, "").want(200).into(&m)
		if m.Resource != x.url+"/mcp" || !slices.Equal(m.Servers, []string{i.URL}) || !slices.Equal(m.Scopes, []string{"action:big", "action:charge", "action:mail"}) || !slices.Equal(m.Methods, []string{"header"}) {
			t.Errorf("%s: %+v", path, m)
		}
	}

	// No other route takes a token, and API keys still work.
	token := i.Token("ann", "action:charge")
	for _, path := range []string{"/v1/sessions", "/v1/sessions/actions", "/v1/sagas", "/v1/whoami", "/metrics", "/v1/sessions/" + uuid.Must(uuid.NewV7()).String() + "/calls"} {
		a := x.do("GET", path, "", header{"Authorization", "Bearer " + token}, outside)
		if p := a.problem(401, "key_invalid"); strings.Contains(a.Header.Get("WWW-Authenticate"), "metadata") || !strings.Contains(p.Detail, "at /mcp only") {
			t.Errorf("%s: %s %s", path, a.Header.Get("WWW-Authenticate"), p.Detail)
		}
	}
	if p := x.do("GET", "/v1/sagas", "", header{"Authorization", "Bearer opaque"}).problem(401, "key_invalid"); strings.Contains(p.Detail, "/mcp") {
		t.Errorf("no access token: %s", p.Detail)
	}
	x.do("POST", "/v1/sessions", `{"name": "a", "actions": ["charge"]}`, header{"Authorization", "Bearer " + token}).problem(401, "key_invalid")
	x.do("POST", "/llm/openai/v1/chat/completions", `{}`, header{"Authorization", "Bearer " + token}, outside).want(401)
	askMCP(x, strings.TrimPrefix(admin, "Bearer "), listTools).want(200)
	x.do("GET", "/v1/sagas", "", header{"Authorization", admin}).want(200)
	askMCP(x, token, listTools).want(200)
	if strings.Contains(log.String(), "eyJ") {
		t.Error("the log has a token")
	}
}

// A server without keys accepts everybody, except at the MCP server: clients only ask for a token
// if they are refused without one.
func TestOAuthWithoutKeys(t *testing.T) {
	i := issuer.New(t)
	v := oauth.New(oauth.Config{Issuer: i.URL, Audience: issuer.Audience, JWKS: i.JWKS()})
	t.Cleanup(v.Close)
	x := newFixture(t, func(c *Config) { c.OAuth, c.PublicURL = v, "https://recourse.example/app" })
	x.do("GET", "/v1/sagas", "").want(200)
	a := x.do("POST", "/mcp", listTools)
	a.problem(401, "key_required")
	if got, want := a.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="https://recourse.example/.well-known/oauth-protected-resource/app/mcp"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var m metadataView
	x.do("GET", "/.well-known/oauth-protected-resource/mcp", "").want(200).into(&m)
	if m.Resource != "https://recourse.example/app/mcp" || m.Scopes == nil {
		t.Errorf("metadata %+v", m)
	}
	askMCP(x, i.Token("ann", "action:charge"), listTools).want(200)

	i.Down.Store(true)
	a = askMCP(x, i.Sign("ES256", "-2", "ann", "action:charge"), listTools)
	if a.problem(503, "issuer_unavailable"); a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), "jwks_url") {
		t.Errorf("unavailable: %s", a.Body)
	}

	none := newFixture(t)
	none.do("GET", "/.well-known/oauth-protected-resource/mcp", "").problem(404, "route_not_found")
	a = none.do("POST", "/mcp", listTools, header{"Authorization", "Bearer " + i.Token("ann", "action:charge")}, header{"Accept", "application/json, text/event-stream"})
	if p := a.problem(401, "key_invalid"); strings.Contains(p.Detail, "OAuth") {
		t.Errorf("no issuer: %s", p.Detail)
	}
}

// The sessions of a token belong to its subject, with exactly the actions of its scopes.
func TestOAuthSessions(t *testing.T) {
	x, i, _ := newOAuth(t)
	ann, bob := connect(t, x, i.Token("ann", "openid action:charge action:internal"), nil), connect(t, x, i.Token("bob", "action:charge action:mail"), nil)
	tools := ann.tools()
	if len(tools) != 7 || tools["session_open"] == nil || tools["charge"] == nil || tools["internal"] != nil {
		t.Errorf("tools %v", tools)
	}
	var open struct{ Session string }
	ann.refused("insufficient_scope", "session_open", `{"key": "t-1", "actions": ["charge", "mail"]}`)
	ann.refused("not_for_agents", "session_open", `{"key": "t-1", "actions": ["internal"]}`)
	r := ann.into(&open, "session_open", `{"key": "t-1"}`)
	if strings.Contains(said(r), TokenPrefix) {
		t.Errorf("the client got a token: %s", said(r))
	}
	session := open.Session
	charge := `{"session": "` + session + `", "order": "A", "amount": 1}`
	var v machine.CallView
	ann.into(&v, "charge", charge)
	if v.Status != machine.CallSucceeded {
		t.Fatalf("call %+v", v)
	}

	// A later token of the same subject continues, and a call that is repeated has one effect.
	later := connect(t, x, i.Sign("RS256", "", "ann", "action:charge"), nil)
	if r := later.into(&v, "charge", charge); !madeBefore(r) {
		t.Errorf("repeated: %+v", r)
	}

	// Another subject has its own sessions, also with the same key, and sees nothing of others'.
	for _, tool := range []string{"session_status", "session_commit", "session_abort"} {
		text := bob.refused("saga_not_found", tool, `{"session": "`+session+`"}`)
		if other := bob.refused("saga_not_found", tool, `{"session": "`+uuid.Must(uuid.NewV7()).String()+`"}`); strings.Contains(text, "ann") || len(text) != len(other) {
			t.Errorf("%s: %s, and of no session %s", tool, text, other)
		}
	}
	bob.refused("saga_not_found", "charge", charge)
	bob.refused("saga_not_found", "session_undo", `{"session": "`+session+`", "call": "charge[0]"}`)
	for _, part := range []string{"journal", "summary"} {
		if _, err := bob.cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "recourse://session/" + session + "/" + part}); err == nil {
			t.Errorf("bob has read the %s", part)
		}
	}
	bob.into(&open, "session_open", `{"key": "t-1", "actions": ["charge", "mail"]}`)
	if open.Session == session {
		t.Fatal("two subjects share a session")
	}
	bob.into(&v, "mail", `{"session": "`+open.Session+`", "order": "A", "text": "hello"}`)
	// A narrower token of bob's may not act in a session with mail, not even undo or read.
	narrow := connect(t, x, i.Token("bob", "action:charge"), nil)
	for _, tool := range []string{"session_status", "session_commit", "session_abort"} {
		narrow.refused("insufficient_scope", tool, `{"session": "`+open.Session+`"}`)
	}
	narrow.refused("insufficient_scope", "charge", `{"session": "`+open.Session+`", "order": "B", "amount": 1}`)
	narrow.refused("insufficient_scope", "session_open", `{"key": "t-1", "actions": ["charge", "mail"]}`)

	// No key has the name of a subject.
	if _, _, err := NewKey(i.URL+"#ann", "agent"); err == nil {
		t.Error("a key has the name of a subject")
	}

	// A caller who knows a subject's name can derive the token of its life, but may not use it.
	secret, token, err := lifeOfClient(i.URL+"#ann", session)
	if err != nil {
		t.Fatal(err)
	}
	derived := header{"Authorization", "Bearer " + token}
	x.do("POST", "/v1/sessions/"+session+"/calls", `{"action": "charge", "input": {"order": "B", "amount": 1}}`, derived).problem(401, "unknown_token")
	x.do("GET", "/v1/sessions/"+session+"/summary", "", derived).problem(401, "unknown_token")
	x.do("POST", "/v1/sessions/"+session+"/heartbeat", "", derived).problem(401, "unknown_token")
	askMCP(x, token, listTools).problem(401, "unknown_token")
	if _, key := addKey(x, "agent", time.Time{}); key != "" {
		x.do("POST", "/v1/sessions/"+session+"/attach", `{"secret": "`+secret+`"}`, header{"Authorization", "Bearer " + key}).problem(403, "forbidden")
		connect(t, x, key, nil).refused("forbidden", "charge", charge)
	}

	var end struct{ Status string }
	ann.into(&end, "session_abort", `{"session": "`+session+`"}`)
	x.until(session, func(v machine.View) bool { return v.Status.Terminal() })
	ledger := x.world.Ledger().Service("pay")
	if len(ledger.Effects()) != 1 || len(ledger.Live()) != 0 {
		t.Errorf("%d charges, %d are left", len(ledger.Effects()), len(ledger.Live()))
	}
}
