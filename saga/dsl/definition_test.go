package dsl_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

func everything(tb testing.TB) *saga.Definition {
	return mustParse(tb, string(read(tb, "testdata/good/everything.yaml")))
}

func TestTopLevel(t *testing.T) {
	d := everything(t)
	if d.Name != "everything" || d.Description != "All keys, in all places.\n" || d.Stop {
		t.Errorf("Name %q, Description %q, Stop %v", d.Name, d.Description, d.Stop)
	}
	if want := 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond; d.Timeout != want {
		t.Errorf("Timeout %v, want %v", d.Timeout, want)
	}
	if want := 90 * 24 * time.Hour; d.Retention != want {
		t.Errorf("Retention %v, want %v", d.Retention, want)
	}
	if d.Budget.Amount.String() != "1.50 EUR" || d.Budget.Tokens != 1000 || !d.Budget.Ask {
		t.Errorf("Budget %+v", d.Budget)
	}
	wantVars := []saga.Var{
		{Name: "region", Value: "eu"},
		{Name: "big", Value: json.Number("9007199254740993")},
		{Name: "list", Value: []any{json.Number("19.10"), json.Number("1e400"), "on", nil, "yes", "2024-01-31", "12:30", true}},
	}
	if diff := cmp.Diff(wantVars, d.Vars); diff != "" {
		t.Errorf("Vars (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PAY_KEY", "OTHER_1"}, d.Secrets); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pay", "region"}, d.VarsUsed); diff != "" {
		t.Errorf("VarsUsed (-want +got):\n%s", diff)
	}
	if len(d.ByID) != 11 || d.ByID["until"] == nil || d.ByID["told"] == nil {
		t.Errorf("ByID has %d steps, want 11", len(d.ByID))
	}
}

func TestParseRetention(t *testing.T) {
	for text, want := range map[string]time.Duration{"1m": time.Minute, "90d": 90 * 24 * time.Hour, "3650d": dsl.MaxDuration, "forever": saga.Forever} {
		if got, err := dsl.ParseRetention(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
		if d := mustParse(t, "saga: x\nretention: "+text+"\nsteps: [{id: a, set: 1}]\n"); d.Retention != want {
			t.Errorf("retention: %s is %v, want %v", text, d.Retention, want)
		}
	}
	for text, says := range map[string]string{"59s": "1m", "0s": "1m", "30": "unit", "never": "forever", "": "forever", "-1d": "forever", "3651d": "ten years", "Forever": "forever"} {
		if d, err := dsl.ParseRetention(text); err == nil || d != 0 || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want an error that says %q", text, d, err, says)
		}
	}
	if d := mustParse(t, "saga: x\nsteps: [{id: a, set: 1}]\n"); d.Retention != 0 {
		t.Errorf("without: %v", d.Retention)
	}
}

func TestStepPolicies(t *testing.T) {
	d := everything(t)
	base := retry.Policy{Attempts: 6, Initial: 2 * time.Second, Max: time.Minute, Factor: 2000, Jitter: 300}
	forever, none := base, base
	forever.Attempts, forever.Max = 0, 5*time.Minute
	none.Attempts = 1
	for id, want := range map[string]retry.Policy{
		"read": {Attempts: 9, Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 1500, Jitter: 250,
			On: []string{"timeout", "429", "5xx"}, NotOn: []string{"body_invalid"}},
		"write": base, "go": forever, "after": none,
	} {
		if diff := cmp.Diff(want, d.ByID[id].Retry); diff != "" {
			t.Errorf("retry of %s (-want +got):\n%s", id, diff)
		}
	}
	r := d.ByID["read"]
	if diff := cmp.Diff([]saga.StatusRange{{From: 200, To: 200}, {From: 200, To: 299}, {From: 404, To: 404}}, r.Expect.Status); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if r.Timeout != 5*time.Second || r.Deadline != time.Minute || r.Expect.Error != "no_order" || !r.Continue {
		t.Errorf("read: timeout %v, deadline %v, error %q, continue %v", r.Timeout, r.Deadline, r.Expect.Error, r.Continue)
	}
	if r.Cost.From.Source() != "result.body.cost" || r.Cost.Reserve.String() != "0.10 EUR" {
		t.Errorf("cost of read: %+v", r.Cost)
	}
	w := d.ByID["write"]
	if diff := cmp.Diff(idempotency.Placement{In: idempotency.Body, Name: "client_token"}, w.Idempotency); diff != "" || w.Key == nil {
		t.Errorf("key of write: %s %v", diff, w.Key)
	}
	if w.Timeout != 10*time.Second || w.KeyWindow != 7*24*time.Hour || w.Cost.Fixed.String() != "0.02 EUR" {
		t.Errorf("write: timeout %v, key_window %v, cost %v", w.Timeout, w.KeyWindow, w.Cost.Fixed)
	}
	v := w.InDoubt.Verify
	if w.InDoubt.Policy != saga.VerifyIt || w.InDoubt.Otherwise != saga.Fail || !w.InDoubt.Declared || v.After != 10*time.Second || v.Call.Timeout != 3*time.Second {
		t.Errorf("in_doubt of write: %+v, verify %+v", w.InDoubt, v)
	}
	if g := d.ByID["go"]; !g.Pivot || !g.NoCompensation || g.Idempotency.In != idempotency.None || g.InDoubt.Policy != saga.Ask {
		t.Errorf("go: %+v", g)
	}
	if a := d.ByID["after"]; a.InDoubt.Policy != saga.RetrySame || a.InDoubt.Otherwise != saga.Ask || a.InDoubt.Declared || a.Idempotency != idempotency.DefaultPlacement || a.KeyWindow != idempotency.DefaultWindow {
		t.Errorf("defaults of after: %+v", a)
	}
}

func TestCompensation(t *testing.T) {
	c := everything(t).ByID["write"].Compensate
	want := retry.Forever()
	want.Max = 10 * time.Minute
	if diff := cmp.Diff(want, c.Retry); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]journal.Class{journal.Succeeded}, c.On); diff != "" {
		t.Errorf("on (-want +got):\n%s", diff)
	}
	if c.ID != "write" || c.Kind != "http" || c.Order != saga.First || !c.NeedsOutput || c.Timeout != 20*time.Second || c.When == nil {
		t.Errorf("compensation: %+v", c)
	}
	d := mustParse(t, `
saga: x
steps:
  - id: a
    http: POST https://a.example/
    compensate: {http: "DELETE https://a.example/${key}"}
  - id: b
    http: POST https://a.example/
    compensate: {http: "DELETE https://a.example/${steps.b.output.id}"}
`)
	a, b := d.ByID["a"].Compensate, d.ByID["b"].Compensate
	if a.NeedsOutput || !b.NeedsOutput {
		t.Errorf("NeedsOutput: by key %v, by the step's output %v; want false, true", a.NeedsOutput, b.NeedsOutput)
	}
	if diff := cmp.Diff(retry.Forever(), a.Retry); diff != "" || a.Order != saga.Reverse || len(a.On) != 2 || a.Timeout != 30*time.Second {
		t.Errorf("defaults: %s order %q on %v timeout %v", diff, a.Order, a.On, a.Timeout)
	}
}

func TestDefaults(t *testing.T) {
	d := mustParse(t, `
saga: x
defaults: {timeout: 7s, in_doubt: ask}
steps:
  - {id: a, set: 1}
  - id: b
    http: POST https://a.example/
    retry: {initial: 2m}
    in_doubt: {verify: {http: "GET https://a.example/${key}", found: True}}
    pivot: True
  - {id: c, http: POST https://a.example/}
`)
	if got := d.ByID["a"].Timeout; got != 0 {
		t.Errorf("a set has the timeout %v", got)
	}
	b := d.ByID["b"]
	if b.Retry.Max != 2*time.Minute || !b.Pivot || b.Timeout != 7*time.Second {
		t.Errorf("b: max %v, pivot %v, timeout %v", b.Retry.Max, b.Pivot, b.Timeout)
	}
	if b.InDoubt.Otherwise != saga.Ask || b.InDoubt.Verify.After != 5*time.Second || b.InDoubt.Verify.Output != nil || b.InDoubt.Verify.Call.Kind != "http" {
		t.Errorf("b's verify: %+v %+v", b.InDoubt, b.InDoubt.Verify)
	}
	if c := d.ByID["c"].InDoubt; c.Policy != saga.Ask || !c.Declared {
		t.Errorf("c's in_doubt: %+v", c)
	}
	if len(d.Warnings) != 0 {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

// TestDataLikeSteps holds maps that look like steps to being data where they are data.
func TestDataLikeSteps(t *testing.T) {
	d := mustParse(t, `
saga: x
steps:
  - id: a
    set: {steps: [{id: b, set: 1}, {id: a, http: x}], id: b, fail: x}
  - id: b
    set: ${steps.a.output}
`)
	if len(d.ByID) != 2 {
		t.Errorf("%d steps, want 2", len(d.ByID))
	}
}

func TestNumbersKeepTheirLiteral(t *testing.T) {
	d := mustParse(t, "saga: x\nsteps:\n  - id: a\n    set: [9007199254740993, 19.10, 1e400, -0, 1E+2, 0.0, \"0777\", True]\n")
	got, err := d.ByID["a"].Body.(saga.Value).Eval(expr.MapEnv{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[9007199254740993,19.10,1e400,-0,1E+2,0.0,"0777",true]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeysKeepTheirText(t *testing.T) {
	d := mustParse(t, "saga: x\nsteps:\n  - id: a\n    set: {on: 1, yes: no, \"1\": 2, \"${x}\": 3}\n")
	got, err := d.ByID["a"].Body.(saga.Value).Eval(expr.MapEnv{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"on":1,"yes":"no","1":2,"${x}":3}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSameBytesSameHash(t *testing.T) {
	src := string(read(t, "../../examples/return.yaml"))
	a, b := mustParse(t, src), mustParse(t, src)
	if a.SHA256 != b.SHA256 || len(a.SHA256) != 64 || string(a.Source) != src {
		t.Errorf("hashes %q and %q", a.SHA256, b.SHA256)
	}
	if c := mustParse(t, src+"\n"); c.SHA256 == a.SHA256 {
		t.Error("another text has the same hash")
	}
}

func TestWarnings(t *testing.T) {
	step := func(id, keys string) string { return "  - {id: " + id + ", " + keys + "}\n" }
	const (
		get    = "http: GET https://a.example/"
		put    = "http: PUT https://a.example/"
		post   = "http: POST https://a.example/"
		undo   = "compensate: {http: DELETE https://a.example/}"
		undoOK = "compensate: {http: DELETE https://a.example/, on: succeeded}"
		llm    = "llm: {model: m, prompt: p, schema: {x: string, ok: boolean, lines: [string]}}"
		fed    = "model-output-feeds-write-without-approval a"
	)
	tests := []struct {
		name, src string
		want      []string
	}{
		{"a POST without in_doubt", step("a", post), []string{"blind-retry a"}},
		{"a PATCH without in_doubt", step("a", "http: PATCH https://a.example/"), []string{"blind-retry a"}},
		{"with in_doubt", step("a", post+", in_doubt: retry"), nil},
		{"PUT, DELETE and GET", step("a", put+", "+undo) + step("b", get), nil},
		{"an uncompensated write, then a call", step("a", put) + step("b", get), []string{"uncompensated-write a"}},
		{"then a fail", step("a", put) + step("b", "fail: x"), []string{"uncompensated-write a"}},
		{"then a fail in a branch", step("a", put) + step("b", "switch: [{steps: [{id: c, fail: x}]}]"), []string{"uncompensated-write a"}},
		{"in a branch, then a call after it", step("b", "switch: [{steps: [{id: a, http: PUT https://a.example/}]}]") + step("c", get), []string{"uncompensated-write a"}},
		{"then only what computes", step("a", put) + step("b", "set: 1") + step("c", "sleep: 1s"), nil},
		{"then only what may fail freely", step("a", put) + step("b", get+", on_error: continue"), nil},
		{"silenced", step("a", put+", compensate: none") + step("b", get), nil},
		{"the pivot", step("a", put+", pivot: true") + step("b", get), nil},
		{"after the pivot", step("a", put+", pivot: true") + step("b", put) + step("c", get), nil},
		{"before the pivot", step("a", put) + step("b", put+", pivot: true"), []string{"uncompensated-write a"}},
		{"the last write", step("a", get) + step("b", put), nil},
		{"the pivot, then a check", step("a", put+", pivot: true") + step("b", get+", expect: {that: result.body.ok}"), []string{"irreversible-before-fallible a"}},
		{"the pivot, then a fail", step("a", put+", pivot: true") + step("b", "fail: x, when: input.x"), []string{"irreversible-before-fallible a"}},
		{"no undoing, then a check", step("a", put+", compensate: none") + step("b", "fail: x"), []string{"irreversible-before-fallible a"}},
		{"no undoing in a loop, after the check", step("l", `foreach: "${input}", steps: [{id: b, `+get+`, expect: {that: result.body.ok}}, {id: a, `+put+`, compensate: none}]`), []string{"irreversible-before-fallible a"}},
		{"in a loop that is its own check", step("l", `repeat: {max: 3}, steps: [{id: a, `+put+`, compensate: none, expect: {that: result.body.ok}}]`), []string{"irreversible-before-fallible a"}},
		{"in a loop that goes on with the others", step("l", `foreach: "${input}", on_item_error: collect, steps: [{id: b, `+get+`, expect: {that: result.body.ok}}, {id: a, `+put+`, compensate: none}]`), nil},
		{"before a loop that goes on with the others", step("a", put) + step("l", `foreach: "${input}", on_item_error: collect, steps: [{id: b, `+get+`}]`), nil},
		{"before a block that may fail freely", step("a", put) + step("l", `on_error: continue, parallel: [{id: b, `+get+`}]`), nil},
		{"in a loop that goes on, before what may fail", step("l", `foreach: "${input}", on_item_error: collect, steps: [{id: a, `+put+`}]`) + step("b", get), []string{"uncompensated-write a"}},
		{"in a loop that goes on, inside one that does not", step("l", `foreach: "${input}", steps: [{id: k, foreach: [1], on_item_error: collect, steps: [{id: a, `+put+`}]}, {id: b, `+get+`}]`), []string{"uncompensated-write a"}},
		{"before a repeat that may reach its max", step("a", put) + step("l", "repeat: {until: index > 5, max: 3}, steps: [{id: b, set: 1}]"), []string{"uncompensated-write a"}},
		{"before a repeat that only counts", step("a", put) + step("l", "repeat: {max: 3}, steps: [{id: b, set: 1}]"), nil},
		{"a check that may fail freely", step("a", put+", pivot: true") + step("b", "fail: x, on_error: continue"), nil},
		{"compensation after the pivot", step("a", put+", pivot: true") + step("b", put+", "+undo), []string{"dead-compensation b"}},
		{"compensation of the pivot in doubt", step("a", put+", pivot: true, "+undo) + step("b", get), nil},
		{"compensation of the pivot's success", step("a", put+", pivot: true, "+undoOK) + step("b", get), []string{"dead-compensation a"}},
		{"compensation of the last step's success", step("a", put+", "+undoOK), []string{"dead-compensation a"}},
		{"compensation of the last step's success, which may run later", step("a", put+", compensate: {http: DELETE https://a.example/, on: succeeded, undo_within: 1h}"), nil},
		{"compensation of the pivot's success, which may not", step("a", put+", pivot: true, compensate: {http: DELETE https://a.example/, on: succeeded, undo_within: 1h}"), []string{"dead-compensation a"}},
		{"compensation of the last step", step("a", put+", "+undo), nil},
		{"compensation of a set, which runs", step("a", "set: 1, "+undo) + step("b", get), nil},
		{"compensation of a set in doubt", step("a", "set: 1, compensate: {http: DELETE https://a.example/, on: in_doubt}") + step("b", get), []string{"dead-compensation a"}},
		{"compensation of a fail", step("a", "fail: no, when: input.x, "+undo) + step("b", get), []string{"dead-compensation a"}},
		{"compensation of a read in doubt", step("a", get+", compensate: {http: DELETE https://a.example/, on: in_doubt}") + step("b", get), []string{"dead-compensation a"}},
		{"a pivot in a branch", step("a", "switch: [{steps: [{id: p, http: PUT https://a.example/, pivot: true}, {id: q, http: PUT https://a.example/, "+undo+"}]}]") + step("b", put+", "+undo) + step("c", get),
			[]string{"dead-compensation q"}},
		{"a model's words", step("m", llm) + step("a", put+`, body: {t: "${steps.m.output.text}"}`), []string{fed}},
		{"its words by way of a set", step("m", llm) + step("b", `set: {x: "${steps.m.output.json.x}"}`) + step("a", `http: "PUT https://a.example/${steps.b.output.x}"`), []string{fed}},
		{"read only", step("m", llm) + step("a", `http: "GET https://a.example/${steps.m.output.text}"`), nil},
		{"what a search with its words finds", step("m", llm) + step("b", `http: "GET https://a.example/${steps.m.output.text}"`) + step("a", put+`, body: "${steps.b.output}"`), nil},
		{"a way chosen by it", step("m", llm) + step("a", put+", when: steps.m.output.json.ok"), nil},
		{"agreed to", step("m", llm) + step("b", `approval: {title: Well?, show: "${steps.m.output.text}"}`) + step("a", put+`, body: "${steps.m.output.text}"`), nil},
		{"agreed to unseen", step("m", llm) + step("b", "approval: {title: Well?}") + step("a", put+`, body: "${steps.m.output.text}"`), []string{"approval-hides a"}},
		{"agreed to, as its request", step("m", llm) + step("b", "approval: {title: Well?, covers: [a]}") + step("a", put+`, body: "${steps.m.output.text}"`), nil},
		{"other data than the approval shows", step("b", `approval: {title: Well?, show: "${input.order}"}`) + step("a", put+`, body: {order: "${input.order}", amount: "${input.amount}"}`), []string{"approval-hides a"}},
		{"a part of what the approval shows", step("b", `approval: {title: Well?, show: "${input.order}"}`) + step("a", put+`, body: {id: "${input.order.id}", by: "${steps.b.output.by}", at: "${vars.x}"}`), nil},
		{"more than the approval shows", step("b", `approval: {title: "Order ${input.order.id}?"}`) + step("a", put+`, body: "${input.order}"`), []string{"approval-hides a"}},
		{"shown by one of two approvals", step("b", `approval: {title: "${input.a}?"}`) + step("c", `approval: {title: "${input.b}?"}`) + step("a", put+`, body: "${input.a + input.b}"`), nil},
		{"made from what is shown", step("b", `approval: {title: "${input.a}?"}`) + step("s", `set: "${input.a * 2}"`) + step("a", put+`, body: "${steps.s.output}"`), nil},
		{"made from what is not shown", step("b", `approval: {title: "${input.a}?"}`) + step("s", `set: "${input.b * 2}"`) + step("a", put+`, body: "${steps.s.output}"`), []string{"approval-hides a"}},
		{"read before the approval", step("s", get) + step("b", "approval: {title: Well?}") + step("a", put+`, body: "${steps.s.output}"`), []string{"approval-hides a"}},
		{"read after the approval", step("b", "approval: {title: Well?}") + step("s", get) + step("a", put+`, body: "${steps.s.output}"`), nil},
		{"items of a list that is shown", step("b", `approval: {title: "${input.a}?"}`) + step("l", `foreach: "${input.a}", steps: [{id: a, `+put+`, body: "${item.x} ${index}", compensate: none}]`), nil},
		{"items of a list that is not shown", step("b", `approval: {title: "${input.b}?"}`) + step("l", `foreach: "${input.a}", steps: [{id: a, `+put+`, body: "${item.x}", compensate: none}]`), []string{"approval-hides a"}},
		{"a read after an approval", step("b", "approval: {title: Well?}") + step("a", `http: "GET https://a.example/${input.a}"`), nil},
		{"an approval in another branch", step("s", `switch: [{when: input.x, steps: [{id: b, approval: {title: Well?}}]}, {steps: [{id: a, `+put+`, body: "${input.a}", compensate: none}]}]`), nil},
		{"agreed to before it was written", step("b", "approval: {title: Well?}") + step("m", llm) + step("a", put+`, body: "${steps.m.output.text}"`), []string{fed}},
		{"for each of its lines", step("m", llm) + step("b", `foreach: "${steps.m.output.json.lines}", steps: [{id: a, `+put+`, body: "${item}", compensate: none}]`), []string{fed}},
		{"for each of others' lines", step("b", `foreach: "${input.lines}", steps: [{id: m, `+llm+`}, {id: a, `+put+`, body: "${item} ${index}", compensate: none}]`), nil},
		{"what a search for each of its lines finds", step("m", llm) + step("b", `foreach: "${steps.m.output.json.lines}", steps: [{id: q, http: "GET https://a.example/${item}"}], output: "${steps.q.output}"`) + step("a", put+`, body: "${steps.b.output}"`), nil},
		{"its lines, as the loop gives them back", step("m", llm) + step("b", `foreach: "${steps.m.output.json.lines}", steps: [{id: q, http: "GET https://a.example/"}], output: "${item}"`) + step("a", put+`, body: "${steps.b.output}"`), []string{fed}},
		{"its lines again, as the loop inside gives them back", step("m", llm) + step("o", `foreach: "${steps.m.output.json.lines}", as: line, steps: [{id: l, foreach: ["${line}"], steps: [{id: q, http: "GET https://a.example/"}], output: "${item}"}, {id: a, `+put+`, body: "${steps.l.output}", compensate: none}]`), []string{fed}},
		{"its lines, as a loop inside over others gives them back", step("m", llm) + step("o", `foreach: "${steps.m.output.json.lines}", as: line, steps: [{id: l, foreach: [1], steps: [{id: q, http: "GET https://a.example/"}], output: "${line}"}, {id: a, `+put+`, body: "${steps.l.output}", compensate: none}]`), []string{fed}},
		{"what a search inside for each of its lines finds", step("m", llm) + step("o", `foreach: "${steps.m.output.json.lines}", as: line, steps: [{id: l, foreach: ["${line}"], steps: [{id: q, http: "GET https://a.example/${item}"}], output: "${steps.q.output}"}, {id: a, `+put+`, body: "${steps.l.output}", compensate: none}]`), nil},
		{"others' items, not what is made of its lines", step("m", llm) + step("b", `foreach: "${input.lines}", steps: [{id: q, set: "${steps.m.output.text}"}], output: "${item}"`) + step("a", put+`, body: "${steps.b.output}"`), nil},
		{"what a loop has given", step("b", `foreach: "${input.lines}", steps: [{id: m, `+llm+`}]`) + step("a", put+`, body: "${steps.b.output}"`), []string{fed}},
		{"the rounds before", step("b", `repeat: {max: 3}, steps: [{id: a, `+put+`, body: "${history}", compensate: none}, {id: m, `+llm+`}]`), []string{fed}},
		{"in a compensation", step("m", llm) + step("a", put+`, compensate: {http: "DELETE https://a.example/${steps.m.output.text}"}`), nil},
		{"fresh for nothing", step("a", get+", fresh_for: 1m") + step("b", "set: 1"), []string{"fresh-for-unused a"}},
		{"fresh for what follows the pivot", step("b", put+", pivot: true") + step("a", get+", fresh_for: 1m") + step("c", put+`, body: "${steps.a.output}"`), []string{"fresh-for-unused a"}},
		{"fresh for a write", step("a", get+", fresh_for: 1m") + step("b", put+`, body: "${steps.a.output}"`), nil},
		{"fresh for what it allows", step("a", get+", fresh_for: 1m, expect: {that: result.body.ok}") + step("b", put), nil},
		{"an output, and none of its status check", step("a", post+`, output: {id: "${result.body.id}"}, in_doubt: {verify: {http: GET https://a.example/, found: result.status == 200}}`), []string{"verify-without-output a"}},
		{"an output of both", step("a", post+`, output: {id: "${result.body.id}"}, in_doubt: {verify: {http: GET https://a.example/, found: result.status == 200, output: {id: 1}}}`), nil},
		{"no output of its own", step("a", post+`, in_doubt: {verify: {http: GET https://a.example/, found: result.status == 200}}`), nil},
		{"an action, and another output", step("a", "use: hold, in_doubt: {verify: {http: GET https://a.example/, found: result.status == 200}}"), []string{"verify-without-output a"}},
		{"compensation in finally", step("a", get) + "finally:\n" + step("b", put+", "+undo), []string{"dead-compensation b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			def := mustParse(t, "saga: x\nsteps:\n"+tt.src)
			for _, w := range def.Warnings {
				id := ""
				for _, name := range []string{"a", "b", "p", "q"} {
					if s := def.ByID[name]; s != nil && cmp.Equal(quotedFirst(w.Detail), name) {
						id = name
					}
				}
				got = append(got, w.Code+" "+id)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnFailureStopIsNoWarning(t *testing.T) {
	d := mustParse(t, "saga: x\non_failure: stop\nsteps:\n  - {id: a, http: PUT https://a.example/}\n  - {id: b, http: GET https://a.example/}\n")
	if len(d.Warnings) != 0 || !d.Stop {
		t.Errorf("Stop %v, warnings %v", d.Stop, d.Warnings)
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "0s": 0, "3650d": dsl.MaxDuration,
		"": -1, "30": -1, "1.5s": -1, "-1s": -1, "1s1h": -1, "3651d": -1, "3650d1s": -1, "999999999ms": 999999999 * time.Millisecond, "9999999999s": -1, "1 s": -1, "1S": -1,
	} {
		got, err := dsl.ParseDuration(s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
}
