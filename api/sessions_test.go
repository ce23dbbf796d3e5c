package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga/machine"
)

// agentActions are the actions of the tests, against the world's mock services.
var agentActions = map[string]string{
	"charge": `action: charge
agents: auto
input: {order: string, amount: number}
http: POST ${vars.pay}/charges
body: {order: "${input.order}", amount: "${input.amount}"}
output: {id: "${result.body.id}"}
compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`,
	"mail": `action: mail
agents: auto
once: ${input.order}
input: {order: string, text: string}
http: POST ${vars.mail}/send
body: {to: "a@example.com", text: "${input.text}"}
in_doubt: fail
`,
	"big": `action: big
agents: {approve_when: "input.amount > 50", limits: [{calls: 2}]}
input: {amount: number}
http: POST ${vars.pay}/charges
body: {amount: "${input.amount}"}
compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`,
	"internal": `action: internal
http: GET ${vars.pay}/charges
`,
}

// agent is a process of an agent that has attached to a session.
type agent struct {
	x      *fixture
	id     string
	secret string
}

func openAgent(t *testing.T, x *fixture, fields string) *agent {
	t.Helper()
	for name, src := range agentActions {
		if a := x.do("PUT", "/v1/actions/"+name, src); a.Status != 201 { // or there is this version already
			a.want(200)
		}
	}
	var v sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge", "mail", "big@1"]`+fields+`}`).want(201).into(&v)
	a := &agent{x: x, id: v.ID, secret: NewSecret()}
	a.attach("").want(200)
	return a
}

func (a *agent) attach(previous string) *answer {
	body := `{"holder": "test", "secret": "` + a.secret + `"`
	if previous != "" {
		body += `, "previous": "` + previous + `"`
	}
	return a.x.do("POST", "/v1/sessions/"+a.id+"/attach", body+"}")
}

func (a *agent) do(method, path, body string, more ...header) *answer {
	return a.x.do(method, "/v1/sessions/"+a.id+path, body, append(more, header{"Authorization", "Bearer " + Token(uuid.FromStringOrNil(a.id), a.secret)})...)
}

func (a *agent) call(body string) machine.CallView {
	a.x.t.Helper()
	var v machine.CallView
	a.do("POST", "/calls", body).want(200).into(&v)
	if v.Status != machine.CallSucceeded {
		a.x.t.Fatalf("the call has not succeeded: %+v %v", v, v.Error)
	}
	return v
}

// TestSession lets an agent call, die, begin again with the same calls, undo one, and commit.
func TestSession(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		one := a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
		two := a.call(`{"action": "charge@1", "input": {"order": "B", "amount": 10}}`)
		if one.Path != "charge[0]" || two.Path != "charge[1]" || one.Status != machine.CallSucceeded || one.Replayed || one.Action != "charge@1" || one.Undo != machine.UndoAvailable {
			t.Fatalf("calls %+v and %+v", one, two)
		}
		former := *a
		a.secret = NewSecret()
		a.attach("").problem(409, "session_held")
		var at attachView
		a.attach(former.secret).want(200).into(&at)
		if at.Life != 2 || !at.Resumed || at.LeaseMS != 30_000 {
			t.Errorf("attached: %+v", at)
		}
		former.do("POST", "/calls", `{"action": "charge", "input": {"order": "C", "amount": 10}}`).problem(403, "superseded")
		former.do("POST", "/heartbeat", "").problem(403, "superseded")
		former.attach("").problem(403, "superseded")
		if again := a.call(`{"action": "charge", "input": {"amount": 10, "order": "B"}}`); again.Path != two.Path || !again.Replayed || string(again.Output) != string(two.Output) {
			t.Errorf("the same call: %+v", again)
		}
		if n := len(x.world.Ledger().Service("pay").Effects()); n != 2 {
			t.Errorf("%d charges, want 2", n)
		}
		a.do("POST", "/calls/charge%5B1%5D/undo", `{"reason": "wrong order"}`).want(202)
		x.until(a.id, func(machine.View) bool {
			var v machine.CallView
			a.do("GET", "/calls/charge%5B1%5D?wait=5s", "").into(&v)
			return v.Status == machine.CallUndone
		})
		a.do("POST", "/calls/charge%5B1%5D/undo", "").problem(409, "nothing_to_undo")
		a.do("POST", "/heartbeat", "").want(200)
		if text := string(a.do("GET", "/summary", "").want(200).Body); !strings.Contains(text, "charge[0]") || !strings.Contains(text, "Undone:") {
			t.Errorf("summary: %s", text)
		}
		var v sessionView
		a.do("POST", "/commit", `{"output": {"refunded": 1}}`).want(200).into(&v)
		if v.Status != "succeeded" || string(v.Output) != `{"refunded":1}` {
			t.Errorf("committed: %s %s", v.Status, v.Output)
		}
		a.do("POST", "/commit", `{"output": {"refunded": 1}}`).want(200)
		a.do("POST", "/abort", "").problem(409, "committed")
		if text := string(a.do("POST", "/abort", "").want(409).Body); !strings.Contains(text, "undo_within") || !strings.Contains(text, "/compensate") {
			t.Errorf("the refusal does not name the undo later: %s", text)
		}
		a.do("POST", "/calls", `{"action": "charge", "input": {"order": "C", "amount": 10}}`).problem(409, "terminal")
		x.do("GET", "/v1/sessions/"+a.id, "").want(200)
		x.do("GET", "/v1/sagas/"+a.id, "").want(200)
		x.do("GET", "/v1/sagas/"+a.id+"/steps", "").want(200)
	})
}

// TestSessionAbort undoes all calls.
func TestSessionAbort(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
	a.call(`{"action": "mail", "input": {"order": "A", "text": "hello"}}`)
	a.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`)
	a.do("POST", "/abort", `{"reason": "the customer has called"}`).want(202)
	v := x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
	if v.Status != "failed" || len(v.Residual) != 1 || v.Residual[0].Path != "mail[0]" {
		t.Errorf("aborted: %s %+v", v.Status, v.Residual)
	}
	if ledger := x.world.Ledger().Service("pay"); len(ledger.Effects()) != 2 || len(ledger.Undos()) != 2 {
		t.Errorf("%d charges, %d undone", len(ledger.Effects()), len(ledger.Undos()))
	}
	if text := string(a.do("GET", "/summary", "").want(200).Body); !strings.Contains(text, `: the customer has called"`) {
		t.Errorf("the summary has no reason: %s", text)
	}
	a.do("POST", "/commit", "").problem(409, "terminal")
}

// TestSessionRefusals: nothing is recorded or sent for bad input, and each refusal says what to do.
func TestSessionRefusals(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "max_calls": 3, "max_asks": 1, "max_steps": 1`)
	seq := func() int64 {
		var v sessionView
		x.do("GET", "/v1/sessions/"+a.id, "").want(200).into(&v)
		return v.Seq
	}
	before := seq()
	for _, tt := range []struct {
		body   string
		code   code
		status int
	}{
		{`{"action": "chrage", "input": {}}`, "action_not_found", 404},
		{`{"action": "charge@2", "input": {}}`, "invalid_call", 422},
		{`{"action": "charge", "input": {"order": "A"}}`, "bad_input", 422},
		{`{"action": "charge", "input": {"order": "A", "amount": "ten"}}`, "bad_input", 422},
		{`{"action": "charge"}`, "bad_input", 422},
		{`{"action": "charge", "input": {"order": "A", "amount": 1}, "again": -1}`, "invalid_request", 400},
		{`{"action": "charge", "input": {"order": "A", "amount": 1}, "wait": "2h"}`, "invalid_request", 400},
		{`{"action": "charge", "url": "http://evil.example"}`, "invalid_request", 400},
		{`{}`, "invalid_request", 400},
	} {
		a.do("POST", "/calls", tt.body, outside).problem(tt.status, tt.code)
	}
	if after := seq(); after != before || len(x.world.Ledger().Requests()) > 0 {
		t.Errorf("%d records for bad input, %d requests", after-before, len(x.world.Ledger().Requests()))
	}
	a.call(`{"action": "charge", "input": {"order": "A", "amount": 1}, "id": "first"}`)
	a.do("POST", "/calls", `{"action": "charge", "input": {"order": "B", "amount": 1}, "id": "first"}`).problem(422, "id_reused")
	a.do("POST", "/calls", `{"action": "mail", "input": {"order": "B", "text": "x"}, "id": "first"}`).problem(422, "id_reused")
	a.call(`{"action": "mail", "input": {"order": "A", "text": "one"}}`)
	a.do("POST", "/calls", `{"action": "mail", "input": {"order": "A", "text": "two"}}`).problem(409, "already_done")
	a.call(`{"action": "mail", "input": {"order": "B", "text": "two"}}`)
	a.do("POST", "/calls", `{"action": "mail", "input": {"order": "C", "text": "two"}}`).problem(403, "limit")
	a.begin(201, `{"id": "one", "effect": "none"}`)
	a.do("POST", "/steps", `{"id": "two", "effect": "none"}`).problem(403, "limit")
	const question = `{"model": "m", "messages": [{"role": "user", "content": "%s"}]}`
	a.ask("/llm/openai/v1/chat/completions", fmt.Sprintf(question, "one")).want(200)
	if refused := a.ask("/llm/openai/v1/chat/completions", fmt.Sprintf(question, "two")).want(403); !strings.Contains(string(refused.Body), "max_asks") {
		t.Errorf("one request too many: %s", refused.Body)
	}
	a.do("GET", "/calls/mail%5B9%5D", "").problem(404, "call_not_found")
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["internal"]}`).problem(403, "not_for_agents")
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["none", "charge", "charge@1"]}`).problem(422, "invalid_session")
	x.do("POST", "/v1/sessions", `{"name": "Support", "actions": []}`, outside).problem(400, "invalid_request")
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"], "lease": "1s"}`).problem(400, "invalid_request")
	x.publish("saga: waits\nsteps: [{id: n, signal: never}]\n")
	id := x.do("POST", "/v1/sagas", `{"definition": "waits"}`).want(201).saga().ID
	x.do("GET", "/v1/sessions/"+id, "").problem(404, "session_not_found")
}

// TestSessionTokens: only the token of the session's own last life acts for it, and a token opens
// nothing else.
func TestSessionTokens(t *testing.T) {
	x := newFixture(t)
	a, b := openAgent(t, x, ""), openAgent(t, x, "")
	bearer := func(token string) []header { return []header{{"Authorization", "Bearer " + token}} }
	own := Token(uuid.FromStringOrNil(a.id), a.secret)
	for _, tt := range []struct {
		name, token, path string
		code              code
		status            int
	}{
		{"none", "", "/v1/sessions/" + a.id + "/heartbeat", "token_required", 401},
		{"another secret", Token(uuid.FromStringOrNil(a.id), b.secret), "/v1/sessions/" + a.id + "/heartbeat", "unknown_token", 401},
		{"another session", own, "/v1/sessions/" + b.id + "/heartbeat", "unknown_token", 401},
		{"malformed", "rst_12", "/v1/sessions/" + a.id + "/heartbeat", "unknown_token", 401},
		{"no session route", own, "/v1/sagas/" + a.id + "/cancel", "key_invalid", 401},
		{"attach", own, "/v1/sessions/" + a.id + "/attach", "key_invalid", 401},
		{"approve", own, "/v1/sagas/" + a.id + "/steps/big%5B0%5D/approve", "key_invalid", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var headers []header
			if tt.token != "" {
				headers = bearer(tt.token)
			}
			x.do("POST", tt.path, "{}", append(headers, outside)...).problem(tt.status, tt.code)
		})
	}
	if b := x.do("GET", "/v1/sagas/"+a.id+"/journal", "").want(200).Body; strings.Contains(string(b), a.secret) {
		t.Errorf("the journal has the secret: %s", b)
	}
}

// TestSessionApproval: a call that needs an approval waits for a person, and the agent cannot
// decide it.
func TestSessionApproval(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	a.ask("/llm/openai/v1/chat/completions", `{"model": "m", "messages": [{"role": "user", "content": "pay"}]}`).want(200)
	var v machine.CallView
	a.do("POST", "/calls", `{"action": "big", "input": {"amount": 51}, "wait": "100ms"}`).want(http.StatusAccepted).into(&v)
	if v.Status != machine.CallWaiting || v.WaitsFor != "approval" || v.Inbox == "" {
		t.Fatalf("the call: %+v", v)
	}
	if n := len(x.world.Ledger().Requests()); n > 0 {
		t.Fatalf("%d requests were sent before the approval", n)
	}
	a.do("POST", "/commit", "").problem(409, "calls_open")
	var inbox struct {
		Data []struct {
			Path      string          `json:"step"`
			ShownHash string          `json:"shown_hash"`
			Shown     json.RawMessage `json:"shown"`
		} `json:"data"`
	}
	x.do("GET", "/v1/inbox?saga="+a.id, "").want(200).into(&inbox)
	if len(inbox.Data) != 1 || !strings.Contains(string(inbox.Data[0].Shown), `"amount":51`) || !strings.Contains(string(inbox.Data[0].Shown), `"last_ask":{"step":"llm[0]"`) {
		t.Fatalf("inbox: %s", inbox.Data[0].Shown)
	}
	x.do("POST", "/v1/sagas/"+a.id+"/steps/big%5B0%5D/approve", fmt.Sprintf(`{"shown": %q}`, inbox.Data[0].ShownHash)).want(200)
	a.do("GET", "/calls/big%5B0%5D?wait=10s", "").want(200).into(&v)
	if v.Status != machine.CallSucceeded {
		t.Errorf("after the approval: %+v", v)
	}
	a.call(`{"action": "big", "input": {"amount": 50}}`)
	a.do("POST", "/calls", `{"action": "big", "input": {"amount": 49}}`).problem(403, "limit")
}

// TestSessionKey: a key opens one session, also after its end.
func TestSessionKey(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "key": "ticket-17"`)
	var v sessionView
	open := `{"name": "support", "actions": ["charge", "mail", "big@1"], "key": "ticket-17"}`
	x.do("POST", "/v1/sessions", open).want(200).into(&v)
	if v.ID != a.id || v.Session.Life != 1 || !v.Session.Attached {
		t.Errorf("found %s, opened %s: %+v", v.ID, a.id, v.Session)
	}
	x.do("POST", "/v1/sessions", strings.Replace(open, "big@1", "big", 1)).problem(422, "idempotency_key_reused")
	a.do("POST", "/commit", "").want(200)
	x.do("POST", "/v1/sessions", open).want(200).into(&v)
	if v.ID != a.id || v.Status != "succeeded" {
		t.Errorf("after its end: %s %s", v.ID, v.Status)
	}
}

// TestSessionGrants: a key of the role agent opens sessions within its grant, and does nothing
// else.
func TestSessionGrants(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	for name, src := range agentActions {
		x.do("PUT", "/v1/actions/"+name, src, header{"Authorization", "Bearer " + admin}).want(201)
	}
	secret := addAgentKey(x, "bot", journal.AgentGrant{Actions: []string{"charge", "mail@1"}, Sessions: []string{"support-*"}, Models: []string{"gpt-5-*"}, Budget: "5.00 USD"})
	as := header{"Authorization", "Bearer " + secret}
	open := func(name, actions, more string) *answer {
		return x.do("POST", "/v1/sessions", `{"name": "`+name+`", "actions": `+actions+more+`}`, as)
	}
	open("sales-1", `["charge"]`, "").problem(403, "forbidden")
	open("support-1", `["charge", "big"]`, "").problem(403, "forbidden")
	open("support-1", `["charge"]`, `, "budget": "6.00 USD"`).problem(403, "forbidden")
	open("support-1", `["charge"]`, `, "budget": "6.00 EUR"`).problem(403, "forbidden")
	for _, models := range []string{`["other"]`, `["gpt-*"]`, `["*"]`, `["gpt-5-mini", "gpt-4"]`, `["gpt-5-[a]"]`} {
		open("support-1", `["charge"]`, `, "models": `+models).problem(403, "forbidden")
	}
	open("support-1", `["charge"]`, `, "models": ["gpt-5-mini"]`).want(201)
	var v sessionView
	open("support-1", `["charge", "mail"]`, "").want(201).into(&v)
	if v.Cost.Budget != "5.00" && v.Cost.Budget != "5" {
		t.Errorf("the budget is %q", v.Cost.Budget)
	}
	if !slices.Equal(v.Session.Models, []string{"gpt-5-*"}) {
		t.Errorf("the models are %q", v.Session.Models)
	}
	x.do("GET", "/v1/sagas/"+v.ID, "", as).problem(403, "forbidden")
	x.do("GET", "/v1/inbox", "", as).problem(403, "forbidden")
	other := addAgentKey(x, "other", journal.AgentGrant{})
	body := `{"secret": "` + NewSecret() + `"}`
	x.do("POST", "/v1/sessions/"+v.ID+"/attach", body, header{"Authorization", "Bearer " + other}).problem(403, "forbidden")
	x.do("POST", "/v1/sessions/"+v.ID+"/attach", body, as).want(200)
}

// TestLiveSessions: a key of the role agent has at most 100 sessions that have not ended.
func TestLiveSessions(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.do("PUT", "/v1/actions/charge", agentActions["charge"], header{"Authorization", "Bearer " + admin}).want(201)
	open := func(key, more string) *answer {
		return x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"]`+more+`}`, header{"Authorization", "Bearer " + key})
	}
	bot, other := addAgentKey(x, "bot", journal.AgentGrant{}), addAgentKey(x, "other", journal.AgentGrant{})
	var v sessionView
	open(bot, `, "key": "first"`).want(201).into(&v)
	for range maxLive - 1 {
		open(bot, "").want(201)
	}
	open(bot, "").problem(429, "rate_limited")
	open(bot, `, "key": "first"`).want(200)
	open(other, "").want(201)
	open(admin, "").want(201)
	x.do("POST", "/v1/sessions/"+v.ID+"/abort", `{"reason": "enough"}`, header{"Authorization", "Bearer " + admin}).want(202)
	x.auth = "Bearer " + admin
	x.until(v.ID, func(v machine.View) bool { return v.Status.Terminal() })
	open(bot, "").want(201)
	open(bot, "").problem(429, "rate_limited")
}

// addAgentKey stores a key of the role agent with a grant, and returns its secret.
func addAgentKey(x *fixture, name string, grant journal.AgentGrant) string {
	x.t.Helper()
	k, secret, err := NewKey(name, "agent")
	if err != nil {
		x.t.Fatal(err)
	}
	if err := Grant(&k, grant); err != nil {
		x.t.Fatal(err)
	}
	if err := x.store.AddKey(x.t.Context(), k); err != nil {
		x.t.Fatal(err)
	}
	return secret
}

// TestRunAction runs one action without a definition or a session.
func TestRunAction(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		for name, src := range agentActions {
			x.do("PUT", "/v1/actions/"+name, src).want(201)
		}
		run := func(body string) *answer {
			return x.do("POST", "/v1/actions/charge/run", body, header{"Prefer", "wait=10"})
		}
		v := run(`{"input": {"order": "A", "amount": 10}, "id": "A", "labels": {"team": "shop"}}`).want(201).saga()
		if v.Status != "succeeded" || v.Definition != "~action/charge" || v.Version != "v1" || !strings.Contains(string(v.Output), `"id"`) || v.Labels["team"] != "shop" {
			t.Errorf("ran: %+v %s", v, v.Output)
		}
		if again := run(`{"input": {"order": "A", "amount": 10}, "id": "A", "labels": {"team": "shop"}}`).want(200).saga(); again.ID != v.ID {
			t.Errorf("saga %s, and again %s", v.ID, again.ID)
		}
		run(`{"input": {"order": "B", "amount": 10}, "id": "A"}`).problem(422, "idempotency_key_reused")
		run(`{"input": {"order": "B"}}`).problem(422, "invalid_start")
		x.do("POST", "/v1/actions/none/run", "").problem(404, "action_not_found")
		x.do("POST", "/v1/actions/charge@7/run", "").problem(404, "action_not_found")
		x.do("GET", "/v1/sagas/"+v.ID+"/steps", "").want(200)
		if n := len(x.world.Ledger().Service("pay").Effects()); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})
}

// A key that is revoked or expires stops its agent, whatever token the agent has; another key with
// the name of the first continues, as documented for rotation. Sessions of others go on.
func TestRevokedKeyStopsItsSessions(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys, c.Limits.KeyPoll = true, 1 })
	_, admin := addKey(x, "admin", time.Time{})
	as := func(s string) header { return header{"Authorization", "Bearer " + s} }
	x.do("PUT", "/v1/actions/charge", agentActions["charge"], as(admin)).want(201)
	open := func(secret string) (id, token string) {
		var v machine.View
		x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["*"]}`, as(secret)).want(201).into(&v)
		own := NewSecret()
		x.do("POST", "/v1/sessions/"+v.ID+"/attach", `{"secret": "`+own+`"}`, as(secret)).want(200)
		return v.ID, Token(uuid.Must(uuid.FromString(v.ID)), own)
	}
	beat := func(id, token string) *answer { return x.do("POST", "/v1/sessions/"+id+"/heartbeat", "", as(token)) }
	grant := journal.AgentGrant{Actions: []string{"charge"}}
	bot := addAgentKey(x, "bot", grant)
	id, token := open(bot)
	byAdmin, adminToken := open(admin)
	beat(id, token).want(200)
	revoke := func(name string) {
		keys, err := x.store.ListKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if k.Name == name {
				if err := x.store.RevokeKey(t.Context(), k.ID); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("no key %s", name)
	}
	revoke("bot")
	beat(id, token).problem(401, "key_invalid")
	x.do("POST", "/v1/sessions/"+id+"/calls", `{"action": "charge", "input": {"order": "A", "amount": 10}}`, as(token)).problem(401, "key_invalid")
	other, _, err := NewKey("bot", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.store.AddKey(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	beat(id, token).problem(401, "key_invalid")
	addAgentKey(x, "bot", grant)
	beat(id, token).want(200)
	revoke("key of admin")
	beat(byAdmin, adminToken).want(200)
}
