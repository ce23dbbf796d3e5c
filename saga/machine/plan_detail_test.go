package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// A plan delivers the messages that steps wait for, and lists the approvals among them. Those come
// at once: the time of a plan passes only where nothing else can be done.
func TestPlanOfWaits(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - id: both
    parallel:
      - {id: rest, sleep: 1h}
      - id: then
        switch:
          - steps: [{id: go, signal: go}, {id: ok, approval: {title: Go?}}, {id: short, sleep: 30m}]
`, `null`, nil)
	want := []string{"both parallel", "rest sleep until 09:00", "then switch", "go signal", "ok approval", "short sleep until 08:30"}
	if d := cmp.Diff(want, lines(p)); d != "" {
		t.Error(d)
	}
	if !slices.Equal(p.Approvals, []string{"ok"}) {
		t.Errorf("approvals: %q", p.Approvals)
	}
}

// A plan says which step a person would have to raise the budget for, and goes on after it.
func TestPlanOverTheBudget(t *testing.T) {
	p := makePlan(t, `saga: p
budget: {amount: 0.15 USD, on_exceed: ask}
steps:
  - {id: a, http: PUT https://a.example/1, cost: 0.10 USD, compensate: none}
  - {id: b, http: PUT https://a.example/2, cost: 0.10 USD, compensate: none}
  - {id: c, set: 1}
`, `null`, nil)
	if len(p.Steps) != 3 || !strings.Contains(p.Steps[1].Note, "0.10 USD") || p.Steps[0].Note != "" || p.Steps[2].Note != "" {
		t.Errorf("%s", strings.Join(lines(p), "\n"))
	}
}

// The worst case of a loop whose length is unknown counts one iteration, and the plan says so if
// that costs something. A choice between branches is no loop.
func TestPlanNotesLoops(t *testing.T) {
	const src = `saga: p
steps:
  - {id: look, http: GET https://a.example/look}
  - id: each
    foreach: ${steps.look.output.pages}
    steps: [{id: get, http: GET https://a.example/%s}]
  - id: way
    switch:
      - {when: steps.look.output.n > 3, steps: [{id: x, set: 1}]}
`
	for page, want := range map[string]string{"1": "", "1, cost: 0.10 USD": "the worst case counts one iteration of each, whose number is not known"} {
		if got := strings.Join(makePlan(t, fmt.Sprintf(src, page), `null`, nil).Notes, "\n"); got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
}

// A stub is the output of a step in every iteration, or in the one that its path names.
func TestPlanStubsInLoops(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - id: each
    foreach: [1, 2]
    steps: [{id: get, http: GET https://a.example/1}]
  - {id: all, set: "${steps.each.output}"}
`, `null`, map[string]json.RawMessage{"get": json.RawMessage(`4`), "each[1].get": json.RawMessage(`5`)})
	if got := lines(p); got[len(got)-1] != "all set = [4,5]" {
		t.Error(strings.Join(got, "\n"))
	}
}

// A plan has the request of each compensation and what it may cost, or says why there is none.
func TestPlanOfCompensations(t *testing.T) {
	for _, c := range []struct{ more, want string }{
		{"", "DELETE   "},
		{", cost: 0.10 USD", "DELETE 0.10  "},
		{", cost: 0 USD", "DELETE   "},
		{", when: output.id == 1", "DELETE   "},
		{", when: output.id == 2", "   skipped: its `when` is false"},
		{", when: steps.look.output.paid", "DELETE  steps.look.output.paid "},
		{", when: output.none", "DELETE   fails: `compensate.when` could not be evaluated"},
	} {
		p := makePlan(t, `saga: p
steps:
  - {id: look, http: GET https://a.example/look}
  - id: pay
    http: POST https://a.example/pays
    in_doubt: retry
    compensate: {http: DELETE https://a.example/pays/1`+c.more+`}
`, `null`, map[string]json.RawMessage{"pay": json.RawMessage(`{"id":1}`)})
		u, method := p.Steps[1].Undo, ""
		if u.Request != nil {
			method = u.Request.Method
		}
		if got := strings.Join([]string{method, u.Cost, u.If, u.Note}, " "); !strings.HasPrefix(got, c.want) || u.Note == "" && got != c.want {
			t.Errorf("%q: %q, want %q", c.more, got, c.want)
		}
	}
}

// A plan reports at its step a key that cannot be sent, and an input that its action refuses. A
// value that is not known yet may be right, so nothing is reported.
func TestPlanOfWrongValues(t *testing.T) {
	action := actionsOf("action: refund\ninput: {amount: number}\nhttp: POST https://pay.example/refunds\nbody: {amount: \"${input.amount}\"}\nin_doubt: retry\n")
	const put = "http: \"PUT https://a.example/1\", compensate: none, "
	for _, c := range []struct{ step, want string }{
		{put + "idempotency: {key: \"${steps.look.output}\"}", ""},
		{put + "idempotency: {key: \"${steps.known.output}\"}", "fails: the idempotency key is not"},
		{put + "idempotency: {body: key}, body: \"${steps.look.output}\"", ""},
		{put + "idempotency: {body: key}, body: \"${steps.known.output}\"", "fails: the idempotency key goes into the body"},
		{"use: refund, with: {amount: \"${steps.look.output}\"}, compensate: none", ""},
		{"use: refund, with: {amount: \"${steps.known.output}\"}, compensate: none", "fails: `with` breaks the input"},
	} {
		p := makePlanWith(t, dsl.Options{Kinds: kinds.All(), Actions: action}, "saga: p\nsteps:\n  - {id: look, http: GET https://a.example/look}\n  - {id: known, set: \"${input.x}\"}\n  - {id: do, "+c.step+"}\n", `{"x":"a b"}`, nil)
		if got := p.Steps[2].Note; !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.step, got, c.want)
		}
	}
}

// A key that goes into the body is in a plan's body, too, whose other fields may be unknown.
func TestPlanOfAKeyInTheBody(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - {id: look, http: GET https://a.example/look}
  - {id: do, http: PUT https://a.example/1, compensate: none, idempotency: {body: key}, body: {a: "${steps.look.output.a}"}}
`, `null`, nil)
	if got, want := string(p.Steps[1].Request.Body), `{"key":"`+p.Steps[1].Key+`","a":"‹look.a›"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
