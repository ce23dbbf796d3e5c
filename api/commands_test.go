package api

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// askDef ends in the inbox if the response to its charge is lost.
const askDef = `saga: careful
input: {amount: decimal}
budget: 5.00 USD
steps:
  - id: label
    http: POST ${vars.shipping}/labels
    in_doubt: retry
    cost: 0.02 USD
    compensate:
      http: POST ${vars.shipping}/labels/${output.id}/void
  - id: charge
    http: POST ${vars.pay}/charges
    in_doubt: ask
    body: {amount: "${input.amount}"}
    compensate:
      http: POST ${vars.pay}/charges/${output.id}/refund
  - id: ship
    http: POST ${vars.ship}/orders
    in_doubt: retry
    retry: none
    body: {charge: "${steps.charge.output.id}"}
    compensate: none
output: {charge: "${steps.charge.output.id}"}
`

// doubtful starts a saga whose charge took effect, but whose response was lost.
func doubtful(x *fixture) (machine.View, inboxEntry) {
	x.t.Helper()
	x.publish(askDef)
	if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		x.t.Fatal(err)
	}
	id := x.do("POST", "/v1/sagas", `{"definition": "careful", "input": {"amount": 12.50}}`).want(201).saga().ID
	v := x.until(id, is(saga.Stuck))
	var list page[inboxEntry]
	x.do("GET", "/v1/inbox?kind=in_doubt&saga="+id, "").want(200).into(&list)
	if len(list.Data) != 1 || len(v.Open) != 1 || list.Data[0].ID != v.Open[0] {
		x.t.Fatalf("inbox %+v, open %v", list, v.Open)
	}
	return v, list.Data[0]
}

func TestResolveSucceeded(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		v, e := doubtful(x)
		if e.Path != "charge" || e.Kind != "in_doubt" || e.Saga != v.ID || e.Key == "" || e.Request == nil || e.Request.Method != "POST" {
			t.Errorf("entry %+v", e)
		}
		made := x.world.Ledger().Key(e.Key).Effects()
		if len(made) != 1 {
			t.Fatalf("%d charges", len(made))
		}
		path := "/v1/sagas/" + v.ID + "/steps/charge/resolve"
		body := fmt.Sprintf(`{"outcome": "succeeded", "output": {"id": %q, "amount": 12.50}, "reason": "found it in their dashboard"}`, made[0].EffectID)
		x.do("POST", path, body).problem(428, "precondition_required")
		x.do("POST", path, body, header{"If-Match", `"1"`}).problem(412, "changed")
		x.do("POST", path, body, header{"If-Match", `"soon"`}).problem(412, "changed")
		key := header{"Idempotency-Key", "resolve-1"}
		a := x.do("POST", path, body, header{"If-Match", `"` + e.ETag + `"`}, key).want(200)
		var step machine.StepView
		a.into(&step)
		if step.Path != "charge" || step.Status != machine.StepSucceeded || !strings.Contains(string(step.Output), "12.50") {
			t.Errorf("step %s", a.Body)
		}
		end := x.until(v.ID, is(saga.Succeeded))
		if want := fmt.Sprintf(`{"charge":%q}`, made[0].EffectID); string(end.Output) != want {
			t.Errorf("output %s, want %s", end.Output, want)
		}
		again := x.do("POST", path, body, header{"If-Match", `"` + e.ETag + `"`}, key).want(200)
		if again.Header.Get(replayHeader) != "true" || string(again.Body) != string(a.Body) || again.Header.Get("ETag") != a.Header.Get("ETag") {
			t.Errorf("replay: %v %s", again.Header, again.Body)
		}
		x.do("POST", path, strings.Replace(body, "found", "saw", 1), header{"If-Match", "*"}, key).problem(422, "idempotency_key_reused")
		x.do("POST", path, body, header{"If-Match", "*"}).problem(409, "terminal")
		var list page[inboxEntry]
		x.do("GET", "/v1/inbox", "").want(200).into(&list)
		if len(list.Data) != 0 {
			t.Errorf("inbox %+v", list)
		}
	})
}

func TestResolveFailedUndoes(t *testing.T) {
	x := newFixture(t)
	v, _ := doubtful(x)
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/charge/resolve", `{"outcome": "failed", "reason": "they have no such charge"}`, header{"If-Match", "*"}).want(200)
	end := x.until(v.ID, is(saga.Compensated))
	if end.Reason == nil || end.Reason.Code != "step_failed" {
		t.Errorf("reason %+v", end.Reason)
	}
}

func TestResolveRefused(t *testing.T) {
	x := newFixture(t)
	v, e := doubtful(x)
	before := x.dump()
	path := "/v1/sagas/" + v.ID + "/steps/charge/resolve"
	match := header{"If-Match", `"` + e.ETag + `"`}
	tests := []struct {
		name, path, body string
		status           int
		code             code
		detail           string
	}{
		{"no reason", path, `{"outcome": "failed"}`, 422, "invalid_command", "say why"},
		{"blank reason", path, `{"outcome": "failed", "reason": " "}`, 422, "invalid_command", "say why"},
		{"long reason", path, `{"outcome": "failed", "reason": "` + strings.Repeat("x", 2001) + `"}`, 422, "invalid_command", "2000"},
		{"no outcome", path, `{"reason": "r"}`, 422, "invalid_command", "say how it ended: outcome is succeeded, failed, retry, skip or compensated"},
		{"outcome", path, `{"outcome": "maybe", "reason": "r"}`, 422, "invalid_command", "succeeded, failed"},
		{"new key", path, `{"outcome": "failed", "new_key": true, "reason": "r"}`, 422, "invalid_command", "retry"},
		{"other field", path, `{"outcome": "failed", "raeson": "r"}`, 400, "invalid_request", `did you mean "reason"?`},
		{"duplicate", path, `{"outcome": "failed", "outcome": "succeeded", "reason": "r"}`, 400, "invalid_json", "twice"},
		{"other step", strings.Replace(path, "charge", "label", 1), `{"outcome": "failed", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"no step", strings.Replace(path, "charge", "chrage", 1), `{"outcome": "failed", "reason": "r"}`, 404, "step_not_found", "chrage"},
		{"no saga", strings.Replace(path, v.ID, "01a1fd50-0000-7000-8000-000000000000", 1), `{"outcome": "failed", "reason": "r"}`, 404, "saga_not_found", "id"},
		{"no id", strings.Replace(path, v.ID, strings.ToUpper(v.ID), 1), `{"outcome": "failed", "reason": "r"}`, 404, "saga_not_found", "lower case"},
		{"nothing to resume", "/v1/sagas/" + v.ID + "/resume", `{}`, 409, "not_paused", "/v1/sagas"},
		{"mode", "/v1/sagas/" + v.ID + "/cancel", `{"mode": "kill"}`, 422, "invalid_command", "stop"},
		{"same", strings.Replace(path, "charge", "label", 1), `{"outcome": "same", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"new", strings.Replace(path, "charge", "label", 1), `{"outcome": "new", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"retry of another step, resolved", strings.Replace(path, "charge", "label", 1), `{"outcome": "retry", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"skip", strings.Replace(path, "charge", "label", 1), `{"outcome": "skip", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"compensated", strings.Replace(path, "charge", "label", 1), `{"outcome": "compensated", "reason": "r"}`, 409, "not_waiting", "/v1/sagas"},
		{"compensate without reason", "/v1/sagas/" + v.ID + "/compensate", `{}`, 422, "invalid_command", "say why"},
		{"retry without reason", "/v1/sagas/" + v.ID + "/retry", ``, 422, "invalid_command", "say why"},
		{"new key in doubt", "/v1/sagas/" + v.ID + "/retry", `{"new_key": true, "reason": "r"}`, 409, "in_doubt", "definite failure"},
		{"retry of another step", "/v1/sagas/" + v.ID + "/retry", `{"from": "label", "reason": "r"}`, 409, "not_waiting", "charge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := x.send(t, "POST", tt.path, tt.body, match, outside, header{"Idempotency-Key", "k"}).problem(tt.status, tt.code)
			if !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail %q does not say %q", p.Detail, tt.detail)
			}
		})
	}
	if d := cmp.Diff(before, x.dump()); d != "" {
		t.Errorf("refused commands changed the saga: %s", d)
	}
}

func TestRetryInDoubt(t *testing.T) {
	x := newFixture(t)
	v, e := doubtful(x)
	x.do("POST", "/v1/sagas/"+v.ID+"/retry", `{"reason": "they honour keys"}`).want(202)
	x.until(v.ID, is(saga.Succeeded))
	if got := x.world.Ledger().Key(e.Key); len(got.Requests()) != 2 || len(got.Effects()) != 1 {
		t.Errorf("%d requests, %d effects; want 2 and 1", len(got.Requests()), len(got.Effects()))
	}
	var step machine.StepView
	x.do("GET", "/v1/sagas/"+v.ID+"/steps/charge", "").want(200).into(&step)
	if len(step.Attempts) != 2 || step.Attempts[0].Class != journal.InDoubt || step.Attempts[1].Class != journal.Succeeded || step.Attempts[0].Key != step.Attempts[1].Key {
		t.Errorf("attempts %+v", step.Attempts)
	}
}

func TestPauseResume(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		a := x.do("POST", "/v1/sagas/"+id+"/pause", `{"reason": "lunch"}`).want(202)
		if v := a.saga(); v.Status != saga.PausedStatus || a.Header.Get("ETag") != seqTag(v.Seq) {
			t.Errorf("%v %s", a.Header, a.Body)
		}
		x.do("POST", "/v1/sagas/"+id+"/pause", "").problem(409, "paused")
		longest := `{"reason": "` + strings.Repeat("é", maxReason) + `"}`
		if v := x.do("POST", "/v1/sagas/"+id+"/resume", longest).want(202).saga(); v.Status != saga.Waiting {
			t.Errorf("status %s", v.Status)
		}
		var journalOf page[journal.Record]
		x.do("GET", "/v1/sagas/"+id+"/journal", "").want(200).into(&journalOf)
		found := false
		for _, r := range journalOf.Data {
			found = found || r.Kind == journal.Paused && strings.Contains(string(r.Data), `"reason":"lunch"`) && strings.Contains(string(r.Data), `"actor":"anonymous"`)
		}
		if !found {
			t.Errorf("the journal does not say who paused and why")
		}
	})
}

func TestCancel(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		v, _ := doubtful(x)
		a := x.do("POST", "/v1/sagas/"+v.ID+"/cancel", `{"mode": "compensate", "reason": "wrong customer"}`, header{"Idempotency-Key", "c"}).want(202)
		if got := a.saga(); got.Reason == nil || got.Reason.Code != "cancelled" || got.Reason.Detail != "wrong customer" {
			t.Errorf("reason: %s", a.Body)
		}
		x.do("POST", "/v1/sagas/"+v.ID+"/cancel", `{}`).problem(409, "compensating")
		if again := x.do("POST", "/v1/sagas/"+v.ID+"/cancel", `{"mode": "compensate", "reason": "wrong customer"}`, header{"Idempotency-Key", "c"}).want(202); again.Header.Get(replayHeader) != "true" {
			t.Errorf("not a replay: %v", again.Header)
		}
	})
}

// With If-Match a command applies only to the state that was read.
func TestCommandsIfMatch(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		v, _ := doubtful(x)
		path := "/v1/sagas/" + v.ID
		for _, do := range []string{"cancel", "pause", "compensate"} {
			x.do("POST", path+"/"+do, `{"reason": "r"}`, header{"If-Match", seqTag(v.Seq - 1)}).problem(412, "changed")
			x.do("POST", path+"/"+do, `{"reason": "r"}`, header{"If-Match", `"soon"`}).problem(412, "changed")
		}
		a := x.do("POST", path+"/pause", `{}`, header{"If-Match", seqTag(v.Seq)}).want(202)
		x.do("POST", path+"/resume", `{}`, header{"If-Match", seqTag(v.Seq)}).problem(412, "changed")
		a = x.do("POST", path+"/resume", `{}`, header{"If-Match", a.Header.Get("ETag")}).want(202)
		x.do("POST", path+"/cancel", `{}`, header{"If-Match", seqTag(v.Seq)}).problem(412, "changed")
		x.do("POST", path+"/cancel", `{}`, header{"If-Match", a.Header.Get("ETag")}).want(202)
	})
}

func TestCancelTerminal(t *testing.T) {
	x := newFixture(t)
	x.publish(echoDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "echo"}`, header{"Prefer", "wait=20"}).want(201).saga().ID
	for do, want := range map[string]code{"cancel": "terminal", "pause": "terminal", "resume": "terminal", "compensate": "nothing_to_undo"} {
		if p := x.do("POST", "/v1/sagas/"+id+"/"+do, `{"reason": "r"}`).problem(409, want); p.Saga != id {
			t.Errorf("%s: problem names %q", do, p.Saga)
		}
	}
	x.do("POST", "/v1/sagas/"+id+"/retry", `{"reason": "r"}`).problem(409, "saga_succeeded")
}

// A cancel races the saga's end: the first commit wins, and the caller of a late cancel gets a
// problem.
func TestCancelAgainstCompletion(t *testing.T) {
	x := newFixture(t)
	x.publish(orderDef)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			id := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 1}}`).want(201).saga().ID
			a := x.do("POST", "/v1/sagas/"+id+"/cancel", "")
			end := x.until(id, func(v machine.View) bool { return v.Status.Terminal() })
			switch {
			case a.Status == 202 && end.Status == saga.Succeeded:
				t.Errorf("an acknowledged cancel ended as succeeded")
			case a.Status == 409 && end.Status != saga.Succeeded:
				t.Errorf("a refused cancel ended as %s: %s", end.Status, a.Body)
			case a.Status != 202 && a.Status != 409:
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
	wg.Wait()
}

func TestPatch(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		v, _ := doubtful(x)
		path := "/v1/sagas/" + v.ID
		x.do("PATCH", path, `{"labels": {"a": "1"}}`).problem(428, "precondition_required")
		x.do("PATCH", path, `{}`, header{"If-Match", "*"}).problem(422, "invalid_command")
		x.do("PATCH", path, `{"labels": {"A": "1"}}`, header{"If-Match", "*"}, outside).problem(422, "invalid_command")
		a := x.do("PATCH", path, `{"labels": {"a": "1", "b": "2"}, "budget": "7.00 USD"}`, header{"If-Match", seqTag(v.Seq)}).want(200)
		got := a.saga()
		if d := cmp.Diff(map[string]string{"a": "1", "b": "2"}, got.Labels); d != "" || got.Cost.Budget != "7.00" {
			t.Errorf("%s %s", d, a.Body)
		}
		x.do("PATCH", path, `{"labels": {"a": "3"}}`, header{"If-Match", seqTag(v.Seq)}).problem(412, "changed")
		keyed := []header{{"If-Match", a.Header.Get("ETag")}, {"Idempotency-Key", "patch-" + v.ID}}
		a = x.do("PATCH", path, `{"labels": {"a": "1"}}`, keyed...).want(200)
		if again := x.do("PATCH", path, `{"labels": {"a": "1"}}`, keyed...).want(200); again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("repeated with its key: %v %s", again.Header, again.Body)
		}
		got = x.do("PATCH", path, `{"labels": {"a": null, "c": "3"}}`, header{"If-Match", a.Header.Get("ETag")}).want(200).saga()
		if d := cmp.Diff(map[string]string{"b": "2", "c": "3"}, got.Labels); d != "" {
			t.Error(d)
		}
		x.do("PATCH", path, `{"labels": {`+manyLabels(63)+`}}`, header{"If-Match", "*"}).problem(422, "invalid_command")
		x.do("PATCH", path, `{"labels": {`+manyLabels(62)+`}}`, header{"If-Match", "*"}).want(200) // 64 are allowed
		x.do("PATCH", path, `{"labels": {"b": null, "d": "4"}}`, header{"If-Match", "*"}).want(200)
		x.do("PATCH", path, `{"labels": {"c": "3", "none": null}}`, header{"If-Match", "*"}).want(200)
		x.do("PATCH", path, `{"labels": {"none": null, "c": "5", "e": "6"}}`, header{"If-Match", "*"}).problem(422, "invalid_command")
		x.do("PATCH", path, `{"budget": "0.01 USD"}`, header{"If-Match", "*"}).problem(409, "bad_budget")
		x.do("PATCH", path, `{"budget": {"amount": "8.00"}}`, header{"If-Match", "*"}).want(200)
		x.do("PATCH", path, `{"budget": "8.00 EUR"}`, header{"If-Match", "*"}).problem(409, "bad_budget")
		var found page[machine.View]
		x.do("GET", "/v1/sagas?label.c=3", "").want(200).into(&found)
		if len(found.Data) != 1 || found.Data[0].ID != v.ID {
			t.Errorf("list by the new label: %+v", found)
		}
	})
}

// A saga whose definition has no currency gets a budget only with a currency.
func TestPatchCurrency(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: nap\nsteps: [{id: a, sleep: 1h}]\n")
	v := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga()
	path := "/v1/sagas/" + v.ID
	x.do("PATCH", path, `{"budget": {"amount": "8.00", "currency": "dollars"}}`, header{"If-Match", "*"}, outside).problem(409, "bad_budget")
	if got := x.do("PATCH", path, `{"budget": "8.00 EUR"}`, header{"If-Match", "*"}).want(200).saga(); got.Cost.Currency != "EUR" {
		t.Errorf("cost = %+v", got.Cost)
	}
	x.do("PATCH", path, `{"budget": "8.00 USD"}`, header{"If-Match", "*"}).problem(409, "bad_budget")
}

// Two commands on the same ETag: only one is applied.
func TestResolveConcurrent(t *testing.T) {
	x := newFixture(t)
	v, e := doubtful(x)
	statuses := make([]int, 8)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = x.do("POST", "/v1/sagas/"+v.ID+"/steps/charge/resolve", `{"outcome": "failed", "reason": "no charge"}`, header{"If-Match", `"` + e.ETag + `"`}).Status
		})
	}
	wg.Wait()
	won := 0
	for _, s := range statuses {
		if s == 200 {
			won++
		} else if s != 412 && s != 409 {
			t.Errorf("status %d", s)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions were taken, want 1: %v", won, statuses)
	}
}

func TestRetryEnded(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(orderDef)
		if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/ship/orders"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}}); err != nil {
			t.Fatal(err)
		}
		first := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5.50}, "labels": {"a": "1"}}`, header{"Prefer", "wait=20"}).want(201).saga()
		if first.Status != saga.Compensated {
			t.Fatalf("status %s", first.Status)
		}
		path, key := "/v1/sagas/"+first.ID+"/retry", header{"Idempotency-Key", "again"}
		a := x.do("POST", path, `{"reason": "fixed"}`, key, header{"Prefer", "wait=20"}).want(201)
		second := a.saga()
		if second.ID == first.ID || second.RetryOf != first.ID || second.Status != saga.Succeeded || string(second.Input) != string(first.Input) || second.Labels["a"] != "1" {
			t.Errorf("retry: %s", a.Body)
		}
		if got := a.Header.Get("Location"); got != "/v1/sagas/"+second.ID {
			t.Errorf("Location %q", got)
		}
		again := x.do("POST", path, `{"reason": "fixed"}`, key)
		if again.saga().ID != second.ID || again.Header.Get(replayHeader) != "true" {
			t.Errorf("replay: %d %s", again.Status, again.Body)
		}
		if len(x.world.Ledger().Op("pay", "charge").Effects()) != 2 {
			t.Errorf("the retry must charge again, once")
		}
	})
}

// A retry has the budget of its saga's end, in money and in tokens, including later changes.
func TestRetryBudget(t *testing.T) {
	const def = "saga: nap\nbudget: {amount: 5.00 USD, tokens: 1000}\nsteps: [{id: a, sleep: 1h}]\n"
	for name, tt := range map[string]struct {
		def, start, patch string
		amount            string
		tokens            int64
	}{
		"tokens":            {def, `{}`, `{"tokens": 70}`, "5.00", 70},
		"tokens of a start": {def, `{"tokens": 500}`, `{"tokens": 70}`, "5.00", 70},
		"tokens alone":      {"saga: nap\nsteps: [{id: a, sleep: 1h}]\n", `{"tokens": 500}`, `{"tokens": 70}`, "", 70},
		"money":             {def, `{"tokens": 500}`, `"1.00 USD"`, "1.00", 500},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t)
			x.publish(tt.def)
			id := x.do("POST", "/v1/sagas", `{"definition": "nap", "budget": `+tt.start+`}`).want(201).saga().ID
			x.do("PATCH", "/v1/sagas/"+id, `{"budget": `+tt.patch+`}`, header{"If-Match", "*"}).want(200)
			x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
			x.until(id, is(saga.Compensated))
			again := x.do("POST", "/v1/sagas/"+id+"/retry", `{"reason": "r"}`).want(201).saga()
			if again.Cost.Budget != tt.amount || again.Cost.Tokens.Budget != tt.tokens {
				t.Errorf("the retry has %q and %d tokens, want %q and %d", again.Cost.Budget, again.Cost.Tokens.Budget, tt.amount, tt.tokens)
			}
		})
	}
}

// A child that has ended is kept for its parent, which may still need it.
func TestDeleteChild(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		parent := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		doc, def, err := x.cfg.Catalog.Newest(t.Context(), "nap")
		if err != nil {
			t.Fatal(err)
		}
		data, _, wrong := machine.Begin(def, machine.StartOptions{Version: doc.Version})
		if wrong != nil {
			t.Fatal(wrong)
		}
		child := uuid.Must(uuid.NewV7())
		start := journal.Start{Definition: "nap", Version: doc.Version, SHA256: def.SHA256, Parent: uuid.FromStringOrNil(parent)}
		if err := x.eng.StartAs(t.Context(), child, def, start, data); err != nil {
			t.Fatal(err)
		}
		x.do("POST", "/v1/sagas/"+child.String()+"/cancel", "").want(202)
		x.until(child.String(), is(saga.Compensated))
		x.do("DELETE", "/v1/sagas/"+child.String(), "").problem(409, "parent_live")
		x.do("POST", "/v1/sagas/"+parent+"/cancel", "").want(202)
		x.until(parent, is(saga.Compensated))
		x.do("DELETE", "/v1/sagas/"+child.String(), "").want(204)
	})
}

func TestDelete(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		x.do("DELETE", "/v1/sagas/"+id, "").problem(409, "saga_live")
		x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
		x.until(id, is(saga.Compensated))
		x.do("DELETE", "/v1/sagas/"+id, "").want(204)
		x.do("DELETE", "/v1/sagas/"+id, "").problem(404, "saga_not_found")
		for _, path := range []string{"", "/journal", "/steps", "/steps/rest"} {
			x.do("GET", "/v1/sagas/"+id+path, "").problem(404, "saga_not_found")
		}
		for _, do := range []string{"cancel", "pause", "resume", "retry", "compensate"} {
			x.do("POST", "/v1/sagas/"+id+"/"+do, `{"reason": "r"}`).problem(404, "saga_not_found")
		}
	})
}

func TestSteps(t *testing.T) {
	x := newFixture(t)
	v, _ := doubtful(x)
	var list page[machine.StepView]
	x.do("GET", "/v1/sagas/"+v.ID+"/steps", "").want(200).into(&list)
	var got []string
	for _, s := range list.Data {
		got = append(got, s.Path+" "+string(s.Status))
		var one machine.StepView
		x.do("GET", "/v1/sagas/"+v.ID+"/steps/"+url.PathEscape(s.Path), "").want(200).into(&one)
		if d := cmp.Diff(s, one); d != "" {
			t.Error(d)
		}
	}
	if d := cmp.Diff([]string{"label succeeded", "charge in_doubt", "ship pending"}, got); d != "" {
		t.Error(d)
	}
	if p := x.do("GET", "/v1/sagas/"+v.ID+"/steps/"+url.PathEscape("pages[3].fetch/x"), "").problem(404, "step_not_found"); p.Step != "pages[3].fetch/x" {
		t.Errorf("step %q", p.Step)
	}
}

// A command that no node reads in time is accepted and applied later. A cancel is not accepted,
// because its 202 would promise more than is certain.
func TestCommandNotReadInTime(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	cfg := x.cfg
	cfg.Limits.Command = 1
	cfg.Engine = silent{cfg.Engine}
	y := *x
	y.url = serve(t, cfg)
	before := x.dump()
	if v := y.do("POST", "/v1/sagas/"+id+"/pause", "").want(202).saga(); v.Status != saga.Waiting {
		t.Errorf("status %s", v.Status)
	}
	if d := cmp.Diff(before, x.dump()); d != "" {
		t.Error(d)
	}
	y.do("POST", "/v1/sagas/"+id+"/cancel", "").problem(503, "unavailable")
}

// rival is an engine that runs before and after around each message, or fails to send it.
type rival struct {
	Engine
	before, after func()
	fails         error
}

func (r rival) Send(ctx context.Context, m journal.Message) error {
	if r.fails != nil {
		return r.fails
	}
	r.before()
	if err := r.Engine.Send(ctx, m); err != nil {
		return err
	}
	if r.after != nil {
		r.after()
	}
	return nil
}

// overtaken is the fixture with another server, whose engine is r.
func overtaken(t *testing.T, x *fixture, r rival) *fixture {
	cfg, y := x.cfg, *x
	r.Engine = cfg.Engine
	cfg.Engine = r
	y.url = serve(t, cfg)
	return &y
}

// A command is refused if another command made it invalid before the saga read it, even if a third
// command was applied since.
func TestCommandOvertaken(t *testing.T) {
	for _, tt := range []struct {
		do, before, after string
		paused            bool
		want              code
	}{
		{"pause", "pause", "resume", false, "paused"},
		{"resume", "resume", "", true, "not_paused"},
	} {
		t.Run(tt.do, func(t *testing.T) {
			x := newFixture(t)
			x.publish(sleepDef)
			path := "/v1/sagas/" + x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID + "/"
			if tt.paused {
				x.do("POST", path+"pause", "").want(202)
			}
			r := rival{before: func() { x.do("POST", path+tt.before, "").want(202) }}
			if tt.after != "" {
				r.after = func() { x.do("POST", path+tt.after, "").want(202) }
			}
			overtaken(t, x, r).do("POST", path+tt.do, "").problem(409, tt.want)
		})
	}
}

// The budget of a child saga is at most what its parent has reserved for it. A retry of the child,
// which has no parent, has the budget of the definition.
func TestChildBudget(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: kid\nbudget: 0.80 USD\nsteps:\n  - {id: wait, sleep: 1h}\n")
	doc, def, err := x.cfg.Catalog.Newest(t.Context(), "kid")
	if err != nil {
		t.Fatal(err)
	}
	part := &saga.BudgetData{Amount: "0.50", Currency: "USD"}
	parent, child := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: doc.Version, Budget: machine.WithinBudget(def, part), Parent: &saga.ParentData{Saga: parent.String(), Path: "kid", Depth: 1, Budget: part}})
	if wrong != nil {
		t.Fatal(wrong)
	}
	start := journal.Start{Definition: "kid", Version: doc.Version, SHA256: def.SHA256}
	if err := x.eng.StartAs(t.Context(), child, def, start, data); err != nil {
		t.Fatal(err)
	}
	path := "/v1/sagas/" + child.String()
	for budget, want := range map[string]code{`"0.60 USD"`: "over_parents_budget", `{"tokens": 100}`: "", `"0.40 USD"`: "", `"0.50 USD"`: ""} {
		a := x.do("PATCH", path, `{"budget": `+budget+`}`, header{"If-Match", "*"})
		if want != "" {
			a.problem(409, want)
		} else {
			a.want(200)
		}
	}
	x.do("POST", path+"/cancel", "").want(202)
	x.until(child.String(), is(saga.Compensated))
	again := x.do("POST", path+"/retry", `{"reason": "alone"}`).want(201).saga()
	if again.Cost.Budget != "0.80" {
		t.Errorf("the retry's budget is %s", again.Cost.Budget)
	}
}
