package machine_test

import (
	"testing"
	"time"

	"recourse/saga"
)

// A saga is waiting if each of its steps waits for a time or for an event from outside, and running
// if one of them is at work. It is stuck if the saga needs a person to settle a step.
func TestStatus(t *testing.T) {
	const (
		verify = "saga: x\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, in_doubt: {verify: {http: \"GET http://w/pay?key=${key}\", found: result.body.found}}, compensate: none}\n"
		last   = "finally:\n  - {id: nap, sleep: 1h}\n"
	)
	do := func(list ...saga.Operation) func(*hand) { return func(h *hand) { h.must("", list...) } }
	reply := func(path, answer string) func(*hand) { return func(h *hand) { h.reply(path, answer) } }
	wait := func(h *hand) { h.wait() }
	both := func(policy, undo string) string {
		return "saga: x\nsteps:\n  - id: both\n    parallel:\n      - {id: pay, http: \"POST http://w/pay\", body: {}, in_doubt: " + policy + ", compensate: " + undo + "}\n      - {id: b, http: \"POST http://w/b\", body: {}, compensate: none}\n"
	}
	const reads = `{http: "DELETE http://w/${output.id}"}`
	for _, tt := range []struct {
		name, src string
		do        []func(*hand)
		want      saga.Status
	}{
		{"before a status check", verify, []func(*hand){reply("pay", "timeout")}, saga.Waiting},
		{"a status check", verify, []func(*hand){reply("pay", "timeout"), wait}, saga.Running},
		{"between two attempts", both("retry", reads), []func(*hand){reply("b", "200 {}"), reply("pay", "timeout")}, saga.Waiting},
		{"between two attempts, next to another", both("retry", reads), []func(*hand){reply("pay", "timeout")}, saga.Running},
		{"in doubt, next to another", both("ask", "none"), []func(*hand){reply("pay", "timeout")}, saga.Stuck},
		{"in doubt, and cancelled next to another", both("ask", "none"), []func(*hand){reply("pay", "timeout"), do(saga.Cancel{})}, saga.Running},
		{"in doubt, and cancelled before an undo that needs it", both("ask", reads), []func(*hand){reply("pay", "timeout"), do(saga.Cancel{})}, saga.Stuck},
		{"finally", "saga: x\nsteps: [{id: a, set: 1}]\n" + last, nil, saga.Waiting},
		{"finally of one that has failed", "saga: x\nsteps: [{id: a, fail: no}]\n" + last, nil, saga.Waiting},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, tt.src, "null")
			for _, f := range tt.do {
				f(h)
			}
			if got := h.m.Status(); got != tt.want {
				t.Errorf("%s, want %s\n%s", got, tt.want, h.out.String())
			}
		})
	}
	p := begun(t, "saga: x\nbudget: {amount: 1.00 USD, on_exceed: ask}\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none, cost: 0.50 USD}\n")
	if got := p.m.Status(); got != saga.Running {
		t.Errorf("before the first request, which the budget covers: %s", got)
	}
}

// A session waits for its agent's process when no process goes on, also if it has to finish a step
// of its own. It needs a person when none has come back, but no longer once it is aborted.
func TestStatusOfASession(t *testing.T) {
	h := aSession(t, saga.SessionData{OnLost: &saga.OnLost{Wait: "1m"}})
	check := func(when string, want saga.Status) {
		t.Helper()
		if got := h.m.Status(); got != want {
			t.Errorf("%s: %s, want %s\n%s", when, got, want, h.out.String())
		}
	}
	check("attached", saga.Running)
	h.must("", saga.BeginStep{Life: 1, ID: "note", OwnData: saga.OwnData{Effect: saga.NoEffect, InDoubt: saga.RetrySame}})
	check("an own step has begun", saga.Running)
	h.leave()
	check("without a process, during its own step", saga.Waiting)
	h.must("", saga.Attach{Token: "two", Previous: "one"}, saga.BeginStep{Life: 2, ID: "note", OwnData: saga.OwnData{Effect: saga.NoEffect, InDoubt: saga.RetrySame}},
		saga.FinishStep{Life: 2, ID: "note", Attempt: 2, Status: saga.OwnSucceeded})
	h.leave()
	check("without a process", saga.Waiting)
	h.must("", saga.Attach{Token: "three", Previous: "two"}, saga.CallAction{Life: 3, Action: "go"})
	h.leave()
	check("without a process, during a call", saga.Running)
	h.now = h.now.Add(time.Hour)
	h.wait()
	check("no process has come back", saga.Stuck)
	h.must("", saga.Cancel{})
	check("aborted, during a call", saga.Running)
}
