package api

import (
	"fmt"
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/machine"
)

const coveringDef = `saga: covering
input: {order: string}
secrets: [PAY_KEY]
steps:
  - id: ok
    approval: {title: "Refund ${input.order}?", covers: [pay]}
  - id: pay
    http: POST ${vars.pay}/charges
    auth: ${secrets.PAY_KEY}
    in_doubt: retry
    body: {amount: 5, order: "${input.order}", team: "${saga.labels?.team ?? 'none'}"}
    compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`

// An approval shows the covered requests, with secrets as references, and is asked again, with the
// reason, if one of them differs when it is about to be sent.
func TestApprovalCovers(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(coveringDef)
		v, entries := asked(x, `{"definition": "covering", "input": {"order": "o-1"}}`, 1)
		first := entries[0]
		if len(first.Covers) != 1 || first.Stale != nil {
			t.Fatalf("entry %+v", first)
		}
		c := first.Covers[0]
		if c.Path != "pay" || c.Request == nil || string(c.Request.Body) != `{"amount":5,"order":"o-1","team":"none"}` || c.Request.Headers["Idempotency-Key"] != c.Key || c.Hash != c.Request.SendHash(c.Key) ||
			!strings.Contains(c.Request.Headers["Authorization"], "secret") || c.Undo == nil || !strings.HasSuffix(c.Undo.Request.URL, "/charges/‹pay.id›/refund") {
			t.Errorf("covered %+v, request %+v", c, c.Request)
		}
		x.do("PATCH", "/v1/sagas/"+v.ID, `{"labels": {"team": "blue"}}`, header{"If-Match", fmt.Sprintf("%q", fmt.Sprint(v.Seq))}).want(200)
		path := "/v1/sagas/" + v.ID + "/steps/ok/"
		old := fmt.Sprintf(`{"shown": %q}`, first.ShownHash)
		x.do("POST", path+"approve", old).want(200)
		v = x.until(v.ID, func(v machine.View) bool { return len(v.Open) == 1 && v.Open[0] != first.ID })
		if v.Status != saga.Waiting {
			t.Errorf("status %s", v.Status)
		}
		var list page[inboxEntry]
		x.do("GET", "/v1/inbox?kind=approval&saga="+v.ID, "").want(200).into(&list)
		e := list.Data[0]
		if e.Stale == nil || e.Stale.Step != "pay" || e.Stale.Detail != "it differs at /body/team" || !strings.HasPrefix(e.Detail, "It is asked again: ") || string(e.Covers[0].Request.Body) != `{"amount":5,"order":"o-1","team":"blue"}` {
			t.Errorf("entry %+v, covers %+v", e, e.Covers)
		}
		x.do("POST", path+"approve", old).problem(409, "stale")
		x.do("POST", path+"approve", fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).want(200)
		x.until(v.ID, is(saga.Succeeded))
	})
}

// A saga that goes on from a step after the approval asks again for what it covers: the request has
// another key. A fork of it at that moment asks, too.
func TestRetryFromAsksAgain(t *testing.T) {
	x := newFixture(t)
	x.publish(coveringDef)
	refuseOnce(x, "/pay/charges")
	v, entries := asked(x, `{"definition": "covering", "input": {"order": "o-1"}}`, 1)
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, entries[0].ShownHash)).want(200)
	x.until(v.ID, is(saga.Compensated))
	next := x.do("POST", "/v1/sagas/"+v.ID+"/retry", `{"from": "pay", "reason": "fixed"}`).want(201).saga()
	next = x.until(next.ID, func(v machine.View) bool { return len(v.Open) == 1 })
	if n := len(x.world.Ledger().Op("pay", "charge").Requests()); n != 1 {
		t.Errorf("%d charges were asked for before the approval", n)
	}
	var list page[inboxEntry]
	x.do("GET", "/v1/inbox?kind=approval&saga="+next.ID, "").want(200).into(&list)
	e := list.Data[0]
	if e.Stale == nil || e.Stale.Detail != "it has another idempotency key" {
		t.Errorf("entry %+v", e)
	}
	fork := x.do("POST", "/v1/sagas/"+next.ID+"/fork", `{}`).want(201).saga()
	fork = x.until(fork.ID, func(v machine.View) bool { return len(v.Open) == 1 })
	x.do("GET", "/v1/inbox?kind=approval&saga="+fork.ID, "").want(200).into(&list)
	if f := list.Data[0]; f.Path != "ok" {
		t.Errorf("the fork asks for %+v", f)
	}
	x.do("POST", "/v1/sagas/"+next.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).want(200)
	x.until(next.ID, is(saga.Succeeded))
	if n := len(x.world.Ledger().Live()); n != 1 {
		t.Errorf("%d effects", n)
	}
}
