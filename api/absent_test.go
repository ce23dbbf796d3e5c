package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"recourse/catalog"
	"recourse/saga"
	"recourse/saga/machine"
)

// TestMissingSecret: publishing warns of a secret that the server does not have, and a start is
// refused before anything is sent.
func TestMissingSecret(t *testing.T) {
	x := newFixture(t)
	have := false
	y := withSecretsIf(t, x, &have)
	const src = "saga: paid\nsecrets: [PAY_KEY]\nsteps:\n  - {id: a, run: nobody}\n  - {id: b, set: 1}\n"
	body := y.do("PUT", "/v1/definitions/paid", src).want(201).Body
	for _, want := range []string{`"missing-secret"`, `"/secrets/0"`, `"line":2`, "RECOURSE_SECRET_PAY_KEY", `"unknown-definition"`, "no definition nobody"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("publishing does not say %s: %s", want, body)
		}
	}
	// A key that may not publish does not learn which secrets there are.
	_, admin := addKey(x, "admin", time.Time{})
	_, viewer := addKey(x, "viewer", time.Time{})
	as := header{"Authorization", "Bearer " + admin} // from now on requests need a key
	for key, explains := range map[string]bool{admin: true, viewer: false} {
		body := string(y.do("POST", "/v1/validate", src, header{"Authorization", "Bearer " + key}).want(200).Body)
		if strings.Contains(body, `"missing-secret"`) != explains || !strings.Contains(body, `"unknown-definition"`) {
			t.Errorf("validating, which explains secrets: %v: %s", explains, body)
		}
	}
	p := y.do("POST", "/v1/sagas", `{"definition": "paid"}`, header{"Idempotency-Key", "k"}, as).problem(422, "invalid_start")
	if len(p.Errors) != 1 || p.Errors[0].Code != "secret_missing" || !strings.Contains(p.Errors[0].Detail, "RECOURSE_SECRET_PAY_KEY") {
		t.Errorf("a start without its secret: %+v", p.Errors)
	}
	have = true
	y.do("POST", "/v1/sagas", `{"definition": "paid"}`, header{"Idempotency-Key", "k"}, as).want(201)
	if body := y.do("GET", "/v1/definitions/paid", "", as).want(200).Body; strings.Contains(string(body), `"missing-secret"`) {
		t.Errorf("the secret is there, and yet: %s", body)
	}
}

// withSecretsIf returns a client of another server on the fixture's store, which has every secret
// while *have is true, and none otherwise.
func withSecretsIf(t *testing.T, x *fixture, have *bool) *fixture {
	t.Helper()
	cfg := x.cfg
	cfg.Catalog = catalog.New(x.store, catalog.Options{Kinds: cfg.Catalog.Kinds(), Vars: cfg.Vars, Secret: func(name string) (string, error) {
		if *have {
			return "value", nil
		}
		return "", errors.New("secret " + name + " is missing: set RECOURSE_SECRET_" + name)
	}})
	y := *x
	y.url = serve(t, cfg)
	return &y
}

// TestMissingSecretOfAction: publishing, reading and checking an action warn of a secret that the
// server does not have. A definition that uses the action warns at its `use`. A session and a run
// of the action are refused like a start, before anything is sent.
func TestMissingSecretOfAction(t *testing.T) {
	x := newFixture(t)
	have := false
	y := withSecretsIf(t, x, &have)
	const src = "action: charge\nagents: auto\nsecrets: [PAY_KEY]\nhttp: POST ${vars.pay}/charges\nheaders: {X-Key: '${secrets.PAY_KEY}'}\nbody: {amount: 1}\nin_doubt: retry\n" +
		"compensate: {http: 'POST ${vars.pay}/charges/${output.id}/refund'}\n"
	warned := func(a *answer, at string) {
		t.Helper()
		body := string(a.Body)
		if have {
			if strings.Contains(body, `"missing-secret"`) {
				t.Errorf("the secret is there, and yet: %s", body)
			}
			return
		}
		for _, want := range []string{`"missing-secret"`, at, "RECOURSE_SECRET_PAY_KEY"} {
			if !strings.Contains(body, want) {
				t.Errorf("the answer does not say %s: %s", want, body)
			}
		}
	}
	sent := func() int { return len(x.world.Ledger().Service("pay").Effects()) }
	const opened, ran = `{"name": "support", "actions": ["charge"], "key": "k"}`, `{"id": "k"}`

	warned(y.do("PUT", "/v1/actions/charge", src).want(201), `"/secrets/0"`)
	warned(y.do("PUT", "/v1/definitions/paying", "saga: paying\nsteps:\n  - {id: pay, use: charge}\n").want(201), `"/steps/0/use"`)
	warned(y.do("GET", "/v1/actions/charge", "").want(200), `"/secrets/0"`)
	for path, body := range map[string]string{"/v1/sessions": opened, "/v1/actions/charge/run": ran} {
		p := y.do("POST", path, body).problem(422, "invalid_start")
		if len(p.Errors) != 1 || p.Errors[0].Code != saga.CodeSecretMissing || !strings.Contains(p.Errors[0].Detail, "RECOURSE_SECRET_PAY_KEY") {
			t.Errorf("%s: %+v", path, p.Errors)
		}
	}
	if n := sent(); n != 0 {
		t.Errorf("%d charges without the secret", n)
	}

	have = true
	warned(y.do("PUT", "/v1/actions/charge", src).want(200), "")
	warned(y.do("GET", "/v1/actions/charge", "").want(200), "")
	y.do("POST", "/v1/sessions", opened).want(201) // the key is still free
	x.until(y.do("POST", "/v1/actions/charge/run", ran).want(201).saga().ID, is(saga.Succeeded))
	if n := sent(); n != 1 {
		t.Errorf("%d charges with the secret, not 1", n)
	}

	// A key that may not publish does not learn which secrets there are.
	have = false
	_, admin := addKey(x, "admin", time.Time{})
	_, viewer := addKey(x, "viewer", time.Time{})
	for key, explains := range map[string]bool{admin: true, viewer: false} {
		body := string(y.do("POST", "/v1/validate", src, header{"Authorization", "Bearer " + key}).want(200).Body)
		if strings.Contains(body, `"missing-secret"`) != explains {
			t.Errorf("validating, which explains secrets: %v: %s", explains, body)
		}
	}
}

// goneSecret is a secret that the fixture's requests lack and its catalog does not check, as if it
// had been removed after a session was opened.
const goneSecret = "GONE_KEY"

// A call of an open session whose secret is missing waits for a person who provides it: it says so
// to the agent and in the inbox, and nothing is sent.
func TestCallWithoutItsSecret(t *testing.T) {
	x := newFixture(t)
	x.do("PUT", "/v1/actions/charge", "action: charge\nagents: auto\nsecrets: ["+goneSecret+"]\nhttp: POST ${vars.pay}/charges\nheaders: {X-Key: '${secrets."+goneSecret+"}'}\n"+
		"body: {amount: 1}\nin_doubt: retry\ncompensate: {http: 'POST ${vars.pay}/charges/${output.id}/refund'}\n").want(201)
	var v sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"]}`).want(201).into(&v)
	a := &agent{x: x, id: v.ID, secret: NewSecret()}
	a.attach("").want(200)
	var call machine.CallView
	a.do("POST", "/calls", `{"action": "charge", "wait": "0s"}`).into(&call)
	x.until(a.id, is(saga.Stuck))
	a.do("GET", "/calls/charge%5B0%5D", "").want(200).into(&call)
	if call.Status != machine.CallWaiting || call.WaitsFor != "credentials" || call.Inbox == "" {
		t.Errorf("the call: %+v", call)
	}
	if body := string(x.do("GET", "/v1/inbox", "").want(200).Body); !strings.Contains(body, "RECOURSE_SECRET_"+goneSecret) || !strings.Contains(body, call.Inbox) {
		t.Errorf("the inbox does not say which secret is missing: %s", body)
	}
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 0 {
		t.Errorf("%d charges without the secret", n)
	}
}
