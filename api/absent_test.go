package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"recourse/catalog"
)

// TestMissingSecret: publishing warns of a secret that the server does not have, and a start is
// refused before anything is sent.
func TestMissingSecret(t *testing.T) {
	x := newFixture(t)
	cfg := x.cfg
	have := false
	cfg.Catalog = catalog.New(x.store, catalog.Options{Kinds: cfg.Catalog.Kinds(), Secret: func(name string) (string, error) {
		if have {
			return "value", nil
		}
		return "", errors.New("secret " + name + " is missing: set RECOURSE_SECRET_" + name)
	}})
	y := *x
	y.url = serve(t, cfg)
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
