package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/machine"
)

// The answer of count changes when somebody charges under the key elsewhere.
const freshDef = `saga: fresh
steps:
  - id: count
    http: GET ${vars.pay}/charges?idempotency_key=elsewhere
    output: {n: "${result.body.count}"}
    fresh_for: 1s
    on_change: ask
  - id: double
    set: ${steps.count.output.n * 2}
  - id: ok
    approval: {title: "Charge ${steps.double.output}?", covers: [pay]}
  - id: nap
    sleep: 1s
  - id: pay
    http: POST ${vars.pay}/charges
    in_doubt: retry
    body: {amount: "${steps.double.output + 1}"}
    compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`

// elsewhere makes a charge that count finds.
func elsewhere(x *fixture) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.world.URL+"/pay/charges", strings.NewReader(`{"amount": 1}`))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "elsewhere")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	if a.Body.Close(); a.StatusCode != http.StatusCreated {
		x.t.Fatalf("HTTP %d", a.StatusCode)
	}
}

// An answer that is older than fresh_for is read again before a request that depends on it leaves.
// If it has changed, the approval is asked again, with what is made from it.
func TestFreshAsks(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(freshDef)
		v, entries := asked(x, `{"definition": "fresh"}`, 1)
		first := entries[0]
		elsewhere(x)
		path := "/v1/sagas/" + v.ID + "/steps/ok/approve"
		x.do("POST", path, fmt.Sprintf(`{"shown": %q}`, first.ShownHash)).want(200)
		x.until(v.ID, func(v machine.View) bool { return len(v.Open) == 1 && v.Open[0] != first.ID })
		var list page[inboxEntry]
		x.do("GET", "/v1/inbox?kind=approval&saga="+v.ID, "").want(200).into(&list)
		e := list.Data[0]
		if e.Title != "Charge 2?" || e.Stale == nil || !e.Stale.Answer || e.Stale.Step != "count" || e.Stale.Detail != "it differs at /n" || string(e.Covers[0].Request.Body) != `{"amount":3}` ||
			!strings.HasPrefix(e.Detail, "It is asked again: the answer of step count has changed") {
			t.Errorf("entry %+v", e)
		}
		if n := len(x.world.Ledger().Op("pay", "charge").Requests()); n != 1 {
			t.Errorf("%d charges", n)
		}
		x.do("POST", path, fmt.Sprintf(`{"shown": %q}`, first.ShownHash)).problem(409, "stale")
		x.do("POST", path, fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).want(200)
		x.until(v.ID, is(saga.Succeeded))
		if n := len(x.world.Ledger().Live()); n != 2 {
			t.Errorf("%d effects", n)
		}
	})
}

// With on_change: fail, the saga fails because of it, and a retry begins with another reading.
func TestFreshFails(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(strings.Replace(freshDef, "on_change: ask", "on_change: fail", 1))
		v, entries := asked(x, `{"definition": "fresh"}`, 1)
		elsewhere(x)
		x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, entries[0].ShownHash)).want(200)
		v = x.until(v.ID, is(saga.Compensated))
		if r := v.Reason; r == nil || r.Code != "stale" || r.Step != "count" || !strings.Contains(r.Detail, "it differs at /n") {
			t.Errorf("reason %+v", v.Reason)
		}
		retry := "/v1/sagas/" + v.ID + "/retry"
		x.do("POST", retry, `{"from": "pay", "reason": "again"}`).problem(409, "no_outcome")
		next := x.do("POST", retry, `{"from": "count", "reason": "again"}`).want(201).saga()
		x.until(next.ID, func(v machine.View) bool { return len(v.Open) == 1 })
	})
}
