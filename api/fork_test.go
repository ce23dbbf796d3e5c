package api

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/examples/world"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/compare"
	"recourse/saga/machine"
)

const forkDef = `saga: order
input: {amount: number}
steps:
  - {id: quote, http: "GET %[1]s/things/a", expect: {status: 404}, output: {code: "${result.status}"}}
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
  - {id: order, http: POST %[1]s/ship/orders, body: {}, compensate: {http: "POST %[1]s/ship/orders/${output.id}/cancel"}}
  - {id: charge, http: POST %[1]s/pay/charges, body: {amount: "${input.amount}", label: "${steps.label.output.id}"}, compensate: {http: "POST %[1]s/pay/charges/${output.id}/refund"}}
output: {label: "${steps.label.output.id}", charge: "${steps.charge.output.id}"}
`

// ordered runs a saga to its end, and returns it and the seq of a step's outcome.
func ordered(x *fixture, step string) (machine.View, int64) {
	x.t.Helper()
	x.publish(fmt.Sprintf(forkDef, x.world.URL))
	v := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5}}`, header{"Prefer", "wait=20"}).want(201).saga()
	if v.Status != saga.Succeeded {
		x.t.Fatalf("%+v", v)
	}
	return v, outcomeOf(x, v.ID, step)
}

// outcomeOf returns the seq of the outcome of a step.
func outcomeOf(x *fixture, id, step string) int64 {
	x.t.Helper()
	for _, r := range x.records(id) {
		if r.Kind == journal.Outcome && r.Path == step {
			return r.Seq
		}
	}
	x.t.Fatalf("%s has no outcome", step)
	return 0
}

// approveOnly approves the only request that waits for it.
func approveOnly(x *fixture, id, step string) {
	x.t.Helper()
	e := waitsFor(x, id, step, "")
	if !strings.Contains(e.Title, "Fork of ") {
		x.t.Fatalf("inbox %+v", e)
	}
	approveShown(x, id, e)
}

// waitsFor waits until nothing but an approval of a step is open, and returns it; not the one that
// was shown before.
func waitsFor(x *fixture, id, step, before string) inboxEntry {
	x.t.Helper()
	for range 3000 {
		var inbox page[inboxEntry]
		x.do("GET", "/v1/inbox?saga="+id, "").want(200).into(&inbox)
		if list := inbox.Data; len(list) == 1 && list[0].Path == step && list[0].Kind == saga.InboxApproval && list[0].ShownHash != before {
			return list[0]
		}
		<-time.After(10 * time.Millisecond)
	}
	x.t.Fatalf("the approval of %s is not what saga %s waits for", step, id)
	return inboxEntry{}
}

func approveShown(x *fixture, id string, e inboxEntry) {
	x.t.Helper()
	x.do("POST", "/v1/sagas/"+id+"/steps/"+e.Path+"/approve", `{"shown": "`+e.ShownHash+`"}`).want(200)
}

// A fork sends nothing that has an effect before a person approves it, uses keys of its own, and
// undoes only what it has done itself.
func TestForkHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		was, at := ordered(x, "label")
		fork := x.do("POST", "/v1/sagas/"+was.ID+"/fork", fmt.Sprintf(`{"at": %d, "input": {"amount": 7}}`, at)).want(201).saga()
		if fork.ForkedFrom != was.ID || fork.ForkedAt != at || fork.Effects != saga.HoldEffects {
			t.Errorf("%+v", fork)
		}
		approveOnly(x, fork.ID, "order")
		x.until(fork.ID, func(v machine.View) bool { return len(v.Open) == 1 })
		if d := cmp.Diff([]int{1, 1, 2, 1}, requested(x, "things show", "shipping label", "ship order", "pay charge")); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
		sent := x.world.Ledger().Op("ship", "order").Requests()
		if want := idempotency.Key(uuid.FromStringOrNil(fork.ID), "order", journal.Do, 0); sent[1].Key != want {
			t.Errorf("key %s, not %s", sent[1].Key, want)
		}
		x.do("POST", "/v1/sagas/"+fork.ID+"/steps/charge/reject", `{"comment": "enough"}`).want(200)
		x.until(fork.ID, is(saga.Compensated))
		live := x.world.Ledger().Live()
		if len(live) != 3 || slices.ContainsFunc(live, func(e world.Entry) bool { return e.Key == sent[1].Key }) {
			t.Errorf("effects that remain: %+v", live)
		}
		var steps page[machine.StepView]
		x.do("GET", "/v1/sagas/"+fork.ID+"/steps", "").want(200).into(&steps)
		if s := steps.Data[1]; s.ReusedFrom != was.ID || s.Status != machine.StepSucceeded || len(s.Attempts) != 0 {
			t.Errorf("label: %+v", s)
		}
		x.do("POST", "/v1/sagas/"+fork.ID+"/retry", `{"reason": "once more"}`).problem(409, "is_fork")
		x.do("POST", "/v1/sagas/"+fork.ID+"/retry", `{"from": "order", "reason": "once more"}`).problem(409, "is_fork")
		if v := x.do("GET", "/v1/sagas/"+was.ID, "").want(200).saga(); v.Status != saga.Succeeded || v.Seq != was.Seq {
			t.Errorf("the original has changed: %+v", v)
		}
	})
}

// A fork whose steps have stubs sends nothing.
func TestForkStubs(t *testing.T) {
	x := newFixture(t)
	was, _ := ordered(x, "label")
	path := "/v1/sagas/" + was.ID + "/fork"
	fork := func(body string) machine.View {
		return x.do("POST", path, body, header{"Prefer", "wait=20"}).want(201).saga()
	}
	if v := fork(`{"at": 1, "effects": "stub"}`); v.Status != saga.Succeeded || string(v.Output) != string(was.Output) {
		t.Errorf("as recorded: %+v", v)
	}
	v := fork(`{"at": 1, "effects": "stub", "stubs": {"charge": {"error": {"code": "declined", "title": "the card was declined"}}}}`)
	if v.Status != saga.Compensated || v.Reason.Error != "declined" {
		t.Errorf("a failure: %+v", v)
	}
	v = fork(fmt.Sprintf(`{"at": %d, "effects": "stub", "stubs": {"label": {"output": {"id": "other"}}}, "reason": "what if it had another id"}`, outcomeOf(x, was.ID, "label")))
	if v.Status != saga.Succeeded || !strings.Contains(string(v.Output), `"label":"other"`) {
		t.Errorf("another output: %+v", v)
	}
	if d := cmp.Diff([]int{1, 1, 1}, requested(x, "shipping label", "ship order", "pay charge")); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	x.publish(fmt.Sprintf("saga: settled\nsteps:\n  - {id: charge, http: POST %s/pay/charges, body: {amount: 5}, in_doubt: ask, compensate: none}\n", x.world.URL))
	if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		t.Fatal(err)
	}
	settled := x.do("POST", "/v1/sagas", `{"definition": "settled"}`).want(201).saga()
	stuck := x.until(settled.ID, is(saga.Stuck))
	x.do("POST", "/v1/sagas/"+settled.ID+"/steps/charge/resolve", `{"outcome": "succeeded", "output": {"id": "c1"}, "reason": "looked"}`, header{"If-Match", fmt.Sprintf(`"%d"`, stuck.Seq)}).want(200)
	x.until(settled.ID, is(saga.Succeeded))
	if v := x.do("POST", "/v1/sagas/"+settled.ID+"/fork", `{"at": 1, "effects": "stub"}`, header{"Prefer", "wait=20"}).want(201).saga(); v.Status != saga.Succeeded || string(v.Output) != `{"id":"c1"}` {
		t.Errorf("as a person has found: %+v", v)
	}
	if n := requested(x, "things show")[0]; n != 3 {
		t.Errorf("%d reads, not 3: one for each run of the step", n)
	}
}

// A fork that sends everything by itself needs an operator and the end of the original.
func TestForkReal(t *testing.T) {
	x := newFixture(t)
	was, at := ordered(x, "order")
	admin, client := keyOf(x, "ann", "admin"), keyOf(x, "carl", "client")
	path, body := "/v1/sagas/"+was.ID+"/fork", fmt.Sprintf(`{"at": %d, "effects": "real"}`, at)
	x.do("POST", path, body, client).problem(403, "forbidden")
	first := x.do("POST", path, body, admin, header{"Idempotency-Key", "a"}, header{"Prefer", "wait=20"}).want(201).saga()
	if first.Status != saga.Succeeded || len(x.world.Ledger().Live()) != 4 {
		t.Errorf("%+v, %d effects", first, len(x.world.Ledger().Live()))
	}
	again := x.do("POST", path, body, admin, header{"Idempotency-Key", "a"}).want(200)
	if again.saga().ID != first.ID || again.Header.Get(replayHeader) != "true" {
		t.Errorf("again: %s", again.Body)
	}
}

func TestForkRefused(t *testing.T) {
	x := newFixture(t)
	was, at := ordered(x, "label")
	path := "/v1/sagas/" + was.ID + "/fork"
	for body, pointer := range map[string]string{
		`{"at": 999}`:                           "/at",
		fmt.Sprintf(`{"at": %d}`, was.Seq):      "/at",
		`{"input": {"amount": "many"}}`:         "/input/amount",
		`{"stubs": {"nothing": {"output": 1}}}`: "/stubs/nothing",
		`{"stubs": {"charge": {}}}`:             "/stubs/charge",
		fmt.Sprintf(`{"at": %d, "stubs": {"label": {"output": {"id": "x"}}}}`, at):                                               "/reason",
		fmt.Sprintf(`{"at": %d, "stubs": {"label": {"error": {"code": "a", "title": "b"}}}, "reason": "what if it failed"}`, at): "/stubs/label",
	} {
		p := x.do("POST", path, body).problem(422, "invalid_fork")
		if !slices.ContainsFunc(p.Errors, func(f saga.Finding) bool { return f.Pointer == pointer }) {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	x.publish("saga: long\nsteps:\n  - {id: wait, sleep: 1h}\n")
	live := x.do("POST", "/v1/sagas", `{"definition": "long"}`).want(201).saga()
	x.until(live.ID, is(saga.Waiting))
	x.do("POST", "/v1/sagas/"+live.ID+"/fork", `{"effects": "real"}`).problem(409, "saga_live")
	x.do("POST", "/v1/sagas/"+live.ID+"/fork", `{}`).want(201)
}

// A fork of a session has the answers of the calls that had one, and holds new ones back.
func TestForkSession(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		one := a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
		at := outcomeOf(x, a.id, one.Path)
		a.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`)
		a.do("POST", "/commit", `{}`).want(200)

		fork := x.do("POST", "/v1/sessions/"+a.id+"/fork", fmt.Sprintf(`{"at": %d}`, at)).want(201).saga()
		b := &agent{x: x, id: fork.ID, secret: NewSecret()}
		b.attach("").want(200)
		if v := b.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`); !v.Replayed || string(v.Output) != string(one.Output) || v.Key != one.Key {
			t.Errorf("as recorded: %+v", v)
		}
		var held machine.CallView
		b.do("POST", "/calls", `{"action": "charge", "input": {"order": "B", "amount": 10}, "wait": "100ms"}`).want(202).into(&held)
		if held.WaitsFor != "approval" || len(x.world.Ledger().Live()) != 2 {
			t.Errorf("held back: %+v, %d effects", held, len(x.world.Ledger().Live()))
		}
		var diff compare.Result
		x.do("GET", "/v1/sessions/"+a.id+"/compare/"+fork.ID, "").want(200).into(&diff)
		if diff.Count[compare.Same] != 1 || len(diff.Steps) != 2 {
			t.Errorf("compared: %+v", diff)
		}
		approveOnly(x, fork.ID, held.Path)
		x.until(fork.ID, func(v machine.View) bool { return len(v.Open) == 0 })
		b.do("POST", "/calls/"+one.Path+"/undo", "").problem(409, "nothing_to_undo")
		b.do("POST", "/steps", `{"id": "file", "effect": "undoable"}`).problem(409, "fork_holds")
		b.do("POST", "/abort", `{"reason": "it was a trial"}`).want(202)
		x.until(fork.ID, is(saga.Compensated))
		if live := x.world.Ledger().Live(); len(live) != 2 {
			t.Errorf("effects that remain: %+v", live)
		}

		fork = x.do("POST", "/v1/sessions/"+a.id+"/fork", fmt.Sprintf(`{"at": %d, "effects": "stub"}`, at)).want(201).saga()
		c := &agent{x: x, id: fork.ID, secret: NewSecret()}
		c.attach("").want(200)
		c.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`)
		c.do("POST", "/calls", `{"action": "charge", "input": {"order": "C", "amount": 10}}`).problem(422, "no_stub")
		if live := x.world.Ledger().Live(); len(live) != 2 {
			t.Errorf("effects that remain: %+v", live)
		}
	})
}

// A fork of a session gets the recorded answers of models, byte by byte, and is billed only for
// requests that the original had not made by then.
func TestForkModels(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		path, body := modelRequests[0].path, fmt.Sprintf(modelRequests[0].body, "")
		one := a.ask(path, body).want(200)
		at := outcomeOf(x, a.id, "llm[0]")
		a.ask(path, body).want(200)
		billed := len(x.model.Bills())

		fork := x.do("POST", "/v1/sessions/"+a.id+"/fork", fmt.Sprintf(`{"at": %d}`, at)).want(201).saga()
		b := &agent{x: x, id: fork.ID, secret: NewSecret()}
		b.attach("").want(200)
		if r := b.ask(path, body).want(200); !bytes.Equal(r.Body, one.Body) || r.Header.Get("X-Recourse-Replayed") != "true" {
			t.Errorf("as recorded: %s\nwant %s", r.Body, one.Body)
		}
		if n := len(x.model.Bills()); n != billed {
			t.Errorf("%d more requests were billed", n-billed)
		}
		if r := b.ask(path, body).want(200); bytes.Equal(r.Body, one.Body) || r.Header.Get("X-Recourse-Step") != "llm[1]" {
			t.Errorf("a new answer: %s, %v", r.Body, r.Header)
		}
		if n := len(x.model.Bills()); n != billed+1 {
			t.Errorf("%d more requests were billed, not 1", n-billed)
		}
		var ask askView
		x.do("GET", "/v1/sessions/"+fork.ID+"/asks/llm[0]", "").want(200).into(&ask)
		if ask.Answer == nil || ask.Answer.Text != string(one.Body) {
			t.Errorf("%+v", ask)
		}
		var diff compare.Result
		x.do("GET", "/v1/sessions/"+a.id+"/compare/"+fork.ID, "").want(200).into(&diff)
		if diff.Count[compare.Same] != 1 || len(diff.Steps) != 2 {
			t.Errorf("compared: %+v", diff)
		}
	})
}

// A fork whose original's contents are erased asks the models again, also through a node that does
// not run it: what it needs of the prompts is stored for the fork.
func TestForkModelsErased(t *testing.T) {
	for _, store := range []string{"memory", "postgres"} { // SQLite has one node
		x := newFixtureOn(t, stores[store](t))
		y := otherNode(t, x)
		a := openAgent(t, x, `, "on_divergence": "stop"`)
		path, body := modelRequests[0].path, fmt.Sprintf(modelRequests[0].body, "")
		a.ask(path, body).want(200)
		fork := x.do("POST", "/v1/sessions/"+a.id+"/fork", fmt.Sprintf(`{"at": %d}`, outcomeOf(x, a.id, "llm[0]"))).want(201).saga()
		a.do("POST", "/commit", "").want(200)
		x.do("DELETE", "/v1/sessions/"+a.id+"/content", "").want(204)

		b := &agent{x: x, id: fork.ID, secret: NewSecret()}
		b.attach("").want(200)
		one := b.ask(path, body).want(200)
		if one.Header.Get("X-Recourse-Replayed") != "" || one.Header.Get("X-Recourse-Step") != "llm[1]" || len(x.model.Bills()) != 2 {
			t.Errorf("the request of the original: %v, %d bills", one.Header, len(x.model.Bills()))
		}
		for _, node := range []*fixture{x, y} {
			c := *b
			c.x = node
			longer := fmt.Sprintf(`%s}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": %q}]`, ticket, node.url)
			if r := c.ask(path, strings.Replace(body, ticket+"}]", longer, 1)); r.Status != 200 {
				t.Errorf("a new request with the tools and the beginning of one of the original: %d %s", r.Status, r.Body)
			}
		}
		b.next()
		if again := b.ask(path, body).want(200); !bytes.Equal(again.Body, one.Body) || again.Header.Get("X-Recourse-Replayed") != "true" {
			t.Errorf("in a later life: %s, want %s", again.Body, one.Body)
		}
	}
}

// A fork does not use the original's keys, not even those of a template: the service would answer
// with the original's effect, and the fork would undo that.
func TestForkHasOwnKeys(t *testing.T) {
	x := newFixture(t)
	x.publish(fmt.Sprintf(`saga: keyed
steps:
  - id: charge
    http: POST %[1]s/pay/charges
    body: {amount: 5}
    in_doubt: retry
    idempotency: {key: "order-4711-${saga.labels.n}"}
    compensate: {http: "POST %[1]s/pay/charges/${output.id}/refund", idempotency: {key: "refund-${output.id}"}}
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
`, x.world.URL))
	was := x.do("POST", "/v1/sagas", `{"definition": "keyed", "labels": {"n": "1"}}`, header{"Prefer", "wait=20"}).want(201).saga()
	refuseOnce(x, "/shipping/labels")
	fork := x.do("POST", "/v1/sagas/"+was.ID+"/fork", `{"at": 1, "effects": "real"}`, header{"Prefer", "wait=20"}).want(201).saga()
	charges := x.world.Ledger().Op("pay", "charge").Requests()
	if was.Status != saga.Succeeded || fork.Status != saga.Compensated || len(charges) != 2 || charges[0].Key != "order-4711-1" || charges[1].Key == charges[0].Key {
		t.Errorf("%s, %s, charges %+v", was.Status, fork.Status, charges)
	}
	if live := x.world.Ledger().Live(); len(live) != 2 || live[0].Key != charges[0].Key {
		t.Errorf("effects that remain: %+v", live)
	}
}

// If a saga goes back to an approval because an answer has changed, a step that was skipped in the
// original and now runs is held back like every other one.
func TestForkHoldsWhatRunsAgain(t *testing.T) {
	x := newFixture(t)
	x.publish(strings.Replace(freshDef, "  - id: nap\n", `  - id: bonus
    when: steps.count.output.n > 0
    http: POST ${vars.pay}/charges
    in_doubt: retry
    body: {amount: 7}
    compensate: none
  - id: nap
`, 1))
	v, entries := asked(x, `{"definition": "fresh"}`, 1)
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, entries[0].ShownHash)).want(200)
	v = x.until(v.ID, is(saga.Succeeded))
	var at int64
	for _, r := range x.records(v.ID) {
		if r.Kind == journal.Skipped {
			at = r.Seq
		}
	}
	elsewhere(x)
	sent := len(x.world.Ledger().Op("pay", "charge").Requests())
	fork := x.do("POST", "/v1/sagas/"+v.ID+"/fork", fmt.Sprintf(`{"at": %d}`, at)).want(201).saga()
	approveOnly(x, fork.ID, "pay")
	approveShown(x, fork.ID, waitsFor(x, fork.ID, "ok", ""))
	waitsFor(x, fork.ID, "bonus", "")
	if n := len(x.world.Ledger().Op("pay", "charge").Requests()); n != sent {
		t.Errorf("%d charges were sent without an approval", n-sent)
	}
}

// The answer of a read that a fork was given is not asked for again.
func TestForkKeepsAGivenAnswer(t *testing.T) {
	x := newFixture(t)
	x.publish(freshDef)
	v, entries := asked(x, `{"definition": "fresh"}`, 1)
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, entries[0].ShownHash)).want(200)
	v = x.until(v.ID, is(saga.Succeeded))
	fork := x.do("POST", "/v1/sagas/"+v.ID+"/fork", fmt.Sprintf(`{"at": %d, "stubs": {"double": {"output": 8}, "count": {"output": {"n": 4}}}, "reason": "what if"}`, outcomeOf(x, v.ID, "count"))).want(201).saga()
	approveShown(x, fork.ID, waitsFor(x, fork.ID, "ok", ""))
	pay := waitsFor(x, fork.ID, "pay", "")
	<-time.After(1100 * time.Millisecond) // the answer of count is too old now
	approveShown(x, fork.ID, pay)
	if v := x.until(fork.ID, func(v machine.View) bool { return len(v.Open) == 1 || v.Status.Terminal() }); v.Status != saga.Succeeded {
		t.Errorf("%+v", v)
	}
}

// With stubs, a read that a compensation belongs to needs a stub, and nothing of a fork is undone.
// A fork that holds back what it sends undoes nothing for a step that sent nothing.
func TestForkSendsNoCompensation(t *testing.T) {
	x := newFixture(t)
	x.publish(fmt.Sprintf(`saga: odd
steps:
  - {id: seat, http: "GET %[1]s/pay/charges?idempotency_key=x", compensate: {http: "DELETE %[1]s/things/a", in_doubt: retry}}
  - {id: note, set: 1, compensate: {http: "DELETE %[1]s/things/b", in_doubt: retry}}
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void"}}
`, x.world.URL))
	was := x.do("POST", "/v1/sagas", `{"definition": "odd"}`, header{"Prefer", "wait=20"}).want(201).saga()
	path := "/v1/sagas/" + was.ID + "/fork"
	v := x.do("POST", path, `{"at": 1, "effects": "stub", "stubs": {"label": {"error": {"code": "no", "title": "no"}}}}`, header{"Prefer", "wait=20"}).want(201).saga()
	if v.Status != saga.Compensated || v.Reason.Error != "no" {
		t.Errorf("%+v", v)
	}
	held := x.do("POST", path, `{"at": 1}`).want(201).saga()
	approveOnly(x, held.ID, "seat")
	waitsFor(x, held.ID, "label", "")
	x.do("POST", "/v1/sagas/"+held.ID+"/steps/label/reject", `{"comment": "no"}`).want(200)
	x.until(held.ID, is(saga.Compensated))
	if d := cmp.Diff([]int{2, 1, 1}, []int{len(x.world.Ledger().Op("pay", "find").Requests()), len(x.world.Ledger().Op("things", "delete").Requests()), len(x.world.Ledger().Op("shipping", "label").Requests())}); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}

// What is published is what a person has approved: if the event has changed since, it is asked
// again. A step that a person has rejected has no output.
func TestForkApprovesTheEvent(t *testing.T) {
	x := newFixture(t)
	x.publish(fmt.Sprintf(`saga: told
steps:
  - {id: book, http: POST %[1]s/things, body: {}, in_doubt: retry, compensate: none, on_error: continue}
  - {id: after, when: steps.book.output != null, set: 1}
  - {id: tell, emit: com.shop.told, data: {team: "${saga.labels.team}"}}
  - {id: nap, sleep: 1h}
`, x.world.URL))
	was := x.do("POST", "/v1/sagas", `{"definition": "told", "labels": {"team": "a"}}`).want(201).saga()
	x.until(was.ID, is(saga.Waiting))
	fork := x.do("POST", "/v1/sagas/"+was.ID+"/fork", `{"at": 1}`).want(201).saga()
	x.until(fork.ID, func(v machine.View) bool { return len(v.Open) == 1 })
	x.do("POST", "/v1/sagas/"+fork.ID+"/steps/book/reject", `{"comment": "no"}`).want(200)
	e := waitsFor(x, fork.ID, "tell", "")
	x.do("PATCH", "/v1/sagas/"+fork.ID, `{"labels": {"team": "b"}}`, header{"If-Match", "*"}).want(200)
	approveShown(x, fork.ID, e)
	again := waitsFor(x, fork.ID, "tell", e.ShownHash)
	if !strings.Contains(string(again.Shown), `"team":"b"`) {
		t.Errorf("%s, not asked again: %s", e.Shown, again.Shown)
	}
	approveShown(x, fork.ID, again)
	x.until(fork.ID, func(v machine.View) bool { return v.Status == saga.Waiting && len(v.Open) == 0 })
	var steps page[machine.StepView]
	x.do("GET", "/v1/sagas/"+fork.ID+"/steps", "").want(200).into(&steps)
	for _, s := range steps.Data {
		if s.Path == "after" && s.Status != machine.StepSkipped {
			t.Errorf("%+v", s)
		}
	}
}
