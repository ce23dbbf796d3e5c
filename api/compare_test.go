package api

import (
	"strings"
	"testing"

	"recourse/saga/compare"
)

// A retry is compared with its original: one step has another outcome, and one only the retry has
// reached.
func TestCompare(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(`saga: compared
input: {amount: integer}
steps:
  - {id: look, http: "GET ${vars.things}/a", expect: {status: 404}, output: {code: "${result.status}"}}
  - {id: charge, http: "POST ${vars.pay}/charges", body: {amount: "${input.amount}", saga: "${saga.id}"}, output: {amount: "${result.body.amount}"}, compensate: none}
  - {id: ship, http: "POST ${vars.ship}/orders", body: {}, output: {ok: true}, compensate: none}
  - {id: last, set: {n: 1}}
`)
		refuseOnce(x, "/ship/orders")
		var ids []string
		for _, input := range []string{`{"amount": 1}`, `{"amount": 1}`, `{"amount": 2}`} {
			ids = append(ids, x.do("POST", "/v1/sagas", `{"definition": "compared", "input": `+input+`}`, header{"Prefer", "wait=20"}).want(201).saga().ID)
		}
		verdicts := func(here, there string) (compare.Result, string) {
			var res compare.Result
			x.do("GET", "/v1/sagas/"+here+"/compare/"+there, "").want(200).into(&res)
			var list []string
			for _, s := range res.Steps {
				list = append(list, s.Path+" "+string(s.Verdict))
			}
			return res, strings.Join(list, ", ")
		}
		res, got := verdicts(ids[0], ids[1])
		if want := "look same, charge same, ship other-outcome, last only-there"; got != want || res.Count[compare.Same] != 2 || res.Steps[2].Difference.Pointer != "/error" {
			t.Errorf("got %s, want %s: %+v", got, want, res)
		}
		res, got = verdicts(ids[1], ids[2])
		if want := "look same, charge other-input, ship same, last same"; got != want || res.Steps[1].Difference.Pointer != "/request/body/amount" || string(res.Steps[1].Difference.Now) != "2" {
			t.Errorf("got %s, want %s: %+v", got, want, res)
		}
		if _, got = verdicts(ids[1], ids[0]); got != "look same, charge same, ship other-outcome, last only-here" {
			t.Errorf("the other way: %s", got)
		}
		x.do("GET", "/v1/sagas/"+ids[0]+"/compare/"+strings.Replace(ids[0], "0", "f", 1), "").problem(404, "saga_not_found")
	})
}

// Two sessions are compared by what they ask for.
func TestCompareSessions(t *testing.T) {
	x := newFixture(t)
	var ids []string
	for _, order := range []string{"B", "C"} {
		a := openAgent(t, x, "")
		for _, o := range []string{"A", order} {
			a.call(`{"action": "charge", "input": {"order": "` + o + `", "amount": 10}}`)
		}
		ids = append(ids, a.id)
	}
	var res compare.Result
	x.do("GET", "/v1/sessions/"+ids[0]+"/compare/"+ids[1], "").want(200).into(&res)
	if len(res.Steps) != 3 || res.Count[compare.OtherOutcome] != 1 || res.Count[compare.OnlyHere] != 1 || res.Count[compare.OnlyThere] != 1 || res.Steps[0].Difference.Pointer != "/output/id" {
		t.Errorf("%+v", res)
	}
	x.publish("saga: plain\nsteps:\n  - {id: one, set: 1}\n")
	plain := x.do("POST", "/v1/sagas", `{"definition": "plain"}`).want(201).saga()
	x.do("GET", "/v1/sessions/"+ids[0]+"/compare/"+plain.ID, "").problem(409, "not_comparable")
}
