package machine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// A command about a step that was read at an earlier seq is accepted as long as the step has not
// changed, and nobody has given another command.
func TestCommandsIfSeq(t *testing.T) {
	const source = `saga: x
steps:
  - id: both
    parallel:
      - {id: pay, http: "POST http://w/pay", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/pay"}}
      - {id: check, http: "POST http://w/check", body: {}, timeout: 10s, in_doubt: {verify: {http: "GET http://w/check", found: "true"}}, compensate: none}
      - {id: other, http: "POST http://w/other", body: {}, compensate: none}
      - {id: more, http: "POST http://w/more", body: {}, compensate: none}
`
	h := byHand(t, source, "null")
	h.reply("check", "timeout")
	h.wait()
	before := h.m.Seq()
	h.reply("check.verify", "401 {}")
	checked := h.m.Seq()
	h.reply("pay", "timeout")
	asked := h.m.Seq()
	h.reply("other", "200 {}")
	resolve := func(name, path string, seq int64, want string) {
		t.Helper()
		_, err := h.m.Validate(uuid.Nil, saga.Command{Do: saga.Resolve{Outcome: "succeeded"}, Path: path, IfSeq: seq})
		no, _ := errors.AsType[*machine.Refusal](err)
		if no == nil && want != "" || no != nil && (no.Code != want || no.Stale != (want == "changed")) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	resolve("the last seq", "pay", h.m.Seq(), "")
	resolve("since the doubt", "pay", asked, "")
	resolve("before the doubt", "pay", asked-1, "changed")
	resolve("since the check was refused", "check", checked, "")
	resolve("before the check was refused", "check", before, "changed")
	resolve("a seq to come", "pay", h.m.Seq()+1, "changed")
	resolve("a step without records", "none", asked, "changed")
	if _, err := h.m.Validate(uuid.Nil, saga.Command{Do: saga.Pause{}, IfSeq: h.m.Seq()}); err != nil {
		t.Errorf("the saga as it is: %v", err)
	}
	h.must("", saga.Reserve{Key: "k"}) // a session that belongs to the saga is no person
	resolve("since a session was opened", "pay", asked, "")
	h.must("", saga.Patch{Labels: map[string]string{"a": "b"}})
	patch := h.m.Seq()
	resolve("before a command", "pay", asked, "changed")
	h.reply("more", "200 {}")
	resolve("since that command", "pay", patch, "")
}

// The undo of a call waits for a person, who has read it before the session went on.
func TestUndoIfSeq(t *testing.T) {
	def := storytest.ParseSession(t, guardActions)
	h := started(t, def, parentID, machine.StartOptions{})
	h.must("", saga.Attach{Token: "aa"}, saga.CallAction{Life: 1, Action: "refund", Input: json.RawMessage(`{"amount":5}`)})
	h.reply("refund[0]", `200 {"id":"re_1"}`)
	h.must("refund[0]", saga.UndoCall{Life: 1})
	sent := h.m.Seq()
	h.reply("refund[0]", "422 {}")
	stuck := h.m.Seq()
	h.must("", saga.CallAction{Life: 1, Action: "look", Input: json.RawMessage("null")})
	c := saga.Command{Do: saga.Resolve{Outcome: "retry"}, Path: "refund[0]", IfSeq: sent}
	if _, err := h.m.Validate(uuid.Nil, c); err == nil {
		t.Error("it has changed since it was read")
	}
	c.IfSeq = stuck
	d, err := h.m.Validate(uuid.Nil, c)
	if err != nil || d.Way != journal.Undo {
		t.Fatalf("%v, way %q", err, d.Way)
	}
	h.must("refund[0]", saga.Resolve{Outcome: "compensated"})
	if s := h.m.Status(); s != saga.Running || len(h.m.Inbox()) > 0 {
		t.Errorf("undone by hand, the session is %s: %+v", s, h.m.Inbox())
	}
}

// TestRefusedCommands gives commands to sagas in states that do not allow them.
func TestRefusedCommands(t *testing.T) {
	const head = "saga: x\nsteps:\n"
	const pay = `{id: pay, http: "POST http://w/pay", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/pay"}}`
	const ship = `{id: ship, http: "POST http://w/ship", body: {}, in_doubt: ask, compensate: none}`
	const late = `{id: late, http: "POST http://w/late", body: {}, compensate: none}`
	const both = head + "  - parallel: [" + pay + ", " + ship + ", " + late + "]\n    id: both\n"
	lost := []string{"pay timeout", "ship timeout"}
	for _, tt := range []struct {
		name, source string
		answers      []string // path and answer; or cancel
		path         string
		do           saga.Operation
		want         string // the code, and a part of the texts; "": it is accepted
	}{
		{"cancel", both, nil, "", saga.Cancel{}, ""},
		{"cancel and compensate", both, nil, "", saga.Cancel{Mode: "compensate"}, ""},
		{"cancel and stop", both, nil, "", saga.Cancel{Mode: "stop"}, ""},
		{"cancel otherwise", both, nil, "", saga.Cancel{Mode: "later"}, "bad_mode"},
		{"cancel twice", both, []string{"cancel"}, "", saga.Cancel{}, "compensating"},
		{"compensate after a cancel", both, []string{"cancel"}, "", saga.Compensate{}, "compensating"},
		{"retry nothing", both, nil, "", saga.Retry{}, "nothing_to_retry"},
		{"retry the one step", both, lost[:1], "", saga.Retry{}, ""},
		{"retry one of two", both, lost, "", saga.Retry{}, `which_step "pay", "ship"`},
		{"retry this one", both, lost, "ship", saga.Retry{}, ""},
		{"retry another", both, lost, "late", saga.Retry{}, `not_waiting "pay", "ship"`},
		{"retry an undo", head + "  - " + pay + "\n  - " + late + "\n", []string{"pay 200 {}", "late 422 {}", "pay 409 {}"}, "pay", saga.Retry{}, ""},
		{"resolve a step in flight", both, lost[:1], "late", saga.Resolve{Outcome: "failed"}, "not_waiting"},
		{"resolve a step that is given up", both, []string{"late 422 {}", "pay timeout"}, "pay", saga.Resolve{Outcome: "failed"}, "not_waiting step pay does not wait for a person"},
		{"resolve a step that has not begun", head + "  - {id: ok, approval: {title: Yes?}}\n  - " + late + "\n", nil, "late", saga.Resolve{Outcome: "failed"}, "not_waiting step late does not wait for a person"},
		{"resolve an approval", head + "  - {id: ok, approval: {title: Yes?}}\n", nil, "ok", saga.Resolve{Outcome: "failed"}, "not_waiting step ok waits for an approval"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, tt.source, "null")
			for _, a := range tt.answers {
				if path, text, ok := strings.Cut(a, " "); ok {
					h.reply(path, text)
				} else {
					h.must("", saga.Cancel{})
				}
			}
			_, err := h.m.Validate(uuid.Nil, saga.Command{Do: tt.do, Path: tt.path})
			code, text, _ := strings.Cut(tt.want, " ")
			no, _ := errors.AsType[*machine.Refusal](err)
			if no == nil && code != "" || no != nil && (no.Code != code || !strings.Contains(no.Title+" "+no.Detail, text)) {
				t.Errorf("%v, want %q\n%s", err, tt.want, h.out.String())
			}
		})
	}
}

// A person who resolves a step as failed adds a reason only if none is certain: the answer's stands
// if it says that nothing has happened.
func TestResolvedAsFailed(t *testing.T) {
	const found = "an operator found that step b did not happen"
	for _, tt := range []struct{ name, first, step, answer, want string }{
		{"in doubt", "", `in_doubt: ask, compensate: none`, "timeout", found},
		{"held, refused", "", `retry: none, on_error: hold, compensate: none`, "402 {}", "HTTP 402 Payment Required from w"},
		{"held, in doubt", "", `retry: none, on_error: hold, compensate: none`, "503 {}", found},
		{"after the pivot", ", pivot: true", `retry: none, compensate: none`, "402 {}", "HTTP 402 Payment Required from w"},
		{"without credentials", "", `retry: none, in_doubt: ask, compensate: none`, "401 {}", found},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\nsteps:\n  - {id: a, http: \"PUT http://w/a\", body: {}, compensate: none"+tt.first+"}\n  - {id: b, http: \"PUT http://w/b\", body: {}, "+tt.step+"}\n", "null")
			h.reply("a", "200 {}")
			h.reply("b", tt.answer)
			h.must("b", saga.Resolve{Outcome: "failed"})
			if r := h.m.Reason(); r == nil || r.Title != tt.want {
				t.Errorf("the reason is %+v, want %q\n%s", r, tt.want, h.out.String())
			}
		})
	}
}

// A person may have an own step in doubt done again. Nothing but a person undoes it, so its undo is
// not retried.
func TestRetryOfAnOwnStep(t *testing.T) {
	h := started(t, storytest.ParseSession(t, guardActions), parentID, machine.StartOptions{})
	h.must("", saga.Attach{Token: "aa"}, saga.BeginStep{Life: 1, ID: "letter", OwnData: saga.OwnData{Effect: saga.Undoable}}, saga.Attach{Token: "bb", Previous: "aa"})
	h.must("own.letter", saga.Retry{})
	h.must("", saga.BeginStep{Life: 2, ID: "letter"}, saga.FinishStep{Life: 2, ID: "letter", Attempt: 2, Status: saga.OwnSucceeded}, saga.Cancel{})
	err := h.do(saga.Command{Do: saga.Retry{}, Path: "own.letter"})
	if codeOf(err) != "bad_outcome" {
		t.Errorf("%v\n%s", err, h.out.String())
	}
}

// A session that has lost its process waits for another one from the resume on. No other command
// begins a wait.
func TestResumeBeginsAWait(t *testing.T) {
	h := started(t, storytest.ParseSession(t, guardActions), parentID, machine.StartOptions{})
	latest := func(do saga.Operation) *saga.Time {
		t.Helper()
		h.m.Clock(h.now.Add(time.Minute))
		d, err := h.m.Validate(uuid.Nil, saga.Command{Do: do})
		if err != nil {
			t.Fatal(err)
		}
		return d.Data.(saga.CommandData).Latest
	}
	h.must("", saga.Attach{Token: "aa"}, saga.Pause{})
	if at := latest(saga.Resume{}); at != nil {
		t.Errorf("a resume after a pause begins a wait: %s", at)
	}
	h.must("", saga.Resume{})
	d, ok := h.m.EndLife(h.m.LeaseTask().Attempt, saga.TaskCompleted, h.now)
	if !ok {
		t.Fatal("the process has no lease")
	}
	h.write(d)
	h.wait()
	if at := latest(saga.Pause{}); at != nil {
		t.Errorf("a pause begins a wait: %s", at)
	}
	if at := latest(saga.Resume{}); at == nil || !at.Equal(h.now.Add(time.Minute)) {
		t.Errorf("the wait begins at %s, want %s", at, h.now.Add(time.Minute))
	}
}
