package machine_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
	"recourse/saga/replay"
)

const everything = `
saga: everything
timeout: 2h
budget: {amount: 1.00 USD, on_exceed: ask}
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/a", body: {n: "${input.n}"}, cost: 0.10 USD, retry: 3, compensate: {http: "DELETE http://w/a/${output.id}"}}
  - {id: b, http: "PUT http://w/b", body: {}, retry: 2, compensate: {http: "DELETE http://w/b?key=${key}", order: last}}
  - id: route
    switch:
      - when: input.n > 2
        steps:
          - {id: c, http: "POST http://w/c", body: {}, in_doubt: ask, on_error: continue, compensate: {http: "DELETE http://w/c/${output.id}", order: first}}
          - {id: nap, sleep: 90m}
      - when: input.n == 2
        steps: [{id: no, fail: not today}]
  - {id: look, http: "GET http://w/look", cost: {from: result.body.cost, reserve: 0.50 USD}, expect: {that: result.body.ok}}
  - {id: wait, http: "POST http://w/wait", body: {}, cost: 0.05 USD, retry: 2, on_error: hold, hold_for: 10m, compensate: {http: "DELETE http://w/wait?key=${key}"}}
  - {id: e, http: "POST http://w/e", body: {}, in_doubt: fail, compensate: {http: "DELETE http://w/e?key=${key}"}}
  - id: pay
    http: POST http://w/pay
    body: {n: "${input.n}"}
    cost: 0.20 USD
    in_doubt: {verify: {http: "GET http://w/pay?key=${key}", found: result.body.found, output: "${result.body}"}, otherwise: ask}
    pivot: true
  - {id: mail, http: "POST http://w/mail", body: {}, in_doubt: fail, on_error: continue}
  - {id: ship, http: "POST http://w/ship", body: {}, retry: 2}
finally:
  - {id: tell, http: "POST http://w/tell", body: {s: "${saga.status}"}, retry: 1}
`

const nested = `
saga: nested
timeout: 3h
budget: {amount: 1.00 USD, tokens: 1000000}
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/a", body: {n: "${input.n}"}, compensate: {http: "DELETE http://w/a/${output.id}"}}
  - id: many
    foreach: [x, y, z, "${input.n}"]
    as: one
    max_parallel: 2
    steps:
      - {id: b, http: "POST http://w/b/${index}", body: {one: "${one}"}, cost: 0.10 USD, retry: 2, compensate: {http: "DELETE http://w/b/${one}?id=${output.id}"}}
      - id: inner
        parallel:
          - {id: c, http: "PUT http://w/c", body: {b: "${steps.b.output.id}"}, retry: 2, in_doubt: {verify: {http: "GET http://w/c?key=${key}", found: result.body.found}, otherwise: ask}, compensate: {http: "DELETE http://w/c?key=${key}"}}
          - {id: d, http: "POST http://w/d", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/d/${output.id}"}}
          - {id: nap, sleep: 10s}
          - {id: k, http: "POST http://w/k", body: {}, retry: 1, on_error: hold, compensate: {http: "DELETE http://w/k/${output.id}"}}
          - {id: l, http: "POST http://w/l", body: {}, retry: 1, on_error: hold, hold_for: 5m, in_doubt: {verify: {http: "GET http://w/l?key=${key}", found: result.body.found}, otherwise: retry}, compensate: {http: "DELETE http://w/l?key=${key}"}}
    output: ${steps.b.output.id} ${one}
  - id: some
    foreach: ${steps.many.output}
    max_parallel: 3
    on_item_error: collect
    steps:
      - {id: e, http: "POST http://w/e", body: {item: "${item}"}, in_doubt: fail, compensate: {http: "DELETE http://w/e?key=${key}"}}
      - {id: f, http: "GET http://w/f", retry: 1}
  - id: loop
    repeat: {until: "steps.g.output.ok ?? false", max: 3}
    on_error: continue
    steps:
      - {id: g, http: "POST http://w/g", body: {before: "${len(history)}"}, retry: 1, compensate: {http: "DELETE http://w/g?key=${key}"}}
      - {id: verify, when: index > 0, set: "${index}"}
  - id: outside
    parallel:
      - {id: ok, approval: {title: "Go on with ${input.n}?", approvers: [ops], show: {n: "${input.n}"}, form: {limit: "integer = 1"}}, timeout: 1h, four_eyes: true}
      - {id: go, signal: go, timeout: 1h}
      - {id: pack, task: pack, input: {n: "${input.n}"}, retry: 2, in_doubt: ask, compensate: {http: "DELETE http://w/pack/${output.id}"}}
      - {id: carry, task: carry, in_doubt: fail, retry: 2, compensate: {task: uncarry, input: {key: "${key}"}}}
      - {id: sub, run: other, input: {n: "${input.n}"}}
  - {id: said, emit: order.packed, to: [bus], data: {by: "${steps.ok.output.by}"}}
  - {id: pay, http: "POST http://w/pay", body: {lost: "${len(steps.some.failed)}"}, in_doubt: ask, pivot: true}
  - id: both
    parallel:
      - {id: mail, http: "POST http://w/mail", body: {}, in_doubt: fail, on_error: continue}
      - {id: ship, http: "POST http://w/ship", body: {}, retry: 2}
finally:
  - id: tell
    parallel:
      - {id: one, http: "POST http://w/tell", body: {s: "${saga.status}"}, retry: 1}
      - {id: two, http: "POST http://w/tell", body: {s: "${saga.status}"}, retry: 1}
`

const freshness = `
saga: freshness
timeout: 5h
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/a", body: {n: "${input.n}"}, compensate: {http: "DELETE http://w/a/${output.id}"}}
  - {id: look, http: "GET http://w/look", fresh_for: 20s, on_change: ask, on_error: hold, hold_for: 10s}
  - {id: rate, http: "GET http://w/rate", fresh_for: 1m, output: "${result.body.cost ?? 0}"}
  - {id: price, set: "${steps.look.output.ok ?? false}"}
  - {id: more, when: steps.price.output, http: "GET http://w/more?ok=${steps.price.output}", fresh_for: 30s}
  - {id: no, when: "input.n == 4 && !steps.price.output", fail: not today}
  - {id: ok, approval: {title: "Go on with ${steps.price.output}?", covers: [b]}, timeout: 1h, on_timeout: approve}
  - {id: b, http: "POST http://w/b", body: {ok: "${steps.price.output}"}, retry: 2, on_error: hold, hold_for: 10m, compensate: {http: "DELETE http://w/b/${steps.price.output}?key=${key}"}}
  - id: both
    parallel:
      - {id: c, http: "PUT http://w/c", body: {rate: "${steps.rate.output}"}, retry: 2, compensate: {http: "DELETE http://w/c/${output.id}"}}
      - {id: nap, sleep: 30s}
      - {id: d, http: "PUT http://w/d", body: {more: "${steps.more.output}"}, retry: 2, compensate: {http: "DELETE http://w/d/${output.id}"}}
  - {id: said, emit: order.packed, to: [bus], data: {by: "${steps.ok.output.by}"}}
  - {id: pay, http: "POST http://w/pay", body: {rate: "${steps.rate.output}"}, in_doubt: ask, pivot: true}
  - {id: ship, http: "POST http://w/ship", body: {}, retry: 2}
finally:
  - {id: tell, http: "POST http://w/tell", body: {s: "${saga.status}"}, retry: 1}
`

var answers = []string{
	`200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`, `200 {"id":"x","ok":true,"found":true,"cost":0.05}`,
	`200 {"id":"x","ok":true,"found":true}`,
	`200 {"ok":false,"found":false}`, `200 {}`, `404 {}`, `409 {}`, `422 {}`, `401 {}`, `401 {}`, `401 {}`, `429 after=3s {}`, `500 {}`, `503 {}`, `timeout`, `connection`, `refused`, `cut`, `interrupted`, `302 {}`,
}

var orders = []saga.Command{
	{Do: saga.Cancel{}}, {Do: saga.Cancel{Mode: "stop"}}, {Do: saga.Pause{}}, {Do: saga.Resume{}}, {Do: saga.Compensate{}}, {Do: saga.Retry{}}, {Do: saga.Retry{NewKey: true}},
	{Do: saga.Patch{Budget: &saga.BudgetData{Amount: "2.00", Currency: "USD"}}}, {Do: saga.Patch{Labels: map[string]string{"a": "b"}}},
	{Do: saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{"id":"y"}`)}}, {Do: saga.Resolve{Outcome: "failed"}}, {Do: saga.Resolve{Outcome: "retry"}},
	{Do: saga.Approve{}, Actor: "ann", Role: "ops"}, {Do: saga.Approve{}, Actor: "ann", Role: "ops"}, {Do: saga.Reject{}, Actor: "ann", Role: "ops", Reason: "no"}, {Do: saga.Approve{}, Actor: "eve", Role: "guest"},
	{Do: saga.Signal{Name: "go", Data: json.RawMessage(`{"a":1}`)}}, {Do: saga.Signal{Name: "go", Data: json.RawMessage(`{"a":1}`)}}, {Do: saga.Signal{Name: "gone"}},
	{Do: saga.Resolve{Outcome: "skip"}}, {Do: saga.Resolve{Outcome: "compensated"}}, {Do: saga.Resolve{Outcome: "retry", Output: json.RawMessage(`{"id":"z"}`)}},
}

// Whatever the world and people do, the journal stays one that replays; every
// prefix decides the same at once as one by one; and the promises hold.
func TestAnyHistory(t *testing.T) {
	for _, src := range []string{everything, nested, freshness} {
		def, errs := dsl.Parse("definition", []byte(src), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			t.Fatal(errs)
		}
		t.Run(def.Name, func(t *testing.T) { anyHistory(t, def) })
	}
}

// rounds is how many times a hundred histories are tried at least: more with
// RECOURSE_RANDOM_ROUNDS.
func rounds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("RECOURSE_RANDOM_ROUNDS"), "1"))
	if err != nil || n < 1 {
		t.Fatalf("RECOURSE_RANDOM_ROUNDS is %q, not a number from 1", os.Getenv("RECOURSE_RANDOM_ROUNDS"))
	}
	return n
}

func anyHistory(t *testing.T, def *saga.Definition) {
	reached := make(map[saga.Status]int) // by how many histories, at their end or on their way
	most := 0                            // attempts at once
	walk := func(rt *rapid.T) {
		h := &history{t: rt, def: def, kindly: rapid.IntRange(0, 3).Draw(rt, "kindly") == 0, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), inboxes: make(map[moment]string)}
		data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(1, 4).Draw(rt, "n")))})
		if wrong != nil {
			rt.Fatal(wrong)
		}
		h.m = machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))
		h.write(h.m.Start(data))
		passed := make(map[saga.Status]bool)
		length := 400
		if !h.kindly {
			length = rapid.IntRange(10, 400).Draw(rt, "length")
		}
		for range length {
			on := h.step()
			passed[h.m.Status()] = true
			if !on {
				break
			}
		}
		h.check()
		// No journal says that a saga's timeout was due and did not fire: here a saga may live
		// longer.
		timedOut := h.m.Reason() != nil && h.m.Reason().Code == "timeout"
		if h.m.Ended() && (timedOut || h.now.Sub(h.records[0].At) < def.Timeout) {
			if res, err := replay.Against(def, h.m.ID(), h.records, replay.Options{}); err != nil || res.Verdict != replay.Same {
				rt.Fatalf("replayed against its own definition: %+v, %v\n%s", res, err, h.describe())
			}
		}
		most = max(most, h.most)
		for s := range passed {
			reached[s]++
		}
	}
	// As many rounds as it takes to have seen every status, so that the rarest end, a success, is
	// not missed by chance.
	missing := func() (list []saga.Status) {
		for _, s := range []saga.Status{saga.Succeeded, saga.Compensated, saga.Failed, saga.Stuck, saga.Waiting, saga.PausedStatus, saga.Undoing} {
			if reached[s] == 0 {
				list = append(list, s)
			}
		}
		return list
	}
	wide := func() bool { return def.Name != "nested" || most >= 4 }
	for round := 0; round < max(8, rounds(t)) && (round < rounds(t) || len(missing()) > 0 || !wide()); round++ {
		rapid.Check(t, walk)
	}
	if list := missing(); len(list) > 0 {
		t.Errorf("no history reached %v: the test lost its reach (%v)", list, reached)
	}
	if !wide() {
		t.Errorf("at most %d attempts were in flight at once", most)
	}
	t.Logf("reached: %v, at most %d attempts at once", reached, most)
}

// history is a random walk of one machine.
type history struct {
	t       *rapid.T
	def     *saga.Definition
	m       *machine.Machine
	now     time.Time
	records []journal.Record
	open    []machine.Send
	most    int  // were open at once
	kindly  bool // the world does as it is asked
	message int
	inboxes map[moment]string
}

func (h *history) write(d machine.Draft) {
	r, err := h.m.Append(d, h.now, "n")
	if err != nil {
		h.t.Fatalf("%v\n%s", err, h.describe())
	}
	h.records = append(h.records, r)
	h.sameInbox()
}

// sameInbox checks that the inbox was the same whenever it had this revision and the saga was
// stuck, or was not. Before a record or a request that follows at once, the inbox is not complete,
// and nobody reads it.
func (h *history) sameInbox() {
	if h.m.Status() == saga.PausedStatus || slices.ContainsFunc(h.m.Decide(), acts) {
		return
	}
	var items []string
	for _, e := range h.m.Inbox() {
		items = append(items, fmt.Sprint(e.Kind, " ", e.Path, " ", e.Way))
	}
	now, when := strings.Join(items, ", "), moment{h.m.InboxRevision(), h.m.Status() == saga.Stuck}
	if before, seen := h.inboxes[when]; seen && before != now {
		h.t.Fatalf("with the same revision the inbox was %q, and is %q\n%s", before, now, h.describe())
	}
	h.inboxes[when] = now
}

// moment is what tells an inbox from an earlier one.
type moment struct {
	revision any // of the inbox
	stuck    bool
}

// acts reports whether a decision is carried out at once.
func acts(d machine.Decision) bool {
	switch d.(type) {
	case machine.Write, machine.Dispatch:
		return true
	}
	return false
}

func (h *history) describe() (out string) {
	for _, r := range h.records {
		out += fmt.Sprintf("%d %s %s %s %d %s %s\n", r.Seq, r.Kind, r.Path, r.Way, r.Attempt, r.Class, r.Data)
	}
	return out
}

// step does one thing: a command now and then, else what the machine decides.
func (h *history) step() bool {
	h.now = h.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(h.t, "ms")) * time.Millisecond)
	if h.kindly && len(h.open) == 0 {
		h.approve()
	}
	if !h.kindly && rapid.IntRange(0, 29).Draw(h.t, "order?") == 29 {
		return h.order()
	}
	if h.open != nil && (rapid.Bool().Draw(h.t, "answer?") || !h.goOn()) {
		i := rapid.IntRange(0, len(h.open)-1).Draw(h.t, "which")
		s := h.open[i]
		h.open = append(h.open[:i:i], h.open[i+1:]...)
		if len(h.open) == 0 {
			h.open = nil
		}
		var at testing.T
		r, err := h.m.RecordOutcome(s.Path, s.Way, s.Attempt, parseAnswer(&at, h.answer()), h.now, rapid.Uint64().Draw(h.t, "random"))
		if err != nil {
			h.t.Fatalf("%v\n%s", err, h.describe())
		}
		h.write(r)
		return true
	}
	return h.goOn() || len(h.open) > 0 || (len(h.m.Inbox()) > 0 || h.m.Status() == saga.PausedStatus) && h.order()
}

// goOn does what the machine wants, if it wants anything.
func (h *history) goOn() bool {
	var waits []machine.WakeAt
	for _, d := range h.m.Decide() {
		switch d := d.(type) {
		case machine.Write:
			h.write(d.Record)
			return true
		case machine.Dispatch:
			h.write(d.Intent)
			h.open = append(h.open, d.Send)
			h.most = max(h.most, len(h.open))
			return true
		case machine.WakeAt:
			if d.Woke.Path != "" || !h.kindly { // else it would be the saga's timeout
				waits = append(waits, d)
			}
		}
	}
	if len(waits) == 0 || len(h.open) > 0 && rapid.Bool().Draw(h.t, "rather wait") {
		return false
	}
	d := slices.MinFunc(waits, func(a, b machine.WakeAt) int { return a.At.Compare(b.At) })
	if d.At.After(h.now) {
		h.now = d.At
	}
	h.write(d.Woke)
	return true
}

func (h *history) answer() string {
	if h.kindly {
		return answers[0]
	}
	return rapid.SampledFrom(answers).Draw(h.t, "answer")
}

// approve has everybody say yes, and sends the signal that is waited for.
func (h *history) approve() {
	for _, e := range h.m.Inbox() {
		if e.Kind != saga.InboxApproval {
			continue
		}
		for _, c := range []saga.Command{{Do: saga.Signal{Name: "go"}}, {Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "ann", Role: "ops", At: h.now}} {
			h.message++
			if r, err := h.m.Validate(uuid.NewV5(h.m.ID(), fmt.Sprint(h.message)), c); err == nil {
				h.write(r)
			}
		}
	}
}

func (h *history) order() bool {
	c := rapid.SampledFrom(orders).Draw(h.t, "order")
	if _, resolves := c.Do.(saga.Resolve); resolves {
		c.Path = rapid.SampledFrom([]string{"a", "b", "c", "e", "pay", "ship", "look", "tell", "many[0].b", "loop"}).Draw(h.t, "path")
		if in := h.m.Inbox(); len(in) > 0 {
			c.Path = rapid.SampledFrom(in).Draw(h.t, "entry").Path
		}
	}
	if c.Path == "" {
		shown := ""
		for _, e := range h.m.Inbox() {
			if e.Kind == saga.InboxApproval {
				shown = e.ShownHash
			}
		}
		switch do := c.Do.(type) {
		case saga.Approve:
			do.Shown = shown
			c.Do, c.Path = do, "ok"
		case saga.Reject:
			do.Shown = shown
			c.Do, c.Path = do, "ok"
		}
	}
	c.At = h.now
	h.message++
	id := uuid.NewV5(h.m.ID(), fmt.Sprint(h.message))
	if r, err := h.m.Validate(id, c); err == nil {
		h.write(r)
	}
	return !h.m.Status().Terminal()
}

// check looks at the whole history.
func (h *history) check() {
	if err := journal.Verify(h.m.ID(), nil, 1, h.records); err != nil {
		h.t.Fatal(err)
	}
	compensating, cancelled := false, false
	keys := make(map[string]string)
	iterations := make(map[string]map[string]bool) // that have begun and not ended, by loop
	for i, r := range h.records {
		h.limits(iterations, r)
		once, err := machine.Replay(h.def, h.m.ID(), h.records[:i+1])
		if err != nil {
			h.t.Fatal(err)
		}
		if c := once.Cost(); c.Budget == "1.00" && usd(c.Spent).Add(usd(c.Reserved)).Cmp(usd(c.Budget)) > 0 && !compensating {
			h.t.Fatalf("spent %s and reserved %s of %s\n%s", c.Spent, c.Reserved, c.Budget, h.describe())
		}
		if i == len(h.records)-1 {
			if a, b := fmt.Sprintf("%+v", once.View()), fmt.Sprintf("%+v", h.m.View()); once.Status() != h.m.Status() || !reflect.DeepEqual(once.Cost(), h.m.Cost()) || len(a) != len(b) {
				h.t.Fatalf("replayed: %s\nlived:    %s", a, b)
			}
		}
		switch r.Kind {
		case journal.Compensating:
			compensating = true
		case journal.Cancelled:
			cancelled = true
		case journal.Intent:
			if compensating && r.Way == journal.Do && h.def.Step(r.Path).ID != "tell" && !strings.HasPrefix(h.def.Step(r.Path).ID, "o") && h.def.Step(r.Path).ID != "two" {
				h.t.Fatalf("forward intent of %s after compensating\n%s", r.Path, h.describe())
			}
			if r.Key != "" {
				name := fmt.Sprint(r.Path, r.Way, r.Generation)
				if k, ok := keys[name]; ok && k != r.Key {
					h.t.Fatalf("%s went out under two keys\n%s", name, h.describe())
				}
				keys[name] = r.Key
			}
		case journal.Finished:
			if i != len(h.records)-1 {
				h.t.Fatalf("records after finished\n%s", h.describe())
			}
			if cancelled && h.m.Status() == saga.Succeeded {
				h.t.Fatalf("cancelled, but succeeded\n%s", h.describe())
			}
			if h.m.Status() == saga.Compensated && len(h.m.Residual()) > 0 {
				h.t.Fatalf("compensated with a residual %v\n%s", h.m.Residual(), h.describe())
			}
		}
	}
	if h.m.Status().Terminal() && len(h.m.Decide()) > 0 {
		h.t.Fatalf("ended, but goes on: %v", h.m.Decide())
	}
	if !h.m.Status().Terminal() && h.m.Status() != saga.PausedStatus && h.open == nil && len(h.m.Decide()) == 0 {
		h.t.Fatalf("nothing to do, nobody to wait for, and not ended: %s\n%s", h.m.Status(), h.describe())
	}
}

// limits holds loops to their max_parallel.
func (h *history) limits(iterations map[string]map[string]bool, r journal.Record) {
	loop, rest, inside := strings.Cut(r.Path, "[")
	if !inside || r.Way == journal.Undo || r.Kind == journal.Operator {
		return
	}
	index, step, _ := strings.Cut(rest, "]")
	if step == "" {
		delete(iterations[loop], index)
		return
	}
	if r.Kind != journal.Intent && r.Kind != journal.Decided {
		return
	}
	if iterations[loop] == nil {
		iterations[loop] = make(map[string]bool)
	}
	iterations[loop][index] = true
	if most := map[string]int{"many": 2, "some": 3, "loop": 1, "kids": 2}[loop]; len(iterations[loop]) > most {
		h.t.Fatalf("%d iterations of %s run at once, %d may\n%s", len(iterations[loop]), loop, most, h.describe())
	}
}

func usd(amount string) retry.Money {
	m, err := retry.Amount(amount, "USD")
	if err != nil {
		panic(err)
	}
	return m
}
