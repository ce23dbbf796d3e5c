package api

import (
	"fmt"
	"strings"
	"testing"

	"recourse/catalog"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// Hostile input that would change the target of a request makes the saga fail, and nothing is sent.
func TestHostileInput(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(`saga: hostile
input: {head: string?, key: string?}
steps:
  - id: head
    when: input.head != null
    http: GET ${vars.things}/things/x
    headers: {X-Who: "${input.head}"}
    retry: none
  - id: key
    when: input.key != null
    http: POST ${vars.things}/things
    idempotency: {header: Idempotency-Key, key: "${input.key}"}
    in_doubt: retry
    retry: none
    compensate: none
`)
		for _, input := range []string{
			`{"head": "a\r\nX-Evil: 1"}`, `{"head": "a\nb"}`, `{"head": "a\u0000b"}`,
			`{"key": "a\r\nX-Evil: 1"}`, `{"key": "a\u0000b"}`,
		} {
			v := x.do("POST", "/v1/sagas", `{"definition": "hostile", "input": `+input+`}`, header{"Prefer", "wait=20"}, outside).want(201).saga()
			if v.Status != saga.Compensated || v.Reason == nil || v.Reason.Code != "step_failed" {
				t.Errorf("%s ended as %s: %+v", input, v.Status, v.Reason)
			}
		}
		if l := x.world.Ledger(); len(l) != 0 {
			t.Errorf("something was sent: %+v", l)
		}
	})
}

// Input cannot choose a forbidden address, and a definition that names one sends nothing.
func TestForbiddenTargets(t *testing.T) {
	x := newFixture(t)
	p := x.do("PUT", "/v1/definitions/reach", "saga: reach\nsteps:\n  - {id: a, http: 'GET http://${input.host}/latest'}\n").problem(422, "invalid_definition")
	if len(p.Errors) != 1 || p.Errors[0].Code != "host_not_fixed" {
		t.Errorf("%+v", p.Errors)
	}
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "10.0.0.1", "[::1]:22"} {
		x.publish("saga: reach\nsteps:\n  - {id: a, http: 'GET http://" + host + "/latest', retry: none}\n")
		v := x.do("POST", "/v1/sagas", `{"definition": "reach"}`, header{"Prefer", "wait=20"}).want(201).saga()
		if v.Status != saga.Compensated || v.Reason == nil || v.Reason.Step != "a" {
			t.Errorf("%s ended as %s: %+v", host, v.Status, v.Reason)
		}
		var step machine.StepView
		if x.do("GET", "/v1/sagas/"+v.ID+"/steps/a", "").want(200).into(&step); step.Error == nil || step.Error.Code != "egress_denied" {
			t.Errorf("%s: %+v", host, step.Error)
		}
	}
}

// No response contains a secret's value.
func TestNoSecretIsShown(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: secretive\nsecrets: [PAY_KEY]\nsteps:\n  - id: charge\n    http: POST ${vars.pay}/charges\n    auth: ${secrets.PAY_KEY}\n    body: {amount: 1, token: \"${secrets.PAY_KEY}\"}\n    in_doubt: ask\n    compensate: none\n")
		x.world.SetToken("pay", "another-token")
		id := x.do("POST", "/v1/sagas", `{"definition": "secretive"}`).want(201).saga().ID
		x.until(id, is(saga.Stuck))
		shown := ""
		for _, path := range []string{"/v1/sagas/" + id, "/v1/sagas/" + id + "/journal", "/v1/sagas/" + id + "/steps", "/v1/inbox", "/v1/sagas", "/v1/definitions/secretive"} {
			shown += string(x.do("GET", path, "").want(200).Body)
		}
		shown += string(x.do("POST", "/v1/plan", `{"definition": "secretive"}`).want(200).Body)
		if !strings.Contains(shown, "PAY_KEY") {
			t.Error("not even the secret's name is shown: nothing was looked at")
		}
		if strings.Contains(shown, "sesame") {
			t.Error("a secret is shown")
		}
		var p page[inboxEntry]
		x.do("GET", "/v1/inbox?kind=held", "").want(200).into(&p)
		if len(p.Data) != 1 || p.Data[0].Kind != "held" {
			t.Errorf("inbox %+v", p)
		}
	})
}

// If a definition does not compile in this program, the API shows its sagas' records uninterpreted
// and does not change the sagas.
func TestUnusableDefinition(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	x.publish("saga: by-event\ntriggers: [{event: shop.paid}]\nsteps: [{id: a, sleep: 1h}]\n")
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	cfg := x.cfg
	older := kinds.All()[:1]
	cfg.Catalog = catalog.New(x.store, catalog.Options{Kinds: older})
	y := *x
	y.url = serve(t, cfg)
	before := x.dump()
	for _, path := range []string{"", "/steps"} {
		y.do("GET", "/v1/sagas/"+id+path, "").problem(503, "definition_unusable")
	}
	y.do("POST", "/v1/sagas/"+id+"/cancel", "").problem(503, "definition_unusable")
	y.do("POST", "/v1/sagas", `{"definition": "nap"}`).problem(503, "definition_unusable")
	paid := `{"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "shop.paid"}`
	if p := y.do("POST", "/v1/events", paid, header{"Content-Type", typeEvent}).problem(503, "definition_unusable"); !strings.Contains(p.Detail, "e-1") {
		t.Errorf("%+v", p)
	}
	y.do("GET", "/v1/sagas/"+id+"/journal", "").want(200)
	y.do("GET", "/v1/definitions/nap", "").want(200)
	var list page[machine.View]
	if y.do("GET", "/v1/sagas", "").want(200).into(&list); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	if after := x.dump(); len(after) != len(before) || after["saga "+id] != before["saga "+id] {
		t.Error("the saga was changed")
	}
}

// Data cannot make a reference to a secret out of a key of its own: nothing is sent.
func TestKeyDoesNotForgeReferences(t *testing.T) {
	x := newFixture(t)
	for place, of := range map[string]string{"header": "{header: X-Key, ", "body": "{body: request_id, ", "query": "{query: k, ", "default": "{"} {
		x.publish(fmt.Sprintf("saga: forged\ninput: {ref: string}\nsteps:\n  - {id: a, http: POST %s/things, body: {}, in_doubt: retry, compensate: none, idempotency: %skey: \"${input.ref}\"}}\n", x.world.URL, of))
		v := x.do("POST", "/v1/sagas", `{"definition": "forged", "input": {"ref": "${secrets.PAY}"}}`, header{"Prefer", "wait=20"}).want(201).saga()
		if v.Reason == nil || v.Reason.Error != "bad_key" || len(x.world.Ledger()) != 0 {
			t.Errorf("%s: %+v, %d requests", place, v.Reason, len(x.world.Ledger()))
		}
	}
}
