package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/machine"
)

// begin begins an own step, and returns the response's decision and view.
func (a *agent) begin(status int, body string, more ...header) (v begunView) {
	a.x.t.Helper()
	a.do("POST", "/steps", body, more...).want(status).into(&v)
	if want := map[int]string{201: decideGo, 200: decideReplay}[status]; v.Decision != want {
		a.x.t.Fatalf("%d with the decision %q", status, v.Decision)
	}
	return v
}

func (a *agent) finish(id, body string) *answer { return a.do("POST", "/steps/"+id+"/finish", body) }

// follow lets a new process of the agent take over.
func (a *agent) follow() (former *agent) {
	a.x.t.Helper()
	old := *a
	a.secret = NewSecret()
	a.attach(old.secret).want(200)
	return &old
}

// TestOwnStep: an agent does a step itself and records it, and its next lives get the result, or
// do the step again under the same key.
func TestOwnStep(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		write := `{"id": "report", "input": {"file": "a.pdf"}, "effect": "undoable", "in_doubt": "retry"}`
		one := a.begin(201, write)
		if one.Path != "own.report" || one.Attempt != 1 || one.Status != machine.CallRunning || one.Key == "" {
			t.Fatalf("begun: %+v", one)
		}
		a.do("POST", "/commit", "").problem(409, "calls_open")
		former := a.follow()
		former.finish("report", `{"attempt": 1, "status": "succeeded"}`).problem(403, "superseded")
		a.finish("report", `{"attempt": 1, "status": "succeeded"}`).problem(409, "attempt_ended")
		two := a.begin(201, write)
		if two.Key != one.Key || two.Attempt != 2 {
			t.Errorf("begun again: %+v, and before %+v", two, one)
		}
		a.finish("report", `{"attempt": 1, "status": "failed"}`).problem(409, "attempt_ended")
		done := `{"attempt": 2, "status": "succeeded", "output": {"pages": 3}, "compensate": {"use": "mail", "with": {"order": "A", "text": "drop it"}}}`
		var v machine.OwnView
		a.finish("report", done).want(200).into(&v)
		if v.Status != machine.CallSucceeded || v.Undo != machine.UndoAvailable {
			t.Errorf("finished: %+v", v)
		}
		a.finish("report", done).want(200)
		a.finish("report", `{"attempt": 2, "status": "failed"}`).problem(409, "attempt_ended")
		a.do("POST", "/steps", strings.Replace(write, "a.pdf", "b.pdf", 1)).problem(422, "id_reused")
		if again := a.begin(200, write); string(again.Output) != `{"pages":3}` || again.Attempt != 2 {
			t.Errorf("replayed: %+v", again)
		}
		a.begin(201, `{"id": "count", "effect": "none"}`)
		a.finish("count", `{"attempt": 1, "status": "failed", "error": {"code": "disk_full", "title": "the disk is full"}}`).want(200)
		if again := a.begin(200, `{"id": "count", "effect": "none"}`); again.Status != machine.CallFailed || again.Error.Code != "disk_full" {
			t.Errorf("replayed: %+v", again)
		}
		if text := string(a.do("GET", "/summary", "").want(200).Body); !strings.Contains(text, "own.report") || !strings.Contains(text, "disk is full") {
			t.Errorf("summary: %s", text)
		}
		var list page[machine.OwnView]
		a.do("GET", "/steps", "").want(200).into(&list)
		if len(list.Data) != 2 || list.Data[0].ID != "report" || list.Data[1].Status != machine.CallFailed {
			t.Errorf("listed: %+v", list)
		}
		a.do("GET", "/steps?limit=1", "").want(200).into(&list)
		if len(list.Data) != 1 || list.Next == "" {
			t.Errorf("the first page: %+v", list)
		}
		a.do("GET", "/steps?limit=1&cursor="+list.Next, "").want(200).into(&list)
		if len(list.Data) != 1 || list.Data[0].ID != "count" {
			t.Errorf("the second page: %+v", list)
		}
		a.do("GET", "/steps/report", "").want(200)
		a.do("GET", "/steps/none", "").problem(404, "step_not_found")
		a.do("GET", "/calls/own.report", "").problem(404, "call_not_found")
		x.do("GET", "/v1/sagas/"+a.id+"/steps/own.report", "").want(200)
		a.do("POST", "/steps/report/undo", "").want(202)
		x.until(a.id, func(machine.View) bool {
			a.do("GET", "/steps/report", "").want(200).into(&v)
			return v.Status == machine.CallUndone
		})
		if n := len(x.world.Ledger().Service("mail").Effects()); n != 1 {
			t.Errorf("%d compensations, want 1", n)
		}
		a.do("POST", "/commit", "").want(200)
		a.do("POST", "/steps", write).problem(409, "terminal")
	})
}

// TestOwnStepAsk: a step with an effect that a life has not finished is not done again before a
// person has decided.
func TestOwnStepAsk(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		for _, tt := range []struct {
			id, resolve string
			status      int
			want        machine.CallStatus
		}{
			{"sent", `{"outcome": "succeeded", "output": {"by": "hand"}, "reason": "it is there"}`, 200, machine.CallSucceeded},
			{"lost", `{"outcome": "failed", "reason": "it is not there"}`, 200, machine.CallFailed},
			{"skipped", `{"outcome": "skip", "reason": "never mind"}`, 200, machine.CallInDoubt},
			{"again", `{"outcome": "retry", "reason": "do it"}`, 201, machine.CallRunning},
		} {
			body := fmt.Sprintf(`{"id": %q, "effect": "irreversible"}`, tt.id)
			a.begin(201, body)
			a.follow()
			p := a.do("POST", "/steps", body).problem(409, "in_doubt")
			var v machine.OwnView
			a.do("GET", "/steps/"+tt.id, "").want(200).into(&v)
			if v.Status != machine.CallWaiting || v.WaitsFor != "doubt" || !strings.Contains(p.Detail, v.Inbox) {
				t.Errorf("%s: %+v, and the refusal is %s", tt.id, v, p.Detail)
			}
			x.do("POST", "/v1/sagas/"+a.id+"/steps/own."+tt.id+"/resolve", tt.resolve, header{"If-Match", "*"}).want(200)
			if v := a.begin(tt.status, body); v.Status != tt.want {
				t.Errorf("%s: after the decision %+v", tt.id, v)
			}
		}
		a.finish("again", `{"attempt": 2, "status": "succeeded"}`).want(200)
		a.do("POST", "/commit", "").want(200)
	})
}

// TestOwnStepAbort: an abort undoes own steps together with calls, the newest first. A person
// undoes the steps without a compensation.
func TestOwnStepAbort(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	a.begin(201, `{"id": "letter", "effect": "irreversible"}`)
	a.finish("letter", `{"attempt": 1, "status": "succeeded"}`).want(200)
	a.begin(201, `{"id": "file", "effect": "undoable", "compensate": {"use": "mail@1", "with": {"order": "A", "text": "first"}}}`)
	a.finish("file", `{"attempt": 1, "status": "succeeded"}`).want(200)
	a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
	a.begin(201, `{"id": "desk", "effect": "undoable"}`)
	a.finish("desk", `{"attempt": 1, "status": "succeeded"}`).want(200)
	a.begin(201, `{"id": "note", "effect": "none"}`)
	a.begin(201, `{"id": "open", "effect": "undoable", "compensate": {"use": "mail", "with": {"order": "B", "text": "second"}}}`)
	a.do("POST", "/abort", `{"reason": "enough"}`).want(202)
	// The process lives, so it may still finish what it has begun.
	a.do("POST", "/steps", `{"id": "late", "effect": "none"}`).problem(409, "aborted")
	if v := x.do("GET", "/v1/sagas/"+a.id, "").want(200).saga(); v.Status != saga.Running {
		t.Errorf("while a step is open the session is %s", v.Status)
	}
	var beat beatView
	a.do("POST", "/heartbeat", "").want(200).into(&beat)
	if !beat.Stop {
		t.Error("the process is not told to stop")
	}
	a.finish("note", `{"attempt": 1, "status": "succeeded"}`).want(200)
	a.do("POST", "/detach", "").want(200)
	x.until(a.id, func(v machine.View) bool { return v.Status == saga.Stuck })
	sent := func() int { return len(x.world.Ledger().Service("mail").Effects()) }
	if n := sent(); n != 1 { // of open, which is in doubt
		t.Errorf("%d compensations before that of desk", n)
	}
	resolve := "/v1/sagas/" + a.id + "/steps/own.desk/resolve"
	x.do("POST", resolve, `{"outcome": "retry", "reason": "again"}`, header{"If-Match", "*"}).problem(409, "bad_outcome")
	x.do("POST", resolve, `{"outcome": "compensated", "reason": "the desk is empty"}`, header{"If-Match", "*"}).want(200)
	v := x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
	if v.Status != saga.Failed || len(v.Residual) != 1 || v.Residual[0].Path != "own.letter" || !strings.Contains(v.Residual[0].Why, "irreversible") {
		t.Errorf("aborted: %s %+v", v.Status, v.Residual)
	}
	if undos := x.world.Ledger().Service("pay").Undos(); len(undos) != 1 || sent() != 2 {
		t.Errorf("%d charges undone, %d compensations", len(undos), sent())
	}
}

// TestOwnStepLeaseEnds: an abort waits for an open step no longer than its process's lease.
func TestOwnStepLeaseEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, `, "lease": "5s"`)
		a.begin(201, `{"id": "file", "effect": "undoable", "compensate": {"use": "mail", "with": {"order": "A", "text": "drop"}}}`)
		a.do("POST", "/abort", "").want(202)
		time.Sleep(100 * time.Millisecond)
		if n := len(x.world.Ledger().Service("mail").Effects()); n != 0 {
			t.Fatal("the step was undone while its process may still do it")
		}
		v := x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
		if v.Status != saga.Compensated || len(x.world.Ledger().Service("mail").Effects()) != 1 {
			t.Errorf("aborted: %s", v.Status)
		}
	})
}

// TestOwnStepRefusals: bad requests change nothing, and say what to do.
func TestOwnStepRefusals(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	seq := func() int64 {
		var v sessionView
		x.do("GET", "/v1/sessions/"+a.id, "").want(200).into(&v)
		return v.Seq
	}
	before := seq()
	undo := func(c string) string { return `{"id": "a", "effect": "undoable", "compensate": ` + c + `}` }
	for _, tt := range []struct {
		body   string
		code   code
		status int
	}{
		{`{}`, "invalid_request", 400},
		{`{"id": "a b", "effect": "none"}`, "invalid_request", 400},
		{`{"id": "verify", "effect": "none"}`, "invalid_request", 400},
		{`{"id": "a", "effect": "some"}`, "invalid_request", 400},
		{`{"id": "a", "effect": "none", "in_doubt": "fail"}`, "invalid_request", 400},
		{`{"id": "a", "effect": "none", "compensate": {"use": "mail"}}`, "invalid_request", 400},
		{`{"id": "a", "effect": "none", "reserve": "much"}`, "invalid_request", 400},
		{`{"id": "a", "effect": "none", "input": "` + strings.Repeat("x", maxCallInput) + `"}`, "invalid_request", 400},
		{`{"id": "a", "effect": "none", "reserve": "1.01"}`, "budget_exhausted", 402},
		{undo(`{"with": 1}`), "invalid_request", 400},
		{undo(`{"use": "none"}`), "bad_compensate", 422},
		{undo(`{"use": "mail@2", "with": {"order": "A", "text": "x"}}`), "bad_compensate", 422},
		{undo(`{"use": "mail", "with": {"order": "A"}}`), "bad_input", 422},
		{undo(`{"use": "big", "with": {"amount": 51}}`), "bad_compensate", 422}, // it needs an approval
	} {
		a.do("POST", "/steps", tt.body, outside).problem(tt.status, tt.code)
	}
	a.finish("none", `{"attempt": 1, "status": "succeeded"}`).problem(404, "step_not_found")
	if after := seq(); after != before {
		t.Errorf("%d records for bad requests", after-before)
	}

	step := `{"id": "a", "effect": "none", "reserve": "0.60"}`
	once := header{"Idempotency-Key", "k1"}
	a.begin(201, step, once)
	a.begin(201, step, once) // its response was lost
	a.do("POST", "/steps", step).problem(409, "step_open")
	a.do("POST", "/steps", step, header{"Idempotency-Key", "k2"}).problem(409, "step_open")
	a.do("POST", "/steps", `{"id": "b", "effect": "none", "reserve": "0.60"}`).problem(402, "budget_exhausted")
	for _, body := range []string{`{"attempt": 1}`, `{"status": "succeeded"}`, `{"attempt": 1, "status": "done"}`, `{"attempt": 0, "status": "failed"}`,
		`{"attempt": 1, "status": "failed", "output": 1}`, `{"attempt": 1, "status": "succeeded", "error": "x"}`, `{"attempt": 1, "status": "failed", "cost": "-1"}`} {
		a.do("POST", "/steps/a/finish", body, outside).problem(400, "invalid_request")
	}
	a.finish("a", `{"attempt": 1, "status": "succeeded", "compensate": {"use": "mail", "with": {"order": "A", "text": "x"}}}`).problem(422, "bad_compensate")
	a.finish("a", `{"attempt": 1, "status": "succeeded", "output": "`+strings.Repeat("x", maxOutput)+`"}`).problem(413, "body_too_large")
	a.finish("a", `{"attempt": 1, "status": "succeeded", "cost": "0.10"}`).want(200)
	a.begin(201, `{"id": "b", "effect": "none", "reserve": "0.60"}`)
	if v := x.do("GET", "/v1/sagas/"+a.id, "").want(200).saga(); v.Cost.Spent != "0.10" || v.Cost.Reserved != "0.60" {
		t.Errorf("spent %s, reserved %s", v.Cost.Spent, v.Cost.Reserved)
	}
	x.do("POST", "/v1/sagas/"+a.id+"/pause", `{"reason": "wait"}`)
	x.until(a.id, func(v machine.View) bool { return v.Status == saga.PausedStatus })
	a.do("POST", "/steps", `{"id": "c", "effect": "none"}`).problem(409, "paused")
	a.finish("b", `{"attempt": 1, "status": "failed", "error": "no"}`).want(200)
}

// TestOwnStepLimits: the calls that would undo own steps count for the limits of their action.
func TestOwnStepLimits(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	body := func(id string) string {
		return `{"id": "` + id + `", "effect": "undoable", "compensate": {"use": "big", "with": {"amount": 1}}}`
	}
	a.begin(201, body("one"))
	a.begin(201, body("two"))
	a.do("POST", "/steps", body("three")).problem(403, "limit")
	a.do("POST", "/calls", `{"action": "big", "input": {"amount": 2}}`).problem(403, "limit")
	a.finish("one", `{"attempt": 1, "status": "failed"}`).want(200)
	a.finish("two", `{"attempt": 1, "status": "succeeded", "compensate": {"use": "big", "with": {"amount": 3}}}`).want(200)
	a.call(`{"action": "big", "input": {"amount": 2}}`)
}
