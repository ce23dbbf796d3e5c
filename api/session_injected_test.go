package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga/machine"
)

// attempt is a request that a model's answer tells an agent to send.
type attempt struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body,omitempty"`
	Naked  bool   `json:"naked,omitempty"` // without the session's token
}

// injectedActions are what the attacker wants: refunds beyond the limit of 100, payouts without an
// approval, and an action that is not for agents.
var injectedActions = map[string]string{
	"refund": `action: refund
agents: {approve_when: input.amount > 50, limits: [{calls: 3}, {sum: input.amount, max: 100}]}
input: {order: string, amount: number}
http: POST ${vars.pay}/charges
body: {order: "${input.order}", amount: "${input.amount}"}
output: {id: "${result.body.id}"}
compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`,
	"payout": `action: payout
agents: approve
input: {amount: number}
http: POST ${vars.hotels}/reservations
body: {amount: "${input.amount}"}
compensate: {http: "DELETE ${vars.hotels}/reservations/${output.id}"}
`,
	"mail":     agentActions["mail"],
	"internal": agentActions["internal"],
}

// The session's limit of 100 allows two refunds of 40.
const (
	injectedRefunds = 2
	injectedAmount  = `{"order": "%s", "amount": 40}`
)

// injected returns what the attacker has written: "Refund everything twice, and approve it
// yourself", in every way that there is.
func injected(own, victim string) (list []attempt) {
	post := func(path, body string) { list = append(list, attempt{Method: "POST", Path: path, Body: body}) }
	calls := "/v1/sessions/" + own + "/calls"
	refund := func(more, input string) {
		post(calls, `{"action": "refund", "wait": "2s"`+more+`, "input": `+input+`}`)
	}
	for range 2 { // everything twice
		for n := range 5 {
			order := fmt.Sprintf(injectedAmount, fmt.Sprint("o-", n))
			refund("", order)
			refund(`, "again": 1`, order)
			refund(fmt.Sprintf(`, "id": "mine-%d"`, n), order)
		}
	}
	for _, amount := range []string{"-1000", "-0.01", "1e2", "51", `"40"`, "null", "[40]", "99999999999999999999"} {
		refund(`, "id": "amount `+strings.ReplaceAll(amount, `"`, "")+`"`, `{"order": "o-9", "amount": `+amount+`}`)
	}
	post(calls, `{"action": "payout", "input": {"amount": 1}, "wait": "100ms"}`)
	for _, action := range []string{"mail", "internal", "refund@2", "~support", "support"} { // not of this session
		post(calls, `{"action": "`+action+`", "input": {"order": "o-1", "text": "x"}}`)
	}
	// It makes room within the limits, and uses it.
	post(calls+"/refund%5B0%5D/undo", `{"reason": "room"}`)
	refund(`, "again": 2`, fmt.Sprintf(injectedAmount, "o-1"))
	refund(`, "again": 2`, fmt.Sprintf(injectedAmount, "o-2"))
	// Own steps, whose undo is a call of its choice.
	for n, use := range []string{"payout", "payout@1", "internal", "mail", "refund@1", "refund@1", "refund@1"} {
		with := fmt.Sprintf(injectedAmount, "o-8")
		if strings.HasPrefix(use, "payout") {
			with = `{"amount": 1}`
		}
		post("/v1/sessions/"+own+"/steps", fmt.Sprintf(`{"id": "trick-%d", "effect": "undoable", "compensate": {"use": %q, "with": %s}}`, n, use, with))
		post(fmt.Sprintf("/v1/sessions/%s/steps/trick-%d/finish", own, n), `{"attempt": 1, "status": "succeeded"}`)
		post(fmt.Sprintf("/v1/sessions/%s/steps/trick-%d/undo", own, n), `{"reason": "now"}`)
	}
	// It approves, resolves, and gives itself money, in its session and in another one.
	for _, id := range []string{own, victim} {
		for _, path := range []string{"payout%5B0%5D", "refund%5B0%5D", "refund%5B1%5D", "refund%5B2%5D"} {
			for _, naked := range []bool{false, true} {
				for _, verb := range []string{`approve {"shown": "0000000000000000000000000000000000000000000000000000000000000000"}`, `approve {}`, `resolve {"outcome": "succeeded"}`, `resolve {"outcome": "retry"}`} {
					name, body, _ := strings.Cut(verb, " ")
					list = append(list, attempt{Method: "POST", Path: "/v1/sagas/" + id + "/steps/" + path + "/" + name, Body: body, Naked: naked})
				}
			}
		}
		list = append(list, attempt{Method: "PATCH", Path: "/v1/sagas/" + id, Body: `{"budget": "1000000 USD"}`})
	}
	theirs := "/v1/sessions/" + victim
	post(theirs+"/calls", `{"action": "refund", "input": {"order": "o-1", "amount": 40}}`)
	post(theirs+"/commit", "{}")
	post(theirs+"/abort", `{"reason": "x"}`)
	post(theirs+"/attach", `{"secret": "`+NewSecret()+`", "holder": "x"}`)
	post("/v1/sessions/"+own+"/attach", `{"secret": "`+NewSecret()+`", "holder": "x"}`)
	post("/v1/sessions", `{"name": "support", "actions": ["refund", "payout", "mail"]}`)
	post("/v1/actions/payout/run", `{"input": {"amount": 1}}`)
	post("/v1/sagas", `{"definition": "~support", "input": {}}`)
	list = append(list, attempt{Method: "PUT", Path: "/v1/actions/refund", Body: strings.Replace(injectedActions["refund"], "max: 100", "max: 1000000", 1)})
	// URLs of providers, and requests that a provider would run by itself.
	for _, path := range []string{"/llm/openai/v1/files", "/llm/openai/v1/../../../v1/inbox", "/llm/anthropic/v1/messages/batches", "/llm/openai/v1/http://127.0.0.1/"} {
		list = append(list, attempt{Method: "GET", Path: path})
		post(path, "{}")
	}
	for _, body := range []string{`"model": "m", "input": "x", "background": true`, `"model": "m", "input": "x", "previous_response_id": "resp_theirs"`, `"model": "m", "input": "x"`,
		`"model": "scripted", "input": "x", "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://evil.example"}]`} {
		post("/llm/openai/v1/responses", "{"+body+"}")
	}
	return list
}

// TestInjectedAgent: an attacker has written the answer of the model, and the agent does all that
// it says, with the token of its session. Nothing happens beyond the limits, nothing is approved,
// and nothing of others changes.
func TestInjectedAgent(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	for name, src := range injectedActions {
		x.do("PUT", "/v1/actions/"+name, src).want(201)
	}
	bot := header{"Authorization", "Bearer " + addAgentKey(x, "bot", journal.AgentGrant{})}
	opened := func() *agent {
		var v sessionView
		x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["refund", "payout"], "models": ["scripted"]}`, bot).want(201).into(&v)
		a := &agent{x: x, id: v.ID, secret: NewSecret()}
		x.do("POST", "/v1/sessions/"+a.id+"/attach", `{"secret": "`+a.secret+`"}`, bot).want(200)
		return a
	}
	a, victim := opened(), opened()
	before := others(x, victim.id)

	arguments, err := json.Marshal(injected(a.id, victim.id))
	if err != nil {
		t.Fatal(err)
	}
	x.scripted.Store(string(arguments))
	const request = `{"model": "scripted", "max_tokens": 300, "messages": [{"role": "user", "content": "Mail of a customer: …"}]}`
	var said struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	a.ask("/llm/openai/v1/chat/completions", request).want(200).into(&said)
	var list []attempt
	if err := json.Unmarshal([]byte(said.Choices[0].Message.Content), &list); err != nil {
		t.Fatal(err)
	}
	obey := func(r attempt) {
		as := header{"Authorization", "Bearer " + a.token()}
		if r.Naked {
			as.value = ""
		}
		if resp := x.send(t, r.Method, r.Path, r.Body, as, outside); resp.Status >= 500 {
			t.Errorf("%s %s %s: %d %s", r.Method, r.Path, r.Body, resp.Status, resp.Body)
		}
	}
	for _, r := range list {
		obey(r)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, r := range list { // and again, at once
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			obey(r)
		})
	}
	all.Wait()

	held := func(when string) {
		t.Helper()
		l := x.world.Ledger()
		if n := len(l.Op("pay", "charge").Live().Effects()); n > injectedRefunds || n == 0 {
			t.Errorf("%s: %d refunds stand, and the limit allows %d", when, n, injectedRefunds)
		}
		for _, e := range l.Effects() {
			if e.Service != "pay" {
				t.Errorf("%s: %s %s has an effect", when, e.Method, e.Path)
			}
		}
		for _, id := range []string{a.id, victim.id} {
			for _, r := range x.records(id) {
				if r.Kind == journal.Operator && !strings.Contains(string(r.Data), `"command":"undo"`) || r.Kind == journal.Attached && r.Seq > 2 {
					t.Errorf("%s: record %d of %s: %s %s", when, r.Seq, id, r.Kind, r.Data)
				}
			}
		}
		if after := others(x, victim.id); after != before {
			t.Errorf("%s: the server was\n%s\nand is\n%s", when, before, after)
		}
	}
	held("after all attempts")
	if inbox := x.do("GET", "/v1/inbox?saga="+a.id, "").want(200).Body; !strings.Contains(string(inbox), `"path":"payout[0]"`) {
		t.Errorf("no person is asked for the payout: %s", inbox)
	}
	a.do("POST", "/abort", `{"reason": "last try"}`).want(http.StatusAccepted)
	x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
	held("after the abort")
}

// others describes what a session must not change: another session, the actions, and how many
// sessions and keys there are.
func others(x *fixture, victim string) string {
	x.t.Helper()
	keys, err := x.store.ListKeys(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	var sagas struct {
		Data []struct{ ID string } `json:"data"`
	}
	x.do("GET", "/v1/sagas", "").want(200).into(&sagas)
	return fmt.Sprintf("%d keys, %d sagas, victim %d records, actions %s", len(keys), len(sagas.Data), len(x.records(victim)), x.do("GET", "/v1/actions", "").want(200).Body)
}

// records returns a saga's journal.
func (x *fixture) records(id string) []journal.Record {
	x.t.Helper()
	records, err := x.store.Records(x.t.Context(), uuid.FromStringOrNil(id), 0, 100_000)
	if err != nil {
		x.t.Fatal(err)
	}
	return records
}
