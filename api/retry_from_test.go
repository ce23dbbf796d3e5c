package api

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/examples/world"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// The third of three requests to a model is refused for a while, and the saga fails. It goes on
// from there later, and each request is billed once.
func TestRetryFrom(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.cooling.Store(true)
		x.publish(strings.ReplaceAll(cooldownDef, ", on_error: hold, hold_for: HOLD", ""))
		first := x.do("POST", "/v1/sagas", `{"definition": "cooldown", "labels": {"a": "1"}}`, header{"Prefer", "wait=20"}).want(201).saga()
		if !first.Status.Terminal() || first.Status == saga.Succeeded {
			t.Fatalf("status %s", first.Status)
		}
		x.cooling.Store(false)
		path := "/v1/sagas/" + first.ID + "/retry"
		var plan retryView
		x.do("GET", path+"?from=three", "").want(200).into(&plan)
		if want := (retryView{Possible: true, From: "three", Reused: []string{"one", "two"}, Again: []retryAgain{}}); !cmp.Equal(want, plan) {
			t.Errorf("plan (-want +got):\n%s", cmp.Diff(want, plan))
		}
		second := x.do("POST", path, `{"from": "three", "reason": "the cooldown is over"}`, header{"Prefer", "wait=20"}).want(201).saga()
		if second.Status != saga.Succeeded || second.RetryOf != first.ID || second.RetryFrom != "three" || second.Labels["a"] != "1" {
			t.Errorf("%+v", second)
		}
		billedOnce(x)
		var steps page[machine.StepView]
		x.do("GET", "/v1/sagas/"+second.ID+"/steps", "").want(200).into(&steps)
		for i, s := range steps.Data {
			reused := i < 2
			if (s.ReusedFrom == first.ID) != reused || (len(s.Attempts) == 0) != reused || s.Status != machine.StepSucceeded || len(s.Output) == 0 {
				t.Errorf("%+v", s)
			}
		}
		again := x.do("POST", path, `{"from": "three", "reason": "once more"}`).want(200)
		if again.Header.Get(replayHeader) != "true" || again.saga().ID != second.ID {
			t.Errorf("%v %s", again.Header, again.Body)
		}
		if p := x.do("POST", path, `{"from": "two", "reason": "from elsewhere"}`).problem(409, "already_retried"); !strings.Contains(p.Detail, second.ID) {
			t.Errorf("%+v", p)
		}
		x.do("GET", path+"?from=two", "").want(200).into(&plan)
		if plan.Possible || plan.Retry != second.ID {
			t.Errorf("%+v", plan)
		}
		x.do("DELETE", "/v1/sagas/"+second.ID, "").problem(409, "retry_kept")
		x.do("DELETE", "/v1/sagas/"+first.ID, "").want(204)
		// It needs nothing of the other one.
		if v := x.do("GET", "/v1/sagas/"+second.ID, "").want(200).saga(); v.Status != saga.Succeeded {
			t.Errorf("%+v", v)
		}
		x.do("DELETE", "/v1/sagas/"+second.ID, "").want(204)
	})
}

// refuseOnce makes the world refuse the next request to a path.
func refuseOnce(x *fixture, path string) {
	x.t.Helper()
	if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: path}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}}); err != nil {
		x.t.Fatal(err)
	}
}

// requested counts the requests of the world's operations.
func requested(x *fixture, ops ...string) (n []int) {
	for _, op := range ops {
		service, name, _ := strings.Cut(op, " ")
		n = append(n, len(x.world.Ledger().Op(service, name).Requests()))
	}
	return n
}

// A step that was undone runs again, and so does one that reads it and has no effect. Other results
// are taken over.
func TestRetryFromUndone(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fmt.Sprintf(`saga: redo
steps:
  - {id: alone, http: GET %[1]s/things/a, expect: {status: 404}, output: {code: "${result.status}"}}
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
  - {id: reader, http: "GET %[1]s/things/${steps.label.output.id}", expect: {status: 404}, output: {code: "${result.status}"}}
  - {id: order, http: POST %[1]s/ship/orders, body: {}, compensate: none}
`, x.world.URL))
		refuseOnce(x, "/ship/orders")
		first := x.do("POST", "/v1/sagas", `{"definition": "redo"}`, header{"Prefer", "wait=20"}).want(201).saga()
		if first.Status != saga.Compensated {
			t.Fatalf("%+v", first)
		}
		path := "/v1/sagas/" + first.ID + "/retry"
		var plan retryView
		x.do("GET", path+"?from=order", "").want(200).into(&plan)
		want := retryView{Possible: true, From: "order", Reused: []string{"alone"}, Again: []retryAgain{{"label", "it was undone"}, {"reader", "it reads the result of label, which runs again"}}}
		if d := cmp.Diff(want, plan); d != "" {
			t.Errorf("plan (-want +got):\n%s", d)
		}
		second := x.do("POST", path, `{"from": "order", "reason": "fixed"}`, header{"Prefer", "wait=20"}).want(201).saga()
		if second.Status != saga.Succeeded {
			t.Errorf("%+v", second)
		}
		if d := cmp.Diff([]int{2, 2, 3}, requested(x, "shipping label", "ship order", "things show")); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
	})
}

// Effects that remain are not repeated. They are undone with the saga that has taken them over.
func TestRetryFromStays(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fmt.Sprintf(`saga: keep
on_failure: stop
steps:
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
  - {id: charge, http: POST %[1]s/pay/charges, body: {amount: 5}, compensate: {http: "POST %[1]s/pay/charges/${output.id}/refund"}}
  - {id: order, http: POST %[1]s/ship/orders, body: {}, compensate: {http: "POST %[1]s/ship/orders/${output.id}/cancel"}}
  - {id: wait, sleep: 1h}
`, x.world.URL))
		refuseOnce(x, "/ship/orders")
		first := x.do("POST", "/v1/sagas", `{"definition": "keep"}`, header{"Prefer", "wait=20"}).want(201).saga()
		if first.Status != saga.Failed || len(first.Residual) != 2 {
			t.Fatalf("%+v", first)
		}
		path := "/v1/sagas/" + first.ID + "/retry"
		for from, code := range map[string]code{"nothing": "no_such_step", "charge": "effect_stays", "wait": "no_outcome"} {
			var plan retryView
			x.do("GET", path+"?from="+from, "").want(200).into(&plan)
			p := x.do("POST", path, `{"from": "`+from+`", "reason": "fixed"}`).problem(409, code)
			if plan.Possible || len(plan.Refused) == 0 || plan.Refused[0].Code != string(code) || p.Detail == "" {
				t.Errorf("from %s: %+v, %+v", from, plan, p)
			}
		}
		second := x.do("POST", path, `{"from": "order", "reason": "fixed"}`).want(201).saga()
		x.until(second.ID, is(saga.Waiting))
		if d := cmp.Diff([]int{1, 1, 2}, requested(x, "shipping label", "pay charge", "ship order")); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
		x.do("POST", "/v1/sagas/"+second.ID+"/compensate", `{"reason": "not needed"}`).want(202)
		x.until(second.ID, is(saga.Compensated))
		var order, keys []string
		for _, e := range x.world.Ledger() {
			if e.Undoes != "" {
				order, keys = append(order, e.Op), append(keys, e.Key)
			}
		}
		if d := cmp.Diff([]string{"cancel", "refund_charge", "void"}, order); d != "" || len(x.world.Ledger().Live()) != 0 {
			t.Errorf("%d effects; undone (-want +got):\n%s", len(x.world.Ledger().Live()), d)
		}
		key := func(saga, step string) string {
			return idempotency.Key(uuid.Must(uuid.FromString(saga)), step, journal.Undo, 0)
		}
		if d := cmp.Diff([]string{key(second.ID, "order"), key(first.ID, "charge"), key(first.ID, "label")}, keys); d != "" {
			t.Errorf("keys (-want +got):\n%s", d)
		}
	})
}

// An approval that nobody has decided is no outcome: no saga goes on after it.
func TestRetryFromUndecided(t *testing.T) {
	x := newFixture(t)
	x.publish(fmt.Sprintf("saga: undecided\nsteps:\n  - {id: ok, approval: {title: \"Charge?\"}}\n  - {id: charge, http: POST %s/pay/charges, body: {amount: 5}, compensate: none}\n", x.world.URL))
	v := x.do("POST", "/v1/sagas", `{"definition": "undecided"}`).want(201).saga()
	x.until(v.ID, is(saga.Waiting))
	x.do("POST", "/v1/sagas/"+v.ID+"/cancel", `{"reason": "later"}`).want(202)
	x.until(v.ID, is(saga.Compensated))
	x.do("POST", "/v1/sagas/"+v.ID+"/retry", `{"from": "charge", "reason": "now"}`).problem(409, "no_outcome")
	if n := requested(x, "pay charge")[0]; n != 0 {
		t.Errorf("%d charges", n)
	}
}

// A saga that goes on from one which has gone on itself has the outcomes of both.
func TestRetryFromTwice(t *testing.T) {
	x := newFixture(t)
	x.publish(fmt.Sprintf(`saga: twice
on_failure: stop
steps:
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void", undo_within: 1h}}
  - {id: order, http: POST %[1]s/ship/orders, body: {}, compensate: {http: "POST %[1]s/ship/orders/${output.id}/cancel", undo_within: 1h}}
  - {id: charge, http: POST %[1]s/pay/charges, body: {amount: 5}, compensate: {http: "POST %[1]s/pay/charges/${output.id}/refund", undo_within: 1h}}
`, x.world.URL))
	refuseOnce(x, "/ship/orders")
	refuseOnce(x, "/pay/charges")
	v := x.do("POST", "/v1/sagas", `{"definition": "twice"}`, header{"Prefer", "wait=20"}).want(201).saga()
	for _, from := range []string{"order", "charge"} {
		v = x.do("POST", "/v1/sagas/"+v.ID+"/retry", `{"from": "`+from+`", "reason": "fixed"}`, header{"Prefer", "wait=20"}).want(201).saga()
	}
	if d := cmp.Diff([]int{1, 2, 2}, requested(x, "shipping label", "ship order", "pay charge")); d != "" || v.Status != saga.Succeeded || len(x.world.Ledger().Live()) != 3 {
		t.Errorf("%+v; requests (-want +got):\n%s", v, d)
	}
	// It can be undone later as a whole.
	undo := x.do("POST", "/v1/sagas/"+v.ID+"/compensate", `{"reason": "not needed"}`, header{"Prefer", "wait=20"}).want(201).saga()
	if undo.Status != saga.Succeeded || undo.UndoOf != v.ID || len(x.world.Ledger().Live()) != 0 {
		t.Errorf("%+v, %d effects", undo, len(x.world.Ledger().Live()))
	}
}

// A child whose parent lives outlives its retention, and so does the saga that goes on from it:
// without that one, the child could be retried from a step a second time.
func TestRetryFromChildIsKept(t *testing.T) {
	var later atomic.Int64
	x := newFixtureOn(t, memory.New(memory.Config{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}))
	x.publish(fmt.Sprintf(`saga: below
on_failure: stop
retention: 1m
steps:
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
  - {id: order, http: POST %[1]s/ship/orders, body: {}, compensate: none}
`, x.world.URL))
	x.publish("saga: above\nsteps:\n  - {id: child, run: below, retry: none, on_error: continue}\n  - {id: ok, approval: {title: \"Go on?\"}}\n")
	refuseOnce(x, "/ship/orders")
	above := x.do("POST", "/v1/sagas", `{"definition": "above"}`).want(201).saga()
	x.until(above.ID, func(v machine.View) bool { return len(v.Open) == 1 })
	var below page[machine.View]
	x.do("GET", "/v1/sagas?definition=below", "").want(200).into(&below)
	path := "/v1/sagas/" + below.Data[0].ID + "/retry"
	second := x.do("POST", path, `{"from": "order", "reason": "fixed"}`, header{"Prefer", "wait=20"}).want(201).saga()
	later.Store(int64(2 * time.Minute))
	if n, err := x.store.DeleteExpired(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d sagas were deleted, %v", n, err)
	}
	if again := x.do("POST", path, `{"from": "order", "reason": "again"}`).want(200).saga(); again.ID != second.ID {
		t.Errorf("saga %s goes on from it, too", again.ID)
	}
}
