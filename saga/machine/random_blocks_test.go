package machine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const mixed = `
saga: mixed
timeout: 3h
budget: {amount: 1.00 USD, on_exceed: ask}
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/a", body: {n: "${input.n}"}, compensate: {http: "DELETE http://w/a/${output.id}"}}
  - id: wide
    on_error: continue
    parallel:
      - {id: t, task: work, in_doubt: retry, cost: 0.30 USD, retry: 3, compensate: {http: "DELETE http://w/t/${output.id}"}}
      - {id: ok, approval: {title: "May it?"}, timeout: 1h}
      - {id: sig, signal: go, timeout: 30m}
      - id: kids
        foreach: [x, y, z]
        max_parallel: 2
        on_item_error: collect
        steps:
          - {id: look, http: "GET http://w/look"}
          - {id: kid, run: child, retry: 2}
          - {id: u, http: "PUT http://w/u", body: {}, cost: 0.40 USD, in_doubt: {verify: {http: "GET http://w/u?key=${key}&n=${steps.look.output.id}", found: result.body.found}, otherwise: ask}, compensate: {http: "DELETE http://w/u?key=${key}&n=${steps.look.output.id}"}}
  - id: loop
    repeat: {until: "steps.g.output.ok ?? false", max: 3}
    steps:
      - id: pair
        parallel:
          - {id: g, http: "POST http://w/g", body: {before: "${len(history)}"}, retry: 2, in_doubt: fail, compensate: {http: "DELETE http://w/g?n=${len(history)}&i=${output.id}"}}
          - {id: ok2, approval: {title: "And this?"}, timeout: 1h}
          - {id: t2, task: more, in_doubt: ask, retry: 2, compensate: {task: unmore, input: "${output.id}"}}
  - {id: pay, http: "POST http://w/pay", body: {}, in_doubt: ask, pivot: true}
  - id: both
    parallel:
      - {id: ship, http: "POST http://w/ship", body: {}, retry: 2, in_doubt: ask}
      - {id: kid2, run: child, retry: 2}
finally:
  - id: tell
    parallel:
      - {id: one, task: tell, retry: 1}
      - {id: two, http: "POST http://w/tell", body: {s: "${saga.status}"}, retry: 1}
`

func TestMixed(t *testing.T) {
	def, errs := dsl.Parse("definition", []byte(mixed), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	reached := map[saga.Status]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{t: rt, def: def, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), inboxes: make(map[moment]string)}
		nice := rapid.IntRange(0, 2).Draw(rt, "nice") == 0
		data, _, _ := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`{"n":1}`)})
		h.m = machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))
		h.write(h.m.Start(data))
		for range rapid.IntRange(50, 600).Draw(rt, "length") {
			if rapid.IntRange(0, 5).Draw(rt, "people?") == 0 {
				var c saga.Command
				if rapid.Bool().Draw(rt, "sig") {
					c = saga.Command{Do: saga.Signal{Name: "go", Data: json.RawMessage(`1`)}}
				}
				for _, e := range h.m.Inbox() {
					if e.Kind == saga.InboxApproval && rapid.Bool().Draw(rt, "this") {
						yes, no := saga.Approve{Shown: e.ShownHash}, saga.Reject{Shown: e.ShownHash}
						c = saga.Command{Do: rapid.SampledFrom([]saga.Operation{yes, yes, yes, no}).Draw(rt, "how"), Path: e.Path, Actor: "x", Trusted: true}
					}
				}
				if c.Do != nil {
					h.message++
					if r, err := h.m.Validate(uuid.NewV5(h.m.ID(), fmt.Sprint(h.message)), c); err == nil {
						h.write(r)
					}
				}
			}
			was := h.kindly
			h.kindly = nice && rapid.IntRange(0, 19).Draw(rt, "kind") != 0
			on := h.step()
			h.kindly = was
			if s := h.m.Status(); s == saga.Stuck && len(h.m.Inbox()) == 0 && h.open == nil && len(h.m.Decide()) == 0 {
				rt.Fatalf("stuck without an entry\n%s", h.describe())
			}
			if h.m.Status().Terminal() && len(h.open) > 0 {
				rt.Fatalf("ended with %v in flight\n%s", h.open, h.describe())
			}
			if !on {
				break
			}
		}
		h.check()
		reached[h.m.Status()]++
		if h.m.Status() != saga.Compensated {
			return
		}
		// Nothing that may have happened remains.
		views, err := machine.Steps(h.m, h.records)
		if err != nil {
			rt.Fatal(err)
		}
		for _, v := range views {
			if s := def.Step(v.Path); s != nil && s.Compensate != nil && (v.Status == machine.StepSucceeded || v.Status == machine.StepInDoubt) {
				rt.Fatalf("compensated, but %s is %s\n%s", v.Path, v.Status, h.describe())
			}
		}
	})
	t.Log(reached)
}
