package approval_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/approval"
	"recourse/saga/kinds/kindtest"
)

func parse(t *testing.T, step string) *saga.Step {
	t.Helper()
	s, errs := kindtest.Suite{Kind: approval.Kind()}.Parse(step)
	if errs != nil {
		t.Fatal(errs)
	}
	return s
}

func await(t *testing.T, step, input string) (saga.Awaited, error) {
	t.Helper()
	return parse(t, step).Body.(saga.Await).Await(expr.MapEnv{"input": expr.Raw(input)})
}

func TestAwait(t *testing.T) {
	a, err := await(t, `{approval: {title: "Refund ${input.amount}\t\n for\u0007 ${input.who}?", approvers: ["${input.who}", finance], show: {big: "${input.big}"}, form: {note: "string?"}}, four_eyes: true}`,
		`{"amount": 19.10, "who": "ann\nlee", "big": 9007199254740993}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &saga.ApprovalData{Title: "Refund 19.10 for ann lee?", Approvers: []string{"ann\nlee", "finance"}, FourEyes: true, Shown: json.RawMessage(`{"big":9007199254740993}`),
		Form: json.RawMessage(`{"additionalProperties":false,"properties":{"note":{"default":null,"type":["string","null"]}},"type":"object"}`)}
	if d := cmp.Diff(want, a.Approval); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if a, err = await(t, `{approval: {title: "${input}"}}`, `"`+strings.Repeat("é", 400)+`"`); err != nil || len([]rune(a.Approval.Title)) != approval.MaxTitle || !strings.HasSuffix(a.Approval.Title, "…") {
		t.Errorf("a long title: %q, %v", a.Approval.Title, err)
	}
	if a, err = await(t, `{approval: {title: "Pay ${input} 19.00 EUR?"}}`, `"a\u202ebc\u2066 \u200fד"`); err != nil || a.Approval.Title != "Pay abc \u200fד 19.00 EUR?" {
		t.Errorf("a title with what turns text round: %+q, %v", a.Approval.Title, err)
	}
	if a, err = await(t, `{approval: {title: "${input}"}}`, `" "`); err != nil || a.Approval.Title == "" || a.Approval.Approvers != nil || a.Approval.Shown != nil {
		t.Errorf("an empty title: %+v, %v", a.Approval, err)
	}
}

// Whom data names, and what it would show, is checked when it is known.
func TestAwaitRefuses(t *testing.T) {
	for input, want := range map[string]string{
		`"ann"`: "", `["ann", "bob"]`: "", `[]`: "bad_approvers", `""`: "bad_approvers", `null`: "bad_approvers", `["ann", null]`: "bad_approvers", `["ann", ""]`: "bad_approvers",
		`["ann", 3]`: "bad_approvers", `{"ann": 1}`: "bad_approvers", `[` + strings.Repeat(`"a",`, 100) + `"b"]`: "bad_approvers",
		`{"canary": 1}`: "bad_approvers", `["canary", 3]`: "bad_approvers",
	} {
		_, err := await(t, `{approval: {title: T, approvers: "${input}"}}`, input)
		if got := codeOf(err); got != want {
			t.Errorf("approvers %s: %q, want %q", input, got, want)
		}
		if f, ok := errors.AsType[*saga.Failure](err); ok && strings.Contains(f.Title+f.Detail, "canary") {
			t.Errorf("approvers %s: the failure quotes the value: %+v", input, f)
		}
	}
	_, err := await(t, `{approval: {title: T, show: "${input}"}}`, `"`+strings.Repeat("x", approval.MaxShown)+`"`)
	if got := codeOf(err); got != "too_much_to_show" {
		t.Errorf("too much to show: %q", got)
	}
}

func codeOf(err error) string {
	if f, ok := errors.AsType[*saga.Failure](err); ok {
		return f.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestDecide(t *testing.T) {
	const fields = `{approval: {title: T, form: {amount: decimal, note: "string = none"}}}`
	const optional = `{approval: {title: T, form: {note: "string = none"}}}`
	for _, tt := range []struct{ step, data, want, pointer string }{
		{fields, `{"amount": 19.10}`, `{"amount":19.10,"note":"none"}`, ""},
		{fields, `{"amount": "19.10"}`, "", "/amount"},
		{fields, `{"amount": 1, "nota": "x"}`, "", "/nota"},
		{fields, ``, "", "/amount"},
		{fields, `3`, "", ""},
		{optional, ``, `{"note":"none"}`, ""},
		{optional, `null`, `{"note":"none"}`, ""},
		{`{approval: {title: T, form: "string?"}}`, ``, `null`, ""},
		{`{approval: {title: T, form: string}}`, `"yes"`, `"yes"`, ""},
		{`{approval: {title: T, form: [string]}}`, ``, "", ""},
		{`{approval: {title: T}}`, ``, `null`, ""},
		{`{approval: {title: T}}`, `null`, `null`, ""},
		{`{approval: {title: T}}`, `{}`, "", ""},
	} {
		got, findings := parse(t, tt.step).Body.(saga.Approver).Decide(json.RawMessage(tt.data))
		switch {
		case tt.want != "" && (string(got) != tt.want || findings != nil):
			t.Errorf("%s of %s: %s %+v, want %s", tt.data, tt.step, got, findings, tt.want)
		case tt.want == "" && (len(findings) == 0 || findings[0].Detail == "" || findings[0].Pointer != tt.pointer):
			t.Errorf("%s of %s: %s %+v, want a finding at %q", tt.data, tt.step, got, findings, tt.pointer)
		}
	}
}

func TestExpired(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for policy, want := range map[string]string{
		"": "approval_expired", ", on_timeout: fail": "approval_expired", ", on_timeout: reject": "rejected",
		", on_timeout: approve": `{"decision":"approved","by":"timeout","at":"2026-01-02T03:04:05.000Z","comment":null,"data":{"note":"none"}}`,
	} {
		body := parse(t, `{approval: {title: "Pay?", form: {note: "string = none"}}, timeout: 1h`+policy+`}`).Body.(saga.Await)
		out, f := body.Expired(saga.Awaited{Approval: &saga.ApprovalData{Title: "Pay?"}}, at)
		got := string(out)
		if f != nil {
			got = f.Code
			if !strings.Contains(f.Detail, "Pay?") {
				t.Errorf("the failure does not say what expired: %+v", f)
			}
		}
		if got != want {
			t.Errorf("timeout: 1h%s: %s, want %s", policy, got, want)
		}
	}
}
