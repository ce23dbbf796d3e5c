package machine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// stale is a saga whose last request depends on two answers that have become too old. Both are read
// again at the same time.
func stale(t *testing.T) *hand {
	t.Helper()
	h := byHand(t, `saga: buy
steps:
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m, retry: 2}
  - {id: rate, http: "GET http://w/rate", fresh_for: 20m, retry: 2}
  - {id: go, signal: go}
  - {id: charge, http: "POST http://w/charge", body: {price: "${steps.quote.output}", rate: "${steps.rate.output}"}, compensate: none}
`, "null")
	h.reply("quote", "200 10")
	h.reply("rate", "200 2")
	h.now = h.now.Add(time.Hour)
	h.must("", saga.Signal{Name: "go"})
	if h.sent() != "quote rate" {
		t.Fatalf("%s is read again\n%s", h.sent(), h.out.String())
	}
	return h
}

// The request waits until both answers have been read again, also if one of them takes a retry.
func TestReadingTwiceAtOnce(t *testing.T) {
	h := stale(t)
	h.reply("quote", "200 10")
	if h.reply("rate", "503 {}"); h.sent() != "" {
		t.Fatalf("%s left before the rate is known\n%s", h.sent(), h.out.String())
	}
	if !h.wait() || h.sent() != "rate" {
		t.Fatalf("%s is sent, and not the rate again\n%s", h.sent(), h.out.String())
	}
	if h.reply("rate", "200 2"); h.sent() != "charge" {
		t.Errorf("%q is sent once both are fresh\n%s", h.sent(), h.out.String())
	}
}

// If one answer cannot be read again, the saga fails, and still waits for the other one first.
func TestReadingFailsNextToAnother(t *testing.T) {
	h := stale(t)
	if h.reply("quote", "404 {}"); h.m.Ended() {
		t.Fatalf("the rate is in flight, and the saga has ended\n%s", h.out.String())
	}
	if h.reply("rate", "200 3"); h.m.Status() != saga.Compensated || h.m.Reason().Step != "quote" {
		t.Errorf("%s: %+v", h.m.Status(), h.m.Reason())
	}
}

// While one answer is read again, the request waits, although the other one is still fresh. Once it
// may leave, the machine says when the first of the answers becomes too old.
func TestRequestWaitsForOneReading(t *testing.T) {
	p := begun(t, `saga: buy
steps:
  - {id: rate, http: "GET http://w/rate", fresh_for: 2h}
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m}
  - {id: nap, sleep: 1h}
  - {id: charge, http: "POST http://w/charge", body: {price: "${steps.quote.output}", rate: "${steps.rate.output}"}, compensate: none}
`)
	d, _ := dispatched(p)
	for d.Send.Path != "quote" || d.Send.Attempt == 1 {
		if !p.step() {
			t.Fatalf("the quote is not read again\n%s", p.out.String())
		}
		d, _ = dispatched(p)
	}
	p.write(d.Intent)
	if d, ok := dispatched(p); ok {
		t.Errorf("%s is sent while the quote is read again", d.Send.Path)
	}
	r, err := p.m.RecordOutcome("quote", journal.Do, 2, parseAnswer(t, "200 {}"), p.now, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.write(r)
	ds := p.m.Decide()
	if w, ok := ds[0].(machine.WakeAt); !ok || w.Woke.Path != "quote" || !w.At.Equal(p.m.At().Add(10*time.Minute)) {
		t.Errorf("first %+v", ds[0])
	}
	if d, ok := dispatched(p); !ok || d.Send.Path != "charge" {
		t.Errorf("then %+v", ds[1:])
	}
}

// An answer changes after a first request has left that depends on it. The saga goes back to the
// approval only if every step that has used the answer can run again; a step whose `when` was false
// can, and its request is then its first one.
func TestWhichStepsRunAgain(t *testing.T) {
	const charge = `{id: charge, http: "POST http://w/charge", body: {price: "${steps.quote.output.price}"}, compensate: none}`
	for _, tt := range []struct {
		name, step string // which has used the answer
		charge     string
		answer     string // of its request; "": it sends none
		skip       bool   // a person skips it
		why        string // the saga fails; "": it goes back
		then       string // what is sent next
	}{
		{"none", `{id: x, set: 1}`, charge, "", false, "", "charge"},
		{"a write", `{id: x, http: "POST http://w/x", body: {price: "${steps.quote.output.price}"}, compensate: none}`, charge, "200 {}", false, "step x has used it", ""},
		{"a write that was skipped", `{id: x, http: "POST http://w/x", body: {price: "${steps.quote.output.price}"}, compensate: none}`, charge, "401 {}", true, "step x has used it", ""},
		{"a write that is not due", `{id: x, when: steps.quote.output.price > 10, http: "POST http://w/x", body: {}, compensate: none}`, charge, "", false, "", "x"},
		{"a model", `{id: x, llm: {model: small, prompt: "is ${steps.quote.output.price} much?"}}`, charge, `200 {"choices":[{"finish_reason":"stop","message":{"content":"no"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, false, "step x has used it", ""},
		{"an event", `{id: x, emit: order.priced, to: [bus], data: {price: "${steps.quote.output.price}"}}`, charge, "", false, "step x has used it", ""},
		{"a read", `{id: x, http: "GET http://w/x?price=${steps.quote.output.price}"}`, charge, "200 {}", false, "", "x"},
		{"a block that has begun", `{id: x, set: 1}`, "{id: both, parallel: [" + charge + "]}", "", false, "the request that waits for it is inside a block that was entered", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begun(t, `saga: buy
budget: 1.00 USD
steps:
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m, on_change: ask}
  - {id: ok, approval: {title: "Pay ${steps.quote.output.price}?"}}
  - {id: first, http: "POST http://w/first", body: {}, compensate: {http: "DELETE http://w/first?key=${key}"}}
  - `+tt.step+`
  - {id: go, signal: go}
  - `+tt.charge+`
`)
			p.now = p.m.At()
			h := &hand{player: p}
			approve := func() { h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash}) }
			h.run()
			h.reply("quote", `200 {"price":10}`)
			approve()
			if h.reply("first", "200 {}"); tt.answer != "" {
				h.reply("x", tt.answer)
			}
			if tt.skip {
				h.must("x", saga.Resolve{Outcome: "skip"})
			}
			h.now = h.now.Add(time.Hour)
			h.must("", saga.Signal{Name: "go"})
			h.reply("quote", `200 {"price":12}`)
			if r := h.m.Reason(); (r != nil) != (tt.why != "") || r != nil && !strings.HasSuffix(r.Detail, "; "+tt.why) {
				t.Fatalf("%+v, want %q\n%s", r, tt.why, h.out.String())
			}
			if tt.why != "" {
				return
			}
			approve()
			if s := h.open[0]; h.sent() != tt.then || (s.Generation > 0) != (tt.answer != "") {
				t.Errorf("%s is sent, with generation %d, want %s\n%s", h.sent(), s.Generation, tt.then, h.out.String())
			}
		})
	}
}

// A step that runs again is no longer among those that have failed; the others are.
func TestFailuresOfStepsThatRunAgain(t *testing.T) {
	h := byHand(t, `saga: buy
steps:
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m, on_change: ask}
  - {id: other, http: "GET http://w/other", on_error: continue}
  - {id: check, http: "GET http://w/check?price=${steps.quote.output}", on_error: continue}
  - {id: ok, approval: {title: "Pay ${steps.quote.output}?"}}
  - {id: charge, http: "POST http://w/charge", body: {}, compensate: none}
`, "null")
	approve := func() { h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash}) }
	h.reply("quote", "200 10")
	h.reply("other", "410 {}")
	h.reply("check", "422 {}")
	h.now = h.now.Add(time.Hour)
	approve()
	h.reply("quote", "200 12")
	h.reply("check", "403 {}")
	approve()
	h.reply("charge", "200 {}")
	text := h.m.Row().Text
	for code, want := range map[string]int{"http_410": 1, "http_422": 0, "http_403": 1} {
		if got := strings.Count(text, code+"\n"); got != want {
			t.Errorf("%s is found %d times, want %d: %q", code, got, want, text)
		}
	}
}

// A person settles the reading of an answer that waits for other credentials. It leaves the inbox,
// and the revision says so, whatever follows from it.
func TestRevisionOfASettledReading(t *testing.T) {
	for _, outcome := range []string{"succeeded", "failed"} {
		h := byHand(t, `saga: buy
steps:
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m, on_change: ask}
  - {id: ok, approval: {title: "Pay ${steps.quote.output}?"}}
  - {id: charge, http: "POST http://w/charge", body: {price: "${steps.quote.output}"}, compensate: none}
`, "null")
		h.reply("quote", "200 10")
		h.now = h.now.Add(time.Hour)
		h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
		h.reply("quote", "401 {}")
		was := h.m.InboxRevision()
		d, err := h.m.Validate(h.m.ID(), saga.Command{Do: saga.Resolve{Outcome: outcome, Output: json.RawMessage("12")}, Path: "quote"})
		if err != nil {
			t.Fatal(err)
		}
		if h.write(d); h.m.InboxRevision() == was {
			t.Errorf("%s: the revision has not changed\n%s", outcome, h.out.String())
		}
	}
}
