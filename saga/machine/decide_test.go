package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sent lists the paths of the requests in flight.
func (h *hand) sent() string {
	paths := make([]string, 0, len(h.open))
	for _, s := range h.open {
		paths = append(paths, s.Path)
	}
	return strings.Join(paths, " ")
}

// As long as the pivot may be taking effect, the saga has no timeout, and nobody can cancel it.
func TestPivotInFlight(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		answer       string // of its first attempt; "": none yet
		reached      bool
	}{
		{"in flight", "retry", "", true},
		{"not sent", "retry", "refused", false},
		{"in doubt", "retry", "timeout", true},
		{"in the inbox", "ask", "timeout", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\ntimeout: 1h\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, retry: 3, in_doubt: "+tt.policy+", pivot: true}\n", "null")
			if tt.answer != "" {
				h.reply("pay", tt.answer)
			}
			ends := slices.ContainsFunc(h.m.Decide(), func(d machine.Decision) bool {
				w, ok := d.(machine.WakeAt)
				return ok && w.Woke.Path == ""
			})
			no := h.refusalOf(saga.Cancel{}).Code
			if ends == tt.reached || (no == "past_pivot") != tt.reached {
				t.Errorf("its timeout ends it: %v; a cancel is refused with %q\n%s", ends, no, h.out.String())
			}
		})
	}
}

// A step that waits for money is not overtaken by steps after it that cost less. Those that cost
// nothing do not wait. The calls of a session do not follow each other, so none waits for another.
func TestMoneyInOrder(t *testing.T) {
	const src = `saga: x
budget: {amount: 1.00 USD, on_exceed: %s}
steps:
  - id: all
    parallel:
      - {id: a, http: "POST http://w/a", body: {}, compensate: none, cost: {from: result.body.cost, reserve: 0.50 USD}}
      - {id: b, http: "POST http://w/b", body: {}, compensate: none, cost: 0.80 USD}
      - {id: c, http: "POST http://w/c", body: {}, compensate: none, cost: 0.20 USD}
      - {id: d, http: "POST http://w/d", body: {}, compensate: none}
`
	wait := byHand(t, fmt.Sprintf(src, "fail"), "null")
	if s := wait.sent(); s != "a d" {
		t.Errorf("while a may cost 0.50: %s", s)
	}
	if wait.reply("a", `200 {"cost":0}`); wait.sent() != "d b c" {
		t.Errorf("once a has cost nothing: %s", wait.sent())
	}
	ask := byHand(t, fmt.Sprintf(src, "ask"), "null")
	if ask.reply("a", `200 {"cost":0.30}`); ask.sent() != "d" || !ask.m.WaitsForRaise("b") {
		t.Errorf("while b waits for a higher budget: %s\n%s", ask.sent(), ask.out.String())
	}
	ask.must("", saga.Patch{Budget: &saga.BudgetData{Amount: "2.00", Currency: "USD"}})
	if s := ask.sent(); s != "d b c" {
		t.Errorf("with the higher budget: %s", s)
	}
	actions := `action: buy
agents: auto
http: POST http://w/buy
body: {}
cost: 1.50 USD
---
action: tip
agents: auto
http: POST http://w/tip
body: {}
cost: 0.20 USD
`
	s := sessionOf(t, saga.SessionData{Actions: []string{"buy@1", "tip@1"}, OnExceed: saga.ExceedAsk}, actions, limits("1.00", 0))
	s.must("", saga.Attach{Token: "x"}, saga.CallAction{Life: 1, Action: "buy"}, saga.CallAction{Life: 1, Action: "tip"})
	if s.sent() != "tip[0]" || !s.m.WaitsForRaise("buy[0]") {
		t.Errorf("of a session: %s\n%s", s.sent(), s.out.String())
	}
}

// A higher budget is what only those steps wait for that it does not cover.
func TestWaitsForRaise(t *testing.T) {
	h := byHand(t, `saga: x
budget: {amount: 1.00 USD, on_exceed: ask}
steps:
  - id: both
    parallel:
      - {id: doubt, http: "POST http://w/doubt", body: {}, compensate: none, in_doubt: ask}
      - {id: dear, http: "POST http://w/dear", body: {}, compensate: none, cost: 2.00 USD}
`, "null")
	h.reply("doubt", "timeout")
	if n := len(h.m.Inbox()); n != 2 || !h.m.WaitsForRaise("dear") || h.m.WaitsForRaise("doubt") {
		t.Errorf("%d entries; dear waits: %v, doubt waits: %v", n, h.m.WaitsForRaise("dear"), h.m.WaitsForRaise("doubt"))
	}
}

// The time of hold_for counts from the latest time that the store's clock can have shown. Records
// that begin no such wait do not have that time.
func TestHoldCountsFromTheLatestTime(t *testing.T) {
	const (
		dear    = `cost: 2.00 USD`
		unknown = `http: "POST http://w/${saga.labels.none}", body: {}`
		send    = `http: "POST http://w/a", body: {}`
		verify  = `retry: none, in_doubt: {verify: {http: "GET http://w/a", found: result.body.found}}`
	)
	for _, tt := range []struct {
		name, keys string
		found      string // by the status check; "": there is none
		hold       string // keys
		waits      bool
	}{
		{"no budget", send + ", " + dear, "", "on_error: hold, hold_for: 10m", true},
		{"no budget, no time", send + ", " + dear, "", "on_error: hold", false},
		{"refused", unknown, "", "on_error: hold, hold_for: 10m", false},
		{"absent", send + ", " + verify, "false", "on_error: hold, hold_for: 10m", true},
		{"absent, no time", send + ", " + verify, "false", "on_error: hold", false},
		{"found", send + ", " + verify, "true", "on_error: hold, hold_for: 10m", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hand{player: begun(t, "saga: x\nbudget: 1.00 USD\nsteps:\n  - {id: a, "+tt.keys+", compensate: none, "+tt.hold+"}\n")}
			h.now = h.m.At()
			h.m.Clock(h.now.Add(time.Minute))
			if h.run(); tt.found != "" {
				h.reply("a", "timeout")
				h.wait()
				h.m.Clock(h.now.Add(time.Minute))
				h.reply("a.verify", `200 {"found":`+tt.found+`}`)
			}
			var d struct {
				Next   saga.Next  `json:"next"`
				Latest *saga.Time `json:"latest"`
			}
			i := slices.IndexFunc(h.records, func(r journal.Record) bool {
				return r.Path == "a" && (r.Kind == journal.Decided || r.Kind == journal.Outcome && r.Attempt == 0)
			})
			if err := json.Unmarshal(h.records[i].Data, &d); err != nil {
				t.Fatal(err)
			}
			if (d.Latest != nil) != tt.waits || tt.waits && d.Next != saga.NextHold {
				t.Fatalf("the record has %+v, want a time: %v\n%s", d, tt.waits, h.out.String())
			}
			if tt.waits && !h.m.WakeAt().Equal(d.Latest.Add(10*time.Minute)) {
				t.Errorf("held since %s until %s", d.Latest, h.m.WakeAt())
			}
		})
	}
}

// A branch fails while another one is in doubt, and undoing that one needs to know what its output
// is. So it is settled first, as its own policy says.
func TestDoubtOfAnAbandonedBranch(t *testing.T) {
	for _, tt := range []struct {
		name, keys string
		after      time.Duration // until the other branch fails
		by         string        // how it is settled: again, verify, or a person
	}{
		{"again", "in_doubt: retry, retry: 3", 0, "again"},
		{"no attempt left", "in_doubt: retry, retry: 1", 0, "person"},
		{"the key has expired", "in_doubt: retry, retry: 3, key_window: 1m", 2 * time.Minute, "person"},
		{"a person", "in_doubt: ask, retry: 3", 0, "person"},
		{"a status check", `in_doubt: {verify: {http: "GET http://w/pay?key=${key}", found: result.body.found}, otherwise: retry}, retry: 3`, 0, "verify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\nsteps:\n  - id: both\n    parallel:\n      - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: {http: \"DELETE http://w/${output.id}\"}, "+tt.keys+"}\n      - {id: b, http: \"POST http://w/b\", body: {}, compensate: none}\n", "null")
			h.reply("pay", "timeout")
			h.now = h.now.Add(tt.after)
			h.reply("b", "422 {}")
			by := "person"
			if len(h.m.Inbox()) == 0 && h.wait() {
				by = map[string]string{"pay": "again", "pay.verify": "verify"}[h.sent()]
			}
			if by != tt.by {
				t.Errorf("it is settled by %q, want %q\n%s", by, tt.by, h.out.String())
			}
		})
	}
}

// A status check gives no answer. Then the request is sent again only if the policy says so, an
// attempt is left, and the remote service still knows the key. What else follows depends on whether
// another round of attempts could settle the doubt.
func TestInconclusiveStatusCheck(t *testing.T) {
	for _, tt := range []struct {
		name, otherwise, keys string
		after                 time.Duration // until the check
		want                  saga.Next
	}{
		{"again", "retry", "retry: 3", 0, saga.NextRetry},
		{"no attempt left", "retry", "retry: 1", 0, saga.NextInDoubt},
		{"the key has expired", "retry", "retry: 3, key_window: 1m", 2 * time.Minute, saga.NextInDoubt},
		{"held", "retry", "retry: 1, on_error: hold", 0, saga.NextHold},
		{"not held", "fail", "retry: 1, on_error: hold", 0, saga.NextAwaitResolution},
		{"in doubt", "fail", "retry: 1", 0, saga.NextInDoubt},
		{"a person", "ask", "retry: 3", 0, saga.NextAwaitResolution},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, in_doubt: {verify: {http: \"GET http://w/pay?key=${key}\", found: result.body.found}, otherwise: "+tt.otherwise+"}, compensate: {http: \"DELETE http://w/pay?key=${key}\"}, "+tt.keys+"}\n", "null")
			h.reply("pay", "timeout")
			h.now = h.now.Add(tt.after)
			h.wait()
			h.reply("pay.verify", "404 {}")
			i := slices.IndexFunc(h.records, func(r journal.Record) bool { return r.Kind == journal.Decided })
			var d saga.DecidedData
			if i < 0 || json.Unmarshal(h.records[i].Data, &d) != nil || d.Next != tt.want {
				t.Errorf("it is %q, want %q\n%s", d.Next, tt.want, h.out.String())
			}
		})
	}
}

// A step that a person retries sends its request, although its `when` no longer holds: that was
// decided when the step began.
func TestRetryAfterTheDecision(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - {id: go, signal: go}
  - {id: pay, http: "POST http://w/pay", body: {}, pivot: true}
  - {id: gift, when: saga.labels.tier == "gold", http: "POST http://w/gifts/${saga.labels.gift}", body: {}}
`, "null")
	h.must("", saga.Patch{Labels: map[string]string{"tier": "gold"}}, saga.Signal{Name: "go"})
	h.reply("pay", "200 {}")
	if s := h.m.Status(); s != saga.Stuck {
		t.Fatalf("%s although the request cannot be made\n%s", s, h.out.String())
	}
	h.must("", saga.Patch{Labels: map[string]string{"tier": "silver", "gift": "7"}}, saga.Retry{})
	if s := h.sent(); s != "gift" {
		t.Errorf("%q is sent\n%s", s, h.out.String())
	}
}

// A resume begins another round of attempts of every step that is held.
func TestResumeOfAllThatIsHeld(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - id: both
    parallel:
      - {id: a, http: "POST http://w/a", body: {}, retry: none, on_error: hold, compensate: none}
      - {id: b, http: "POST http://w/b", body: {}, retry: none, on_error: hold, compensate: none}
`, "null")
	h.reply("a", "422 {}")
	h.reply("b", "422 {}")
	h.must("", saga.Resume{})
	if s := h.sent(); s != "a b" {
		t.Errorf("%q is sent\n%s", s, h.out.String())
	}
}

// A request names the span of its attempt in the saga's trace.
func TestTraceOfARequest(t *testing.T) {
	h := byHand(t, "saga: x\nsteps:\n  - {id: a, http: \"GET http://w/a\", retry: 2}\n", "null")
	one := h.open[0].Traceparent()
	h.reply("a", "503 {}")
	h.wait()
	two := h.open[0].Traceparent()
	if prefix := "00-" + h.m.Trace().ID.String() + "-"; !strings.HasPrefix(one, prefix) || !strings.HasPrefix(two, prefix) || one == two {
		t.Errorf("%q, then %q", one, two)
	}
	if got := new(machine.Send).Traceparent(); got != "" {
		t.Errorf("without a trace: %q", got)
	}
}
