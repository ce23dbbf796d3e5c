package ui

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

func TestMoney(t *testing.T) {
	d := &sagaPage{}
	if err := json.Unmarshal([]byte(`{"cost": {"currency": "EUR", "spent": "0.35", "wasted": "0.10", "reserved": "0.05", "budget": "1.00",
		"tokens": {"input": 7, "output": 3}, "models": {"b-model": {"input": 7, "output": 3, "spent": "0.20"}, "a-model": {"input": 0, "output": 0, "spent": "0"}}}}`), &d.Saga); err != nil {
		t.Fatal(err)
	}
	attempt := func(class journal.Class, cost string) history.Attempt {
		return history.Attempt{Class: class, Cost: cost}
	}
	d.Steps = []machine.StepView{
		{Path: "free", Cost: "0"},
		{Path: "cheap", Cost: "0.1", Attempts: []history.Attempt{attempt(journal.Succeeded, "0.1")}},
		{Path: "dear", Cost: "0.25", Attempts: []history.Attempt{attempt(journal.Transient, "0.05"), attempt(journal.Refused, "0.05"), attempt(journal.Succeeded, "0.15"), attempt(journal.InDoubt, "")}},
	}
	want := moneyView{
		Spent: "0.35 EUR", Wasted: "0.10 EUR", Reserved: "0.05 EUR", Budget: "1.00 EUR", Good: 250, Bad: 100, ReservedShare: 50, Any: true, Tokens: saga.TokensView{Input: 7, Output: 3},
		Steps:  []costBar{{Name: "dear", Path: "dear", Amount: "0.25 EUR", Wasted: "0.10 EUR", Good: 600, Bad: 400}, {Name: "cheap", Path: "cheap", Amount: "0.1 EUR", Good: 400}},
		Models: []modelRow{{Name: "a-model"}, {Name: "b-model", Spent: "0.20 EUR", Input: 7, Output: 3}},
	}
	if diff := cmp.Diff(want, d.money()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m := (&sagaPage{}).money(); m.Any {
		t.Errorf("of nothing: %+v", m)
	}
}

func TestReasonOf(t *testing.T) {
	failed := &saga.Reason{Code: "step_failed", Step: "charge", Title: "HTTP 402"}
	tests := []struct {
		name string
		view machine.View
		want *reason
	}{
		{"none", machine.View{Status: saga.Running}, nil},
		{"undone", machine.View{Status: saga.Compensated, Reason: failed}, &reason{Word: "Undone", Step: "charge", Title: "HTTP 402"}},
		{"failed", machine.View{Status: saga.Failed, Reason: failed}, &reason{Word: "Failed", Step: "charge", Title: "HTTP 402"}},
		{"in flight", machine.View{Status: saga.Undoing, Reason: failed}, &reason{Word: "Being undone", Step: "charge", Title: "HTTP 402"}},
		{"cancelled where a step stood", machine.View{Status: saga.Compensated, Reason: &saga.Reason{Code: "cancelled", Step: "charge", Title: "the saga was cancelled", Detail: "why"}},
			&reason{Word: "Undone", Title: "the saga was cancelled", More: "why"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, reasonOf(tt.view)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestChild(t *testing.T) {
	d := &sagaPage{}
	request := json.RawMessage(`{"child":{"saga":"c-1","parent":"p-1","definition":"x"}}`)
	if got := d.child(machine.StepView{Kind: "run", Input: request}); got != "c-1" {
		t.Errorf("child %q", got)
	}
	if got := d.child(machine.StepView{Kind: "http", Input: json.RawMessage(`{"method":"GET","url":"http://x"}`)}); got != "" {
		t.Errorf("a request runs saga %q", got)
	}
}

// A page lists few steps, however many the saga has, and the important ones are among them.
func TestRows(t *testing.T) {
	d := &sagaPage{}
	for i := range 1000 {
		s := machine.StepView{Path: "each[" + strconv.Itoa(i) + "].make", Status: machine.StepSucceeded, Cost: "0"}
		if i == 500 {
			s.Status = machine.StepInDoubt
		}
		d.Steps = append(d.Steps, s)
	}
	shown, folded, doubt := 0, 0, false
	for _, r := range d.rows("", maxSteps) {
		if r.Folded > 0 {
			folded += r.Folded
			continue
		}
		shown++
		doubt = doubt || r.Status == machine.StepInDoubt
	}
	if shown != maxSteps || shown+folded != 1000 || !doubt {
		t.Errorf("%d shown, %d folded, the one in doubt: %t", shown, folded, doubt)
	}
	if rows := d.rows("[77]", maxSteps); len(rows) != 1 || rows[0].Name != "[77] make" {
		t.Errorf("looked for: %+v", rows)
	}
}
