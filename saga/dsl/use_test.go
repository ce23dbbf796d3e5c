package dsl_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	diffs "github.com/google/go-cmp/cmp"

	"recourse/idempotency"
	"recourse/saga"
	"recourse/saga/dsl"
)

const useRefund = "saga: x\nvars: {pay: https://pay.example}\nsteps:\n  - {id: a, use: refund, with: {charge: c, amount: 1}"

func TestUse(t *testing.T) {
	d := mustParse(t, useRefund+"}\n  - {id: b, use: ping@3}\n")
	a, b := d.ByID["a"], d.ByID["b"]
	if a.Kind != "http" || a.Use.String() != "refund@7" || b.Use.String() != "ping@3" {
		t.Errorf("%s %s, %s %s", a.Kind, a.Use, b.Kind, b.Use)
	}
	if diff := diffs.Diff(map[string]int{"refund": 7}, d.Pins); diff != "" {
		t.Errorf("only what names no version is pinned (-want +got):\n%s", diff)
	}
	if a.Retry.Attempts != 6 || a.Timeout != 12*time.Second || a.Deadline != 5*time.Minute || a.KeyWindow != 48*time.Hour || a.Cost.Reserve == nil ||
		a.Output == nil || a.Expect.That == nil || a.Expect.Status == nil || a.InDoubt.Policy != saga.VerifyIt || a.InDoubt.Otherwise != saga.RetrySame ||
		a.Idempotency.Name != "X-Request-Id" || a.Key == nil || a.Compensate == nil || a.Compensate.ID != "a" || !a.Compensate.NeedsOutput {
		t.Errorf("the step lacks what its action sets: %+v", a)
	}
	if d.Currency != "EUR" || !slices.Equal(d.Secrets, []string{"PAY_KEY"}) || !slices.Equal(d.VarsUsed, []string{"pay"}) {
		t.Errorf("the definition lacks what its actions need: %s %v %v", d.Currency, d.Secrets, d.VarsUsed)
	}
	if b.Retry.Attempts != 4 || b.Timeout != 30*time.Second || b.InDoubt.Declared || b.Compensate != nil {
		t.Errorf("the step has what its action does not set: %+v", b)
	}
}

// An action's own settings have priority over the defaults of a definition.
func TestUseWithDefaults(t *testing.T) {
	d := mustParse(t, strings.Replace(useRefund, "steps:", "defaults: {retry: 9, timeout: 9s, in_doubt: fail}\nsteps:", 1)+"}\n  - {id: b, use: ping}\n  - {id: c, use: refund, with: {charge: c, amount: 1}, retry: {max: 2s}}\n")
	a, b, c := d.ByID["a"], d.ByID["b"], d.ByID["c"]
	if a.Retry.Attempts != 6 || a.Timeout != 12*time.Second || a.InDoubt.Policy != saga.VerifyIt {
		t.Errorf("the defaults have priority over the action: %+v", a)
	}
	if b.Retry.Attempts != 9 || b.Timeout != 9*time.Second || b.InDoubt.Policy != saga.Fail {
		t.Errorf("the defaults are not used: %+v", b)
	}
	if c.Retry.Attempts != 6 || c.Retry.Max != 2*time.Second {
		t.Errorf("retry as a map does not change the action's: %+v", c.Retry)
	}
}

func TestUseOverrides(t *testing.T) {
	d := mustParse(t, useRefund+`, output: "${result.status}", expect: {status: 200}, retry: none, timeout: 1s, deadline: 2s, cost: 0.10 EUR,
       idempotency: {query: k}, in_doubt: ask, key_window: 3h, compensate: none, on_error: continue, when: saga.id != ""}`+"\n")
	a := d.ByID["a"]
	if a.Retry.Attempts != 1 || a.Timeout != time.Second || a.Deadline != 2*time.Second || a.KeyWindow != 3*time.Hour || a.Cost.Fixed == nil || a.Cost.From != nil ||
		a.Expect.That != nil || a.InDoubt.Policy != saga.Ask || a.InDoubt.Verify != nil || a.Idempotency != (idempotency.Placement{In: idempotency.Query, Name: "k"}) ||
		a.Key != nil || a.Compensate != nil || !a.NoCompensation || !a.Continue || a.When == nil {
		t.Errorf("the step's keys do not take the place of the action's: %+v", a)
	}
	again := mustParse(t, useRefund+"}\n").ByID["a"]
	if again.Compensate == nil || again.NoCompensation || again.Retry.Attempts != 6 {
		t.Error("overriding changed the action")
	}
}

// In a compensation and in a status check an action brings its request, and what has a meaning
// there.
func TestUseElsewhere(t *testing.T) {
	d := mustParse(t, `saga: x
vars: {pay: https://pay.example}
steps:
  - id: a
    http: POST https://a.example/
    in_doubt: {verify: {use: ping, found: "true"}}
    compensate: {use: refund, with: {charge: "${output.id}", amount: 1, note: "${key}"}}
`)
	c, q := d.ByID["a"].Compensate, d.ByID["a"].InDoubt.Verify.Call
	if c.Use == nil || c.Retry.Attempts != 0 || c.Timeout != 12*time.Second || c.Key == nil || !c.NeedsOutput || c.Step.Compensate != nil || c.Output != nil || c.InDoubt.Declared {
		t.Errorf("compensation %+v", c)
	}
	if q.Use == nil || q.Kind != "http" || d.ByID["a"].Use != nil {
		t.Errorf("query %+v", q)
	}
}

func TestParseAction(t *testing.T) {
	a, err := actions("refund", 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "refund" || a.Description == "" || len(a.SHA256) != 64 || a.Step.Kind != "http" || len(a.Keys) != 10 || a.Currency != "EUR" ||
		!slices.Equal(a.Secrets, []string{"PAY_KEY"}) || !slices.Equal(a.VarsUsed, []string{"pay"}) || len(a.Warnings) > 0 {
		t.Errorf("%+v", a)
	}
	if v, wrong := a.Input.Apply(map[string]any{"charge": "x", "amount": 1}); len(wrong) > 0 || v.(map[string]any)["currency"] != "EUR" {
		t.Errorf("input %v, %v", v, wrong)
	}
	tell, err := actions("tell", 0)
	if err != nil || len(tell.Warnings) != 1 || tell.Warnings[0].Code != "blind-retry" || tell.Warnings[0].Pointer != "/http" {
		t.Errorf("%v, warnings %+v", err, tell.Warnings)
	}
	if _, errs := dsl.ParseAction("tell.yaml", tell.Source, dsl.Options{Kinds: options().Kinds, Strict: true}); errs == nil {
		t.Error("a warning passes strictly")
	}
}

func TestIsAction(t *testing.T) {
	for src, want := range map[string]bool{
		"action: a\nhttp: GET https://a.example": true, `{"description": "saga: x", "action": "a"}`: true, "saga: x\nsteps: []": false,
		"saga: x\naction: y": false, "# action: a\n": false, "[action]": false, "a: {action: 1}": false, "\t": false, "": false, "action": false,
	} {
		if got := dsl.IsAction([]byte(src)); got != want {
			t.Errorf("IsAction(%q) = %v", src, got)
		}
	}
}

// The corpus and the source say the same of what an action sets.
func TestActionKeysAreStepKeys(t *testing.T) {
	own := map[string]bool{"action": true, "description": true, "input": true, "input_schema": true, "secrets": true, "agents": true, "once": true, "irreversible": true}
	for _, key := range dsl.ActionKeys() {
		if !own[key] && !slices.Contains(dsl.StepKeys(), key) {
			t.Errorf("%s is no key of a step", key)
		}
		delete(own, key)
	}
	if len(own) > 0 {
		t.Errorf("missing %v", slices.Sorted(maps.Keys(own)))
	}
}
