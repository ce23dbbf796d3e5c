package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recourse/journal"
	"recourse/saga/machine"
)

// mcpClient is a client of the Model Context Protocol.
type mcpClient struct {
	t  *testing.T
	cs *sdk.ClientSession
}

// bearerTransport adds credentials to requests.
type bearerTransport string

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, x *fixture, bearer string, options *sdk.ClientOptions) *mcpClient {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	cs, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: x.url + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(bearer)}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cs.Close(); err != nil {
			t.Error(err)
		}
	})
	return &mcpClient{t, cs}
}

func (c *mcpClient) raw(tool, arguments string) *sdk.CallToolResult {
	c.t.Helper()
	r, err := c.cs.CallTool(c.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		c.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return r
}

// said returns the texts of a result.
func said(r *sdk.CallToolResult) string {
	var texts []string
	for _, part := range r.Content {
		if text, ok := part.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// madeBefore reports whether a result says that its call was made before.
func madeBefore(r *sdk.CallToolResult) bool { return r.Meta["recourse/replayed"] == true }

// shown returns what a client may show its model of a result. It must be the same in each life:
// answers of models are found by what the model is asked.
func shown(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	text, err := json.Marshal([]any{r.Content, r.StructuredContent, r.IsError})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// into decodes the result of a tool that has succeeded.
func (c *mcpClient) into(v any, tool, arguments string) *sdk.CallToolResult {
	c.t.Helper()
	r := c.raw(tool, arguments)
	if r.IsError {
		c.t.Fatalf("%s %s: %s", tool, arguments, said(r))
	}
	if m, _ := r.StructuredContent.(map[string]any); len(r.Content) > 1 && (m["note"] == nil || !strings.HasSuffix(said(r), fmt.Sprint("\n", m["note"]))) {
		c.t.Errorf("%s %s: the structured content %v lacks the text of the other: %s", tool, arguments, m, said(r))
	}
	decodeResult(c.t, r, v)
	return r
}

// decodeResult decodes the text of a result, which has the digits of numbers; the SDK decodes the
// structured content to floats.
func decodeResult(t *testing.T, r *sdk.CallToolResult, v any) {
	t.Helper()
	text, ok := r.Content[0].(*sdk.TextContent)
	if !ok || r.StructuredContent == nil {
		t.Fatalf("result %+v", r)
	}
	if err := json.Unmarshal([]byte(text.Text), v); err != nil {
		t.Fatal(err)
	}
}

// refused fails unless the tool refuses with a code.
func (c *mcpClient) refused(code, tool, arguments string) string {
	c.t.Helper()
	r := c.raw(tool, arguments)
	if !r.IsError || !strings.HasPrefix(said(r), code+": ") || r.StructuredContent != nil {
		c.t.Fatalf("%s %s: %v %s, want %s", tool, arguments, r.IsError, said(r), code)
	}
	return said(r)
}

// viewed reads a saga.
func viewed(x *fixture, id string) machine.View {
	x.t.Helper()
	return x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
}

func (c *mcpClient) tools() map[string]*sdk.Tool {
	c.t.Helper()
	list, err := c.cs.ListTools(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	byName := map[string]*sdk.Tool{}
	for _, t := range list.Tools {
		byName[t.Name] = t
	}
	return byName
}

// TestMCP calls actions of a session as tools, repeats a call over another connection, undoes,
// reads the resources, and commits.
func TestMCP(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		c := connect(t, x, a.token(), nil)
		if v := c.cs.InitializeResult().ProtocolVersion; v != "2026-07-28" {
			t.Errorf("protocol %s", v)
		}
		tools := c.tools()
		for _, name := range []string{"charge", "mail", "big", "session_status", "session_wait", "session_undo", "session_commit", "session_abort"} {
			if tools[name] == nil {
				t.Errorf("no tool %s", name)
			}
		}
		if len(tools) != 8 {
			t.Errorf("tools %v", tools)
		}
		charge := tools["charge"]
		if h := charge.Annotations; h.ReadOnlyHint || *h.DestructiveHint || !h.IdempotentHint || !*h.OpenWorldHint {
			t.Errorf("annotations of charge %+v", h)
		}
		if h := tools["mail"].Annotations; !*h.DestructiveHint {
			t.Errorf("mail cannot be undone: %+v", h)
		}
		schema, _ := json.Marshal(charge.InputSchema)
		if !strings.Contains(string(schema), `"recourse_again"`) || !strings.Contains(string(schema), `"amount"`) || strings.Contains(string(schema), `"session"`) {
			t.Errorf("schema %s", schema)
		}

		var one, again machine.CallView
		first := c.into(&one, "charge", `{"order": "A", "amount": 10.50}`)
		if one.Path != "charge[0]" || one.Status != machine.CallSucceeded || madeBefore(first) || !strings.Contains(string(one.Input), "10.50") {
			t.Errorf("call %+v", one)
		}
		r := connect(t, x, a.token(), nil).into(&again, "charge", `{"amount": 10.50, "order": "A"}`)
		if again.Path != one.Path || !madeBefore(r) || !again.Replayed {
			t.Errorf("the same call: %+v", again)
		}
		if strings.Contains(said(first), "replayed") {
			t.Errorf("the first call: %s", said(first))
		}
		if r := c.into(&again, "charge", `{"order": "A", "amount": 10.50, "recourse_again": 1}`); again.Path != "charge[1]" || madeBefore(r) {
			t.Errorf("again: %+v", again)
		}
		if n := len(x.world.Ledger().Service("pay").Effects()); n != 2 {
			t.Errorf("%d charges, want 2", n)
		}

		before := viewed(x, a.id).Seq
		if text := c.refused("bad_input", "charge", `{"order": 7}`); !strings.Contains(text, "/input") {
			t.Errorf("no pointer: %s", text)
		}
		c.refused("invalid_json", "charge", `{"order": "A", "order": "B", "amount": 1}`)
		c.refused("invalid_request", "session_wait", `{}`)
		c.refused("invalid_request", "session_wait", `{"call": "charge[0]", "more": 1}`)
		c.refused("call_not_found", "session_wait", `{"call": "charge[9]"}`)
		if after := viewed(x, a.id).Seq; after != before {
			t.Errorf("refusals have recorded something: %d, then %d", before, after)
		}

		c.into(&again, "session_undo", `{"call": "charge[1]", "reason": "twice"}`)
		x.until(a.id, func(machine.View) bool {
			c.into(&again, "session_wait", `{"call": "charge[1]"}`)
			return again.Status == machine.CallUndone
		})
		status := c.raw("session_status", `{}`)
		if text := said(status); status.IsError || !strings.Contains(text, "Undone:") || !strings.Contains(text, "charge[0]") {
			t.Errorf("status: %s", text)
		}

		list, err := c.cs.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 2 {
			t.Fatalf("resources %v: %v", list, err)
		}
		summary, err := c.cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "recourse://session/summary"})
		if err != nil || !strings.Contains(summary.Contents[0].Text, "charge[0]") {
			t.Errorf("summary: %v", err)
		}
		journal, err := c.cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "recourse://session/journal"})
		if err != nil || !strings.Contains(journal.Contents[0].Text, `"kind":"called"`) {
			t.Errorf("journal: %v", err)
		}
		if text := journal.Contents[0].Text; strings.Contains(text, a.secret) {
			t.Error("the journal has the secret of the process")
		}
		if _, err := c.cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "recourse://session/other"}); err == nil {
			t.Error("an unknown resource was read")
		}

		var end struct{ Status string }
		c.into(&end, "session_commit", `{"output": {"n": 1}}`)
		if end.Status != "succeeded" || string(viewed(x, a.id).Output) != `{"n":1}` {
			t.Errorf("committed: %+v", end)
		}
		c.refused("terminal", "charge", `{"order": "C", "amount": 1}`)
	})
}

// If the session's requests to models are recorded, a model is shown the same of a call in each
// life: a request that differs gets no recorded answer.
func TestMCPShowsTheSame(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	chat := modelRequests[0]
	a.ask(chat.path, fmt.Sprintf(chat.body, "")).want(200)
	var v machine.CallView
	first := connect(t, x, a.token(), nil).into(&v, "charge", `{"order": "A", "amount": 10.50}`)
	again := connect(t, x, a.token(), nil).into(&v, "charge", `{"amount": 10.50, "order": "A"}`)
	if got, want := shown(t, again), shown(t, first); got != want || !madeBefore(again) {
		t.Errorf("the model is shown %s\ninstead of %s", got, want)
	}
}

// An agent may not decide about its own approval: neither by a tool, nor by the answer to a request
// of the server. The request only shows the address of the inbox.
func TestMCPApproval(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Limits.Tool, c.Limits.ToolNote = 800*time.Millisecond, 150*time.Millisecond })
	a := openAgent(t, x, "")

	plain := connect(t, x, a.token(), nil)
	var notes atomic.Int32
	noted := connect(t, x, a.token(), &sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { notes.Add(1) }})
	params := &sdk.CallToolParams{Name: "big", Arguments: json.RawMessage(`{"amount": 60}`)}
	params.SetProgressToken("p")
	r, err := noted.cs.CallTool(t.Context(), params)
	if err != nil || r.IsError || !strings.Contains(said(r), `session_wait with {"call": "big[0]"}`) || !strings.Contains(said(r), x.url+"/inbox?saga="+a.id) {
		t.Fatalf("waiting: %v %s", err, said(r))
	}
	if n := notes.Load(); n < 3 {
		t.Errorf("%d notes of progress", n)
	}

	// Whatever the client answers, the call waits until the inbox has decided.
	for _, action := range []string{"accept", "decline", "cancel"} {
		asked := 0
		asking := connect(t, x, a.token(), &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}, Form: &sdk.FormElicitationCapabilities{}}},
			ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				asked++
				if r.Params.Mode != "url" || r.Params.URL != x.url+"/inbox?saga="+a.id {
					t.Errorf("asked %+v", r.Params)
				}
				return &sdk.ElicitResult{Action: action, Content: map[string]any{"outcome": "approve", "approved": true}}, nil
			}})
		var v machine.CallView
		asking.into(&v, "big", `{"amount": 60}`)
		if v.Status != machine.CallWaiting || v.WaitsFor != "approval" || asked != 1 {
			t.Errorf("%s: %d questions, %+v", action, asked, v)
		}
	}
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 0 {
		t.Fatalf("%d charges without an approval", n)
	}
	var v machine.CallView
	plain.into(&v, "session_wait", `{"call": "big[0]"}`)
	if v.Inbox == "" {
		t.Fatalf("no inbox entry: %+v", v)
	}
	var entries page[inboxEntry]
	x.do("GET", "/v1/inbox?saga="+a.id, "").want(200).into(&entries)
	x.do("POST", "/v1/sagas/"+a.id+"/steps/big%5B0%5D/approve", `{"shown": "`+entries.Data[0].ShownHash+`"}`).want(200)
	plain.into(&v, "session_wait", `{"call": "big[0]"}`)
	if v.Status != machine.CallSucceeded {
		t.Errorf("approved: %+v", v)
	}
	plain.into(&v, "big", `{"amount": 10}`)
	plain.refused("limit", "big", `{"amount": 11}`)
}

// A call may wait as long as it is allowed to, whatever part of a second is left for the last
// request.
func TestMCPWaitsUntilTheEnd(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Limits.Tool, c.Limits.ToolNote = 2600*time.Millisecond, 1200*time.Millisecond })
	a := openAgent(t, x, "")
	c := connect(t, x, a.token(), nil)
	for _, tool := range []struct{ name, arguments string }{{"big", `{"amount": 60}`}, {"session_wait", `{"call": "big[0]"}`}} {
		var v machine.CallView
		if c.into(&v, tool.name, tool.arguments); v.Status != machine.CallWaiting {
			t.Errorf("%s: %+v", tool.name, v)
		}
	}
}

// agentKey adds an API key of the role agent, which opens sessions named assistant with these
// actions.
func agentKey(x *fixture, name string, actions ...string) (journal.APIKey, string) {
	x.t.Helper()
	k, secret, err := NewKey(name, "agent")
	if err == nil {
		err = Grant(&k, journal.AgentGrant{Actions: actions, Sessions: []string{"assistant"}})
	}
	if err == nil {
		err = x.store.AddKey(x.t.Context(), k)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return k, secret
}

// With an API key, the tools open sessions, and each call names one. The client never gets a token.
func TestMCPWithKey(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	_, ann := agentKey(x, "ann", "charge")
	_, bob := agentKey(x, "bob", "charge")
	c := connect(t, x, ann, nil)
	tools := c.tools()
	if len(tools) != 7 || tools["session_open"] == nil || tools["charge"] == nil {
		t.Errorf("tools %v", tools)
	}
	for name, tool := range tools {
		schema, _ := json.Marshal(tool.InputSchema)
		if has := strings.Contains(string(schema), `"session"`); has != (name != "session_open") {
			t.Errorf("%s: %s", name, schema)
		}
	}
	var open struct {
		Session, Status string
		Actions         []string
	}
	c.refused("invalid_request", "session_open", `{}`)
	c.refused("forbidden", "session_open", `{"key": "t-1", "actions": ["big"]}`)
	c.refused("forbidden", "session_open", `{"key": "t-1", "name": "other"}`)
	r := c.into(&open, "session_open", `{"key": "t-1"}`)
	if open.Session == "" || len(open.Actions) != 1 || strings.Contains(said(r), TokenPrefix) {
		t.Fatalf("opened %+v: %s", open, said(r))
	}
	session := open.Session
	c.into(&open, "session_open", `{"key": "t-1"}`)
	if open.Session != session {
		t.Errorf("the same key opens %s and %s", session, open.Session)
	}
	c.refused("invalid_request", "charge", `{"order": "A", "amount": 1}`)
	c.refused("session_not_found", "charge", `{"session": "x", "order": "A", "amount": 1}`)
	var v machine.CallView
	c.into(&v, "charge", `{"session": "`+session+`", "order": "A", "amount": 1}`)
	if v.Status != machine.CallSucceeded || strings.Contains(string(v.Input), session) {
		t.Errorf("call %+v", v)
	}
	connect(t, x, bob, nil).refused("forbidden", "charge", `{"session": "`+session+`", "order": "B", "amount": 1}`)

	templates, err := c.cs.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 2 {
		t.Errorf("templates %v: %v", templates, err)
	}
	if got, err := c.cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "recourse://session/" + session + "/summary"}); err != nil || !strings.Contains(got.Contents[0].Text, "charge[0]") {
		t.Errorf("summary: %v %v", got, err)
	}
	c.into(&open, "session_abort", `{"session": "`+session+`", "reason": "changed my mind"}`)
	x.until(session, func(v machine.View) bool { return v.Status.Terminal() })
	if n := len(x.world.Ledger().Service("pay").Live()); n != 0 {
		t.Errorf("%d charges are left", n)
	}
}

// The tools of an open session are those with which it was opened, whatever is published or
// archived later, and a key that names a version of an action opens sessions with that one.
func TestMCPPins(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	_, key := agentKey(x, "desk", "charge@1", "mail")
	_, every := agentKey(x, "every")
	_, other := agentKey(x, "other", "mail")
	var open struct {
		Session string
		Actions []string
	}
	c, all := connect(t, x, key, nil), connect(t, x, every, nil)
	all.into(&open, "session_open", `{"key": "t-1"}`)
	calls := map[*mcpClient][]string{all: {`{"session": "` + open.Session + `", "order": "B", "amount": 1}`}}
	c.into(&open, "session_open", `{"key": "t-1"}`)
	calls[c] = []string{`{"session": "` + open.Session + `", "order": "A", "amount": 1}`, `{"session": "` + open.Session + `", "order": "A", "text": "hello"}`}
	for client, arguments := range calls {
		for i, tool := range []string{"charge", "mail"}[:len(arguments)] {
			client.into(&machine.CallView{}, tool, arguments[i])
		}
	}
	again := func(when string, both bool) {
		t.Helper()
		for client, arguments := range calls {
			for i, tool := range []string{"charge", "mail"}[:len(arguments)] {
				if r := client.into(&machine.CallView{}, tool, arguments[i]); !madeBefore(r) {
					t.Errorf("%s: %s is another call: %s", when, tool, said(r))
				}
			}
		}
		tools := c.tools()
		if tools["charge"] == nil || (tools["mail"] != nil) != both {
			t.Fatalf("%s: tools %v", when, tools)
		}
		if schema, _ := json.Marshal(tools["charge"].InputSchema); strings.Contains(string(schema), "note") {
			t.Errorf("%s: the schema of another version: %s", when, schema)
		}
		for i, actions := range []string{"", `, "actions": ["charge"]`} {
			c.into(&open, "session_open", fmt.Sprintf(`{"key": "%s-%d"%s}`, strings.ReplaceAll(when, " ", "-"), i, actions))
			if open.Actions[0] != "charge@1" || len(open.Actions) > 1 && !both {
				t.Errorf("%s: opened with %v", when, open.Actions)
			}
		}
	}
	again("at first", true)
	noted := strings.ReplaceAll(agentActions["charge"], "{order: string,", "{order: string, note: string,")
	x.do("PUT", "/v1/actions/charge", noted).want(201)
	again("after a new version", true)
	x.do("PUT", "/v1/actions/charge", strings.ReplaceAll(noted, "agents: auto\n", "")).want(201)
	x.do("DELETE", "/v1/actions/mail", "").want(204)
	again("after one that is not for agents", false)
	x.do("DELETE", "/v1/actions/charge", "").want(204)
	again("after its end", false)
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}

	// A key learns nothing of the sessions of others, and calls no action that its grant lacks.
	_, less := agentKey(x, "desk", "mail")
	for _, key := range []string{other, less} {
		if _, err := connect(t, x, key, nil).cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "charge", Arguments: json.RawMessage(calls[c][0])}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("charge without a grant: %v", err)
		}
	}
}

// Keys with one name are one client over MCP, too: a key that replaces another one continues its
// sessions at once. Nobody else does, also who knows the name, and so the token of the life.
func TestMCPKeyRotation(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	former, first := agentKey(x, "desk", "charge")
	_, second := agentKey(x, "desk", "charge")
	_, other := agentKey(x, "other", "charge")
	_, operator := addKey(x, "operator", time.Time{})
	var open struct{ Session string }
	one := connect(t, x, first, nil)
	one.into(&open, "session_open", `{"key": "ticket-1"}`)
	session := open.Session
	charge := `{"session": "` + session + `", "order": "A", "amount": 1}`
	var v machine.CallView
	one.into(&v, "charge", charge)

	// Both keys work until the first one is revoked.
	two := connect(t, x, second, nil)
	two.into(&open, "session_open", `{"key": "ticket-1"}`)
	if r := two.into(&v, "charge", charge); open.Session != session || !madeBefore(r) {
		t.Errorf("with the second key: session %s instead of %s, %+v", open.Session, session, v)
	}
	if r := one.into(&v, "charge", charge); !madeBefore(r) {
		t.Errorf("with the first key: %+v", v)
	}
	if err := x.store.RevokeKey(t.Context(), former.ID); err != nil {
		t.Fatal(err)
	}
	if r := connect(t, x, second, nil).into(&v, "charge", charge); !madeBefore(r) {
		t.Errorf("after the revocation: %+v", v)
	}

	connect(t, x, other, nil).refused("forbidden", "charge", charge)
	connect(t, x, operator, nil).refused("session_held", "charge", charge)
	attach := func(credentials, body string) *answer {
		return x.do("POST", "/v1/sessions/"+session+"/attach", body, header{"Authorization", "Bearer " + credentials})
	}
	derived, token, err := lifeOfClient("desk", session)
	if err != nil {
		t.Fatal(err)
	}
	x.do("GET", "/v1/sessions/"+session, "", header{"Authorization", "Bearer " + token}).problem(401, "unknown_token")
	x.do("POST", "/v1/sessions/"+session+"/heartbeat", "", header{"Authorization", "Bearer " + token}).problem(401, "unknown_token")
	for _, credentials := range []string{operator, second} {
		attach(credentials, `{"holder": "mcp", "secret": "`+derived+`"}`).problem(409, "session_held")
		attach(credentials, `{"holder": "mcp", "secret": "`+NewSecret()+`", "previous": "`+derived+`"}`).problem(409, "session_held")
	}

	// A key may do no more than its grant and its role say, also where another key of its name is
	// attached.
	k, secret, err := NewKey("desk", "operator")
	if err == nil {
		err = x.store.AddKey(t.Context(), k)
	}
	if err != nil {
		t.Fatal(err)
	}
	connect(t, x, secret, nil).into(&open, "session_open", `{"key": "ticket-2", "name": "other"}`)
	two.refused("forbidden", "session_status", `{"session": "`+open.Session+`"}`)

	// A process has another life than the tools of the same client.
	var view sessionView
	as := header{"Authorization", "Bearer " + second}
	x.do("POST", "/v1/sessions", `{"name": "assistant", "actions": ["charge"]}`, as).want(201).into(&view)
	x.do("POST", "/v1/sessions/"+view.ID+"/attach", `{"holder": "mcp", "secret": "`+NewSecret()+`"}`, as).want(200)
	two.refused("session_held", "charge", `{"session": "`+view.ID+`", "order": "A", "amount": 1}`)
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// A key finds its session again after another action was published, and a request with other fields
// is told so, without the advice that would repeat what the session has done: another key.
func TestMCPOpenAgain(t *testing.T) {
	x := newFixture(t)
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	var first, second struct {
		Session string   `json:"session"`
		Actions []string `json:"actions"`
	}
	connect(t, x, "", nil).into(&first, "session_open", `{"key": "ticket-17"}`)
	x.do("PUT", "/v1/actions/another", strings.ReplaceAll(agentActions["mail"], "action: mail", "action: another")).want(201)
	c := connect(t, x, "", nil)
	c.into(&second, "session_open", `{"key": "ticket-17"}`)
	if first.Session != second.Session || len(first.Actions) != 3 {
		t.Errorf("%+v, then %+v", first, second)
	}
	r := c.raw("session_open", `{"key": "ticket-17", "budget": "1.00 USD"}`)
	if text := said(r); !r.IsError || strings.Contains(text, "new key") || !strings.Contains(text, "other fields") {
		t.Errorf("%s", text)
	}
}

// A lease that has ended is continued by the next call with the key.
func TestMCPLeaseContinues(t *testing.T) {
	x := newFixture(t)
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	c := connect(t, x, "", nil)
	var open struct{ Session string }
	c.into(&open, "session_open", `{"key": "t-2", "actions": ["charge"]}`)
	_, token, err := lifeOfClient(anonymous.name, open.Session)
	if err != nil {
		t.Fatal(err)
	}
	// Only the MCP server can end the life.
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), toolClient{}, anonymous), "POST", "/v1/sessions/"+open.Session+"/detach", http.NoBody)
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	if x.h.ServeHTTP(w, r); w.Code != 200 {
		t.Fatalf("detach: %d %s", w.Code, w.Body)
	}
	var v machine.CallView
	c.into(&v, "charge", `{"session": "`+open.Session+`", "order": "A", "amount": 1}`)
	if v.Status != machine.CallSucceeded {
		t.Errorf("call %+v", v)
	}
}

// Requests without credentials, with wrong ones, from other sites, and with the token of an earlier
// process are refused before the protocol begins.
func TestMCPAccess(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	list := `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	accept := header{"Accept", "application/json, text/event-stream"}
	bearer := func(text string) header { return header{"Authorization", "Bearer " + text} }
	x.do("POST", "/mcp", list, accept, bearer(a.token())).want(200)
	x.do("POST", "/mcp", list, accept, bearer("rst_x")).problem(401, "unknown_token")
	x.do("POST", "/mcp", list, accept, bearer(Token(uuid.FromStringOrNil(a.id), NewSecret()))).problem(401, "unknown_token")
	x.do("POST", "/mcp", list, accept, bearer("rk_x")).problem(401, "key_invalid")
	x.do("POST", "/mcp", list, accept, bearer(a.token()), header{"Origin", "https://evil.example"}).problem(403, "forbidden_origin")
	x.do("POST", "/mcp", list, accept, bearer(a.token()), header{"Host", "evil.example"}).problem(403, "forbidden_host")
	x.do("GET", "/mcp", "", bearer(a.token())).want(405)
	former := a.token()
	old := a.secret
	a.secret = NewSecret()
	a.attach(old).want(200)
	x.do("POST", "/mcp", list, accept, bearer(former)).problem(403, "superseded")

	_, secret := addKey(x, "viewer", time.Time{})
	time.Sleep(1100 * time.Millisecond) // the server looks for the first key once a second
	if got := x.do("POST", "/mcp", list, accept); got.problem(401, "key_required").Status == 0 || got.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("WWW-Authenticate: %q", got.Header.Get("WWW-Authenticate"))
	}
	x.do("POST", "/mcp", list, accept, bearer(secret)).problem(403, "forbidden")
}
