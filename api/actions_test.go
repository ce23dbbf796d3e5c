package api

import (
	"strconv"
	"strings"
	"testing"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const (
	chargeAction = "action: charge\ninput: {amount: decimal, currency: string = USD}\nhttp: POST ${vars.pay}/charges\nbody: {amount: '${input.amount}', currency: '${input.currency}'}\n" +
		"in_doubt: retry\ncompensate: {http: 'POST ${vars.pay}/charges/${output.id}/refund', body: {amount: '${input.amount}'}}\n"
	usingDef = "saga: paying\ninput: {sum: decimal, fail: boolean = false}\nsteps:\n  - {id: pay, use: charge, with: {amount: '${input.sum}'}}\n  - {id: no, fail: no, when: input.fail}\n"
)

func TestActions(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		var v documentView
		a := x.do("PUT", "/v1/actions/charge", chargeAction).want(201)
		if a.into(&v); v.Name != "charge" || v.Version != "v1" || v.Source != "" || a.Header.Get("Location") != "/v1/actions/charge/versions/v1" || a.Header.Get("ETag") != strconv.Quote(v.SHA256) {
			t.Errorf("%v %s", a.Header, a.Body)
		}
		x.do("PUT", "/v1/actions/charge", chargeAction).want(200)
		x.do("PUT", "/v1/actions/charge", chargeAction+"#2", header{"If-None-Match", "*"}).problem(412, "precondition_failed")
		x.do("PUT", "/v1/actions/charge", chargeAction+"#2", header{"If-Match", a.Header.Get("ETag")}).want(201).into(&v)
		if v.Version != "v2" {
			t.Errorf("version %s", v.Version)
		}
		if got := x.do("GET", "/v1/actions/charge/versions/1", "", header{"Accept", typeYAML}).want(200); string(got.Body) != chargeAction {
			t.Errorf("%s", got.Body)
		}
		if x.do("GET", "/v1/actions/charge", "").want(200).into(&v); v.Version != "v2" || v.Source != chargeAction+"#2" {
			t.Errorf("%+v", v)
		}
		if list := walk[documentView](x, "/v1/actions", 2); len(list) != 1 || list[0].Name != "charge" {
			t.Errorf("%+v", list)
		}
		if list := walk[documentView](x, "/v1/actions/charge/versions", 1); len(list) != 2 || list[0].Version != "v2" {
			t.Errorf("%+v", list)
		}
		x.do("GET", "/v1/definitions/charge", "").problem(404, "definition_not_found")
		x.do("GET", "/v1/actions/other", "").problem(404, "action_not_found")
		x.do("GET", "/v1/actions/charge/versions/v3", "").problem(404, "action_not_found")
		x.do("DELETE", "/v1/actions/other", "").problem(404, "action_not_found")
		x.do("PUT", "/v1/actions/other", chargeAction).problem(422, "invalid_action")
		p := x.do("PUT", "/v1/actions/charge", chargeAction+"when: true\n").problem(422, "invalid_action")
		if len(p.Errors) != 1 || p.Errors[0].Code != "unknown_key" || p.Errors[0].Line == 0 {
			t.Errorf("%+v", p.Errors)
		}
		x.do("DELETE", "/v1/actions/charge", "").want(204)
		if list := walk[documentView](x, "/v1/actions", 2); len(list) != 0 {
			t.Errorf("an archived action is listed: %+v", list)
		}
		if x.do("GET", "/v1/actions/charge", "").want(200).into(&v); !v.Archived {
			t.Error("it does not show as archived")
		}
	})
}

// Actions that a definition was published with stay pinned, even if they are archived.
func TestUsedActions(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		p := x.do("PUT", "/v1/definitions/paying", usingDef).problem(422, "invalid_definition")
		if len(p.Errors) != 1 || p.Errors[0].Code != "unknown_action" || !strings.Contains(p.Errors[0].Detail, "PUT /v1/actions/charge") {
			t.Errorf("%+v", p.Errors)
		}
		x.do("PUT", "/v1/actions/charge", chargeAction).want(201)
		var v documentView
		if x.do("PUT", "/v1/definitions/paying", usingDef).want(201).into(&v); v.Actions["charge"] != "v1" {
			t.Errorf("pins %v", v.Actions)
		}
		newer := strings.Replace(chargeAction, "currency: '${input.currency}'", "currency: EUR", 1)
		x.do("PUT", "/v1/actions/charge", newer).want(201)
		if x.do("PUT", "/v1/definitions/paying", usingDef).want(200).into(&v); v.Actions["charge"] != "v1" {
			t.Errorf("the same text has other pins: %v", v.Actions)
		}
		if x.do("PUT", "/v1/definitions/paying", usingDef+"# newer\n").want(201).into(&v); v.Actions["charge"] != "v2" {
			t.Errorf("the new text has the old pins: %v", v.Actions)
		}
		if x.do("GET", "/v1/definitions/paying/versions/v1", "").want(200).into(&v); v.Actions["charge"] != "v1" {
			t.Errorf("pins %v", v.Actions)
		}
		x.do("DELETE", "/v1/actions/charge", "").want(204)
		x.do("PUT", "/v1/definitions/paying", usingDef+"# again\n").problem(422, "invalid_definition")
		for version, currency := range map[string]string{"v1": "USD", "v2": "EUR"} {
			id := x.do("POST", "/v1/sagas", `{"definition": "paying", "version": "`+version+`", "input": {"sum": 19.10, "fail": true}}`).want(201).saga().ID
			x.until(id, is(saga.Compensated))
			var steps page[machine.StepView]
			x.do("GET", "/v1/sagas/"+id+"/steps", "").want(200).into(&steps)
			s := steps.Data[0]
			if s.Kind != "http" || s.Use != "charge@"+version[1:] || !strings.Contains(string(s.Input), currency) || len(s.Attempts) != 2 || s.Attempts[1].Way != journal.Undo {
				t.Errorf("%s: %+v %s", version, s, s.Input)
			}
		}
	})
}

func TestValidateAction(t *testing.T) {
	x := newFixture(t)
	var v validation
	if x.do("POST", "/v1/validate", chargeAction).want(200).into(&v); !v.OK {
		t.Errorf("%+v", v)
	}
	if x.do("POST", "/v1/validate", strings.Replace(chargeAction, "in_doubt: retry\n", "", 1)).want(200).into(&v); !v.OK || len(v.Warnings) != 1 {
		t.Errorf("%+v", v)
	}
	if x.do("POST", "/v1/validate", `{"action": "x", "http": "GET https://a.example/", "steps": []}`).want(200).into(&v); v.OK || v.Errors[0].Code != "unknown_key" {
		t.Errorf("%+v", v)
	}
	if x.do("POST", "/v1/validate", usingDef).want(200).into(&v); v.OK || v.Errors[0].Code != "unknown_action" {
		t.Errorf("%+v", v)
	}
	x.do("PUT", "/v1/actions/charge", chargeAction).want(201)
	if x.do("POST", "/v1/validate", usingDef).want(200).into(&v); !v.OK {
		t.Errorf("%+v", v)
	}
	if _, err := x.store.Document(t.Context(), catalog.Kind, "paying", 0); err == nil {
		t.Error("validating has published")
	}
}
