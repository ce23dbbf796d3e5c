package api

import (
	"strings"
	"testing"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// The third of three requests to a model is refused for a while.
const cooldownDef = `saga: cooldown
defaults: {retry: {attempts: 2, initial: 10ms}, on_error: hold, hold_for: HOLD}
steps:
  - {id: one, llm: {model: gpt-5-mini, prompt: "one"}}
  - {id: two, llm: {model: gpt-5-mini, prompt: "two ${steps.one.output.text}"}}
  - {id: three, llm: {model: cooling, prompt: "three ${steps.two.output.text}"}}
`

// cool starts a saga that waits until the cooldown is over.
func cool(x *fixture, holdFor string) string {
	x.cooling.Store(true)
	x.publish(strings.Replace(cooldownDef, "HOLD", holdFor, 1))
	id := x.do("POST", "/v1/sagas", `{"definition": "cooldown"}`).want(201).saga().ID
	x.until(id, onHold)
	return id
}

func onHold(v machine.View) bool { return v.Status == saga.Waiting && len(v.Open) == 1 }

// billedOnce checks that each step's request was billed once.
func billedOnce(x *fixture) {
	x.t.Helper()
	keys := make(map[string]int)
	for _, b := range x.model.Bills() {
		if b.Billed {
			keys[b.Key]++
		}
	}
	if len(keys) != 3 {
		x.t.Errorf("%d keys were billed, want 3", len(keys))
	}
	for key, n := range keys {
		if n != 1 {
			x.t.Errorf("key %s was billed %d times", key, n)
		}
	}
}

// A cooldown of a provider costs time and no work: a person resumes the saga where it stood.
func TestHoldResumed(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		id := cool(x, "1h")
		var inbox page[struct{ Path, Kind string }]
		x.do("GET", "/v1/inbox?kind=exhausted", "").want(200).into(&inbox)
		if len(inbox.Data) != 1 || inbox.Data[0].Path != "three" {
			t.Fatalf("the inbox has %+v", inbox.Data)
		}
		if v := x.do("GET", "/v1/sagas/"+id, "").want(200).saga(); v.WakeAt == nil {
			t.Error("nothing says when it tries again")
		}
		x.do("POST", "/v1/sagas/"+id+"/resume", `{"reason": "too early"}`).want(202)
		x.until(id, onHold)
		x.cooling.Store(false)
		x.do("POST", "/v1/sagas/"+id+"/resume", `{"reason": "the cooldown is over"}`).want(202)
		x.until(id, is(saga.Succeeded))
		x.do("POST", "/v1/sagas/"+id+"/resume", `{}`).problem(409, "terminal")
		billedOnce(x)
	})
}

// It continues by itself after hold_for.
func TestHoldFor(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		id := cool(x, "1s")
		x.cooling.Store(false)
		x.until(id, is(saga.Succeeded))
		var list page[journal.Record]
		x.do("GET", "/v1/sagas/"+id+"/journal?limit=1000", "").want(200).into(&list)
		woke := false
		for _, r := range list.Data {
			woke = woke || r.Kind == journal.Woke && r.Path == "three"
		}
		if !woke {
			t.Error("no timer has fired")
		}
		billedOnce(x)
	})
}

// A saga on hold is cancelled like any other, and a person may resolve its step.
func TestHoldEnds(t *testing.T) {
	x := newFixture(t)
	id := cool(x, "1h")
	x.do("POST", "/v1/sagas/"+id+"/cancel", `{"reason": "nobody needs it"}`).want(202)
	x.until(id, func(v machine.View) bool { return v.Status.Terminal() })
	id = cool(x, "1h")
	v := x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
	x.do("POST", "/v1/sagas/"+id+"/steps/three/resolve", `{"outcome": "succeeded", "output": {"text": "by hand"}, "reason": "written"}`, header{"If-Match", seqTag(v.Seq)}).want(200)
	x.until(id, is(saga.Succeeded))
}
