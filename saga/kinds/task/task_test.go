package task_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/task"
)

func body(t *testing.T, step string) *task.Body {
	t.Helper()
	def, errs := dsl.Parse("task.yaml", []byte("saga: x\nsteps:\n  - {id: it, "+step+"}\n"), dsl.Options{Kinds: []dsl.Kind{task.Kind()}})
	if errs != nil {
		t.Fatal(errs)
	}
	return def.ByID["it"].Body.(*task.Body)
}

func TestTask(t *testing.T) {
	tests := []struct{ step, kind, input, lease string }{
		{`task: page.fetch`, "page.fetch", "null", "30s"},
		{`task: a, input: {n: 19.10, k: "${key}"}, heartbeat: 2m`, "a", `{"n":19.10,"k":"k-1"}`, "2m0s"},
		{`task: {type: a, input: {n: 19.10, k: "${key}"}, heartbeat: 2m}`, "a", `{"n":19.10,"k":"k-1"}`, "2m0s"},
		{`task: {type: a}`, "a", "null", "30s"},
		{`task: a-b_c.d, input: "${saga.id}", heartbeat: 1s`, "a-b_c.d", `"s-1"`, "1s"},
	}
	for _, tt := range tests {
		b := body(t, tt.step)
		r, err := b.Request(expr.MapEnv{"saga": map[string]any{"id": "s-1"}, "key": "k-1"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Task == nil || r.String() != "task "+tt.kind || len(r.Headers) > 0 {
			t.Errorf("request %+v", r)
		}
		kind, input, lease := b.Task(r)
		if kind != tt.kind || string(input) != tt.input || lease.String() != tt.lease {
			t.Errorf("%s: %s %s %s", tt.step, kind, input, lease)
		}
	}
}

func TestJudge(t *testing.T) {
	b := body(t, "task: a")
	tests := []struct {
		name string
		a    saga.Answer
		want journal.Class
		code string
	}{
		{"completed", saga.Answer{Sent: true, Status: 200, Body: []byte(`{"a":1}`)}, journal.Succeeded, ""},
		{"failed", saga.Answer{Sent: true, Code: saga.CodeTaskFailed, Detail: "no"}, journal.Refused, "task_failed"},
		{"failed with its own code", saga.Answer{Sent: true, Code: "no_such_page"}, journal.Refused, "no_such_page"},
		{"retryable", saga.Answer{Sent: true, Code: saga.CodeTaskFailed, Report: &saga.Report{Retryable: true}}, journal.Transient, "task_failed"},
		{"in doubt", saga.Answer{Sent: true, Code: "half_done", Report: &saga.Report{InDoubt: true}}, journal.InDoubt, "half_done"},
		{"both", saga.Answer{Sent: true, Code: "half_done", Report: &saga.Report{InDoubt: true, Retryable: true}}, journal.InDoubt, "half_done"},
		{"silent", saga.Answer{Sent: true, Code: saga.CodeHeartbeatLost}, journal.InDoubt, "heartbeat_lost"},
		{"interrupted", saga.Answer{Sent: true, Code: "interrupted"}, journal.InDoubt, "interrupted"},
		{"nothing", saga.Answer{Sent: true}, journal.InDoubt, "no_answer"},
		{"withdrawn", saga.Answer{Code: saga.CodeWithdrawn}, journal.Transient, "withdrawn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range []saga.Verdict{b.Judge(saga.Request{}, tt.a), b.Read(saga.Request{}, tt.a)} {
				code := ""
				if v.Error != nil {
					code = v.Error.Code
				}
				if v.Class != tt.want || code != tt.code {
					t.Errorf("%s %q, want %s %q", v.Class, code, tt.want, tt.code)
				}
				if v.Error != nil && v.Error.Detail != tt.a.Detail {
					t.Errorf("detail %q", v.Error.Detail)
				}
				if v.Class == journal.Succeeded && string(v.Output) != `{"a":1}` {
					t.Errorf("output %s", v.Output)
				}
			}
		})
	}
}

func TestUsed(t *testing.T) {
	b := body(t, "task: a")
	for text, want := range map[string]string{"0.01": "0.01", "3": "3", "0": "0", "-1": "", "lots": "", "": ""} {
		got := ""
		if u, ok := b.Used(saga.Request{}, saga.Answer{Sent: true, Code: saga.CodeTaskFailed, Report: &saga.Report{Cost: text}}); ok {
			got = u.Cost.Decimal()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, ok := b.Used(saga.Request{}, saga.Answer{Sent: true, Status: 200}); ok {
		t.Error("a cost that nobody has reported is known")
	}
	if d := cmp.Diff(saga.Usage{}.Input, b.Reserve(saga.Request{}).Input); d != "" {
		t.Error(d)
	}
}

func TestTimes(t *testing.T) {
	def, errs := dsl.Parse("task.yaml", []byte("saga: x\nsteps:\n  - {id: a, task: a}\n  - {id: b, task: a, timeout: 2h}\n"), dsl.Options{Kinds: []dsl.Kind{task.Kind()}})
	if errs != nil {
		t.Fatal(errs)
	}
	if a, b := def.ByID["a"].Timeout, def.ByID["b"].Timeout; a != 10*time.Minute || b != 2*time.Hour {
		t.Errorf("timeouts %s, %s", a, b)
	}
	codes := map[string]bool{}
	for _, w := range def.Warnings {
		codes[w.Code] = true
	}
	if !codes["blind-retry"] || !codes["uncompensated-write"] {
		t.Errorf("warnings %v", def.Warnings)
	}
}
