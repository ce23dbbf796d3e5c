package machine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

var planTime = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func makePlan(t *testing.T, src, input string, stubs map[string]json.RawMessage) machine.Plan {
	t.Helper()
	return makePlanWith(t, dsl.Options{Kinds: kinds.All()}, src, input, stubs)
}

func makePlanWith(t *testing.T, o dsl.Options, src, input string, stubs map[string]json.RawMessage) machine.Plan {
	t.Helper()
	def, errs := dsl.Parse("plan.yaml", []byte(src), o)
	if errs != nil {
		t.Fatal(errs)
	}
	data, findings := machine.BeginPlan(def, machine.StartOptions{Version: 1, Input: json.RawMessage(input)})
	if findings != nil {
		t.Fatal(findings)
	}
	p, err := machine.MakePlan(def, data, stubs, planTime)
	if err != nil {
		t.Fatal(err)
	}
	again, err := machine.MakePlan(def, data, stubs, planTime)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, again); d != "" {
		t.Errorf("the same plan twice differs: %s", d)
	}
	return p
}

// lines writes a plan's steps in short.
func lines(p machine.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		line := s.Path + " " + s.Kind
		if s.Skipped {
			line += " skipped"
		}
		if len(s.If) > 0 {
			line += " if " + strings.Join(s.If, ", ")
		}
		if s.Request != nil {
			line += " " + s.Request.Method + " " + s.Request.URL + " " + string(s.Request.Body)
		}
		if s.Request == nil && len(s.Output) > 0 {
			line += " = " + string(s.Output)
		}
		if s.WakeAt != nil {
			line += " until " + s.WakeAt.Format("15:04")
		}
		if s.Pivot {
			line += " pivot"
		}
		if s.Note != "" {
			line += " (" + s.Note + ")"
		}
		if s.Undo != nil && s.Undo.Request != nil {
			line += " undo " + s.Undo.Request.Method + " " + s.Undo.Request.URL
		}
		out = append(out, line)
	}
	return out
}

const planned = `saga: p
budget: 1.00 USD
steps:
  - id: who
    set: {name: "${input.name}"}
  - id: rest
    sleep: 30m
  - id: gift
    when: input.gift
    http: POST https://a.example/gifts
    in_doubt: retry
    compensate: none
  - id: charge
    http: POST https://a.example/charges
    in_doubt: retry
    retry: 3
    cost: 0.10 USD
    body: {name: "${steps.who.output.name}"}
    compensate:
      http: POST https://a.example/charges/${output.id}/refund
  - id: way
    switch:
      - when: input.gift
        steps:
          - {id: wrap, set: paper}
      - steps:
          - id: ship
            http: POST https://a.example/ships
            in_doubt: retry
            body: {charge: "${steps.charge.output.id}"}
            compensate:
              http: DELETE https://a.example/ships?key=${key}
              order: last
  - id: seal
    http: PUT https://a.example/seals/${input.name}
    pivot: true
  - id: mail
    http: POST https://a.example/mails
    in_doubt: fail
    on_error: continue
    compensate: none
finally:
  - id: note
    http: PUT https://a.example/notes/${saga.status}
`

func TestPlan(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": false}`, map[string]json.RawMessage{"charge": json.RawMessage(`{"id":"ch_1"}`)})
	want := []string{
		`who set = {"name":"ada"}`,
		"rest sleep until 08:30",
		"gift http skipped",
		`charge http POST https://a.example/charges {"name":"ada"} undo POST https://a.example/charges/ch_1/refund`,
		"way switch",
		`ship http POST https://a.example/ships {"charge":"ch_1"} undo DELETE https://a.example/ships?key=` + keyOf(p, "ship"),
		"seal http PUT https://a.example/seals/ada  pivot",
		"mail http POST https://a.example/mails ",
		"note http PUT https://a.example/notes/succeeded ",
	}
	if d := cmp.Diff(want, lines(p)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"charge", "ship"}, p.Undo); d != "" {
		t.Errorf("undo: %s", d)
	}
	if p.WorstCase != "0.30" || p.Currency != "USD" || p.Budget != "1.00" {
		t.Errorf("cost %s of %s %s", p.WorstCase, p.Budget, p.Currency)
	}
	for _, s := range p.Steps {
		if s.Request != nil && (s.Key == "" || s.Undo != nil && s.Undo.Key == s.Key) {
			t.Errorf("keys of %s: %q and %+v", s.Path, s.Key, s.Undo)
		}
	}
}

func keyOf(p machine.Plan, path string) string {
	for _, s := range p.Steps {
		if s.Path == path {
			return s.Key
		}
	}
	return ""
}

// Without stubs the plan is whole: what is not known has a placeholder.
func TestPlanWithoutStubs(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": false}`, nil)
	if len(p.Steps) != 9 {
		t.Fatalf("%d steps, want all 9: %v", len(p.Steps), lines(p))
	}
	got := strings.Join(lines(p), "\n")
	for _, want := range []string{"undo POST https://a.example/charges/‹charge.id›/refund", `ships {"charge":"‹charge.id›"}`} {
		if !strings.Contains(got, want) || strings.Contains(got, " (") {
			t.Errorf("the plan lacks %s:\n%s", want, got)
		}
	}
}

// TestPlanOfUnknowns plans definitions whose course depends on what nobody knows yet.
func TestPlanOfUnknowns(t *testing.T) {
	const first = "saga: p\nsteps:\n  - {id: look, http: GET https://a.example/look}\n"
	tests := []struct {
		name, src, input string
		want             []string
	}{
		{"an optional input that is left out is null as a whole value, and a text needs a default for it", `saga: p
input: {memo: string?}
steps:
  - {id: debit, http: POST https://a.example/debits, in_doubt: retry, compensate: {http: "DELETE https://a.example/debits/${output.id}"}}
  - {id: note, http: POST https://a.example/notes, in_doubt: retry, compensate: none, body: {memo: "${input.memo}", safe: "${input?.memo}", text: "Memo: ${input.memo ?? 'none'}"}}
`, `{}`, []string{"debit http POST https://a.example/debits  undo DELETE https://a.example/debits/‹debit.id›", `note http POST https://a.example/notes {"memo":null,"safe":null,"text":"Memo: none"}`}},
		{"an input that is required and left out", `saga: p
input: {order: string, lines: [{sku: string, n: integer = 1}], at: {city: string, zip: string}}
steps:
  - {id: ask, http: "GET https://a.example/orders/${input.order}?sku=${input.lines[0].sku}&n=${input.lines[0].n}&zip=${input.at.zip}&then=${input.lines[1].sku}"}
`, `{"lines": [{"sku": "a"}, {}], "at": {"city": "Oslo"}}`, []string{"ask http GET https://a.example/orders/‹input.order›?sku=a&n=1&zip=‹input.at.zip›&then=‹input.lines[1].sku› "}},
		{"no input at all", "saga: p\nsteps:\n  - {id: ask, http: \"GET ${vars.pay}/x/${input.id}\"}\n", ``, []string{"ask http GET ‹vars.pay›/x/‹input.id› "}},
		{"computed values", first + `  - {id: sum, set: {n: "${steps.look.output.n * 2}", known: 1}}
  - {id: send, http: PUT https://a.example/x, compensate: none, body: {n: "${steps.sum.output.n}", k: "${steps.sum.output.known}", t: "at ${steps.look.output.city}"}}
`, `null`, []string{"look http GET https://a.example/look ", `sum set = {"n":"‹look.n * 2›","known":1}`, `send http PUT https://a.example/x {"n":"‹look.n * 2›","k":1,"t":"at ‹look.city›"}`}},
		{"a condition", first + `  - {id: gift, when: steps.look.output.gift, set: paper}
  - {id: send, http: PUT https://a.example/x, compensate: none, body: "${steps.gift.output}"}
  - {id: last, when: steps.gift.status == "skipped", fail: no gift}
  - {id: never, when: 1 > 2 && steps.look.output.gift, set: 1}
  - {id: end, set: 1}
`, `null`, []string{"look http GET https://a.example/look ", `gift set if steps.look.output.gift = "paper"`, `send http PUT https://a.example/x "‹gift›"`,
			`last fail if steps.gift.status == "skipped" (fails: no gift)`, "never set skipped", "end set = 1"}},
		{"a switch", first + `  - id: way
    switch:
      - {when: 1 > 2, steps: [{id: no, set: 1}]}
      - {when: steps.look.output.n > 3, steps: [{id: many, http: PUT https://a.example/many, compensate: {http: DELETE https://a.example/many}}]}
      - {when: steps.look.output.n > 1, steps: [{id: few, set: few}]}
      - {steps: [{id: none, when: steps.look.output.z, set: none}]}
  - {id: send, http: "PUT https://a.example/${steps.way.output}", compensate: none}
`, `null`, []string{"look http GET https://a.example/look ", "way switch (one of these branches at most)", "many http if steps.look.output.n > 3 PUT https://a.example/many  undo DELETE https://a.example/many",
			`few set if steps.look.output.n > 1 = "few"`, `none set if none of the branches before, steps.look.output.z = "none"`, "send http PUT https://a.example/‹way› "}},
		{"a loop over what is not known", first + `  - id: pages
    foreach: ${steps.look.output.pages}
    as: page
    steps:
      - {id: get, http: "GET https://a.example/${page.name}"}
  - {id: send, set: "${len(steps.pages.output)}"}
`, `null`, []string{"look http GET https://a.example/look ", "pages foreach (for each of ‹look.pages›)", "pages[0].get http GET https://a.example/‹page.name› ", `send set = "‹len(pages)›"`}},
		{"a loop until something is known", first + `  - id: poll
    repeat: {until: steps.ask.output.done, max: 5}
    steps:
      - {id: ask, http: "GET https://a.example/${index}"}
  - {id: rest, sleep: "${steps.poll.output[0].wait}"}
  - {id: end, set: 1}
`, `null`, []string{"look http GET https://a.example/look ", "poll repeat (until steps.ask.output.done, at most 5 times)", "poll[0].ask http GET https://a.example/0 ", "rest sleep (it is known only when the saga runs)", "end set = 1"}},
		{"a loop that comes first, and one whose length is known", `saga: p
steps:
  - id: poll
    repeat: {until: steps.ask.output.done, max: 5}
    steps: [{id: ask, http: "GET https://a.example/${index}"}]
  - id: each
    foreach: [1, 2]
    steps: [{id: twice, set: "${item * 2}"}]
  - {id: sum, set: "${steps.each.output}"}
`, `null`, []string{"poll repeat (until steps.ask.output.done, at most 5 times)", "poll[0].ask http GET https://a.example/0 ", "each foreach", "each[0].twice set = 2", "each[1].twice set = 4", "sum set = [2,4]"}},
		{"an approval, random numbers and a child", `saga: p
steps:
  - {id: ok, approval: {title: Go?}}
  - {id: name, set: {id: "${uuid()}", by: "${steps.ok.output.by}", yes: "${steps.ok.output.decision == \"approved\"}"}}
  - {id: kid, run: other, input: {id: "${steps.name.output.id}"}}
`, `null`, []string{"ok approval", `name set = {"id":"‹uuid()›","by":"‹ok.by›","yes":true}`}},
		{"what fails for another reason is reported at its step", `saga: p
steps:
  - {id: a, set: [1]}
  - {id: b, set: "${steps.a.output[1]}"}
  - {id: c, set: 1}
`, `null`, []string{`a set = [1]`, "b set (fails: `set` could not be evaluated: missing_field: steps.a.output[…]: the index is outside the list of 1; use ?? for a default (in: steps.a.output[1]))"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := lines(makePlan(t, tt.src, tt.input, nil))
			if d := cmp.Diff(tt.want, got[:min(len(got), len(tt.want))]); d != "" {
				t.Errorf("(-want +got) %s\n%s", d, strings.Join(got, "\n"))
			}
		})
	}
}

// TestPlanNeedsNoData plans every definition of the examples and the demo with nothing at all:
// there is a request for every step that sends one, and no step fails.
func TestPlanNeedsNoData(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../examples/*.yaml", "../../internal/cli/demo/definitions/*.yaml", "../dsl/testdata/good/everything.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if slices.ContainsFunc(plansOfUse, func(p planOfUse) bool { return p.file == file }) {
			continue // it needs actions, which TestPlanOfUse has
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			checkNeedsNoData(t, makePlan(t, string(src), ``, nil))
		})
	}
}

// checkNeedsNoData checks a plan that was made without any data: there is a request for every step
// that sends one, and no step fails.
func checkNeedsNoData(t *testing.T, p machine.Plan) {
	t.Helper()
	for _, s := range p.Steps {
		switch {
		case s.Kind != "fail" && strings.Contains(s.Note, "fails"), s.Undo != nil && (s.Undo.Request == nil || s.Undo.Note != ""):
			t.Errorf("%s: %q, undo %+v", s.Path, s.Note, s.Undo)
		case s.Request == nil && (s.Kind == "http" || s.Kind == "task" || s.Use != "") && !s.Skipped:
			t.Errorf("%s has no request: %q", s.Path, s.Note)
		case strings.ContainsAny(string(s.Output)+s.Note, "\ufdd0\ufdd1"):
			t.Errorf("%s shows marks", s.Path)
		}
	}
	if len(p.Steps) == 0 {
		t.Error("no steps")
	}
}

// planOfUse is a definition whose steps use the actions in a directory, and what its plan has.
type planOfUse struct {
	file, actions string
	uses          int // how many steps of the plan use an action
	want          []string
}

var plansOfUse = []planOfUse{
	{"../../examples/agent-loop.yaml", "../../examples/agent", 3, []string{
		`work[0].look http if steps.think.output.json.action == "look" GET ‹vars.world›/orders/orders/‹work[0].think.json.order›/returnable`,
		`POST ‹vars.world›/things {"text":"‹work[0].think.json.text›"} undo DELETE ‹vars.world›/things/‹work[0].note.id›`,
		`POST ‹vars.world›/pay/refunds {"order":"‹work[0].think.json.order›","amount":"‹input.amount›"} undo POST ‹vars.world›/pay/refunds/‹work[0].refund.id›/cancel`,
	}},
	{"../../examples/actions/exchange.yaml", "../../examples/actions", 1, []string{
		`refund http POST ‹vars.pay›/refunds {"order":"‹input.order›","amount":"‹input.amount›","reason":"exchanged for ‹input.sku›"} undo POST ‹vars.pay›/refunds/‹refund.id›/cancel`,
	}},
	{"../dsl/testdata/good/use.yaml", "../dsl/testdata/actions", 4, []string{
		`back http POST https://pay.example/refunds {"charge":"‹input.charge›","amount":"‹input.amount›","currency":"EUR","note":null}`,
	}},
	{"../../examples/agents/refund/support.yaml", "../../examples/agents/refund/actions", 3, []string{
		`work-refund http POST ‹vars.pay›/refunds {"order":"‹input.order›","amount":"‹input.amount›"} undo POST ‹vars.pay›/refunds/‹work[0].work-tools[1].work-refund.id›/cancel`,
	}},
}

// TestPlanOfUse plans the definitions that use actions with nothing at all, as TestPlanNeedsNoData
// does the others: values that `with` passes on are placeholders in the action's requests.
func TestPlanOfUse(t *testing.T) {
	for _, tt := range plansOfUse {
		t.Run(filepath.Base(tt.file), func(t *testing.T) {
			src, err := os.ReadFile(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			p := makePlanWith(t, dsl.Options{Kinds: kinds.All(), Actions: actionsIn(tt.actions)}, string(src), ``, nil)
			checkNeedsNoData(t, p)
			uses := 0
			for _, s := range p.Steps {
				if s.Use != "" {
					uses++
				}
			}
			if uses != tt.uses {
				t.Errorf("%d steps use an action, not %d", uses, tt.uses)
			}
			got := strings.Join(lines(p), "\n")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("the plan lacks %s:\n%s", want, got)
				}
			}
		})
	}
}

// actionsIn finds the actions in the files of a directory, each in any version.
func actionsIn(dir string) func(name string, version int) (*saga.Action, error) {
	return func(name string, version int) (*saga.Action, error) {
		src, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
		if err != nil {
			return nil, err
		}
		a, errs := dsl.ParseAction(name+".yaml", src, dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			return nil, errs
		}
		a.Version = max(version, 1)
		return a, nil
	}
}

func TestPlanOtherBranch(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": true}`, nil)
	if got := strings.Join(lines(p), "\n"); !strings.Contains(got, "wrap set") || strings.Contains(got, "ship http") || !strings.Contains(got, "gift http POST") {
		t.Error(got)
	}
}

func TestPlanThatFails(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - {id: make, http: PUT https://a.example/things/1, compensate: {http: DELETE https://a.example/things/1}}
  - {id: stop, fail: not today}
  - {id: never, set: 1}
`, `null`, nil)
	last := p.Steps[len(p.Steps)-1]
	if len(p.Steps) != 2 || last.Path != "stop" || !strings.Contains(last.Note, "not today") {
		t.Errorf("%v %q", lines(p), last.Note)
	}
	if d := cmp.Diff([]string{"make"}, p.Undo); d != "" {
		t.Error(d)
	}
}

// A stub is the output of a step that computes it, too.
func TestPlanStubsWhatIsComputed(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - {id: draw, set: "${random(6)}"}
  - {id: next, set: "${steps.draw.output + 1}"}
`, `null`, map[string]json.RawMessage{"draw": json.RawMessage(`4`)})
	if d := cmp.Diff([]string{"draw set = 4", "next set = 5"}, lines(p)); d != "" {
		t.Error(d)
	}
}

// A plan ends at a step that fails after the pivot, where the saga would wait for a person.
func TestPlanThatFailsAfterThePivot(t *testing.T) {
	for name, step := range map[string]string{
		"a missing field":  `set: "${steps.pay.output.id}"`,
		"a fail":           `when: steps.pay.output.bad, fail: no`,
		"a loop's maximum": `repeat: {until: steps.x.output == 2, max: 2}, steps: [{id: x, set: 1}]`,
	} {
		p := makePlan(t, `saga: p
steps:
  - {id: pay, http: POST https://pay.example/, pivot: true}
  - id: both
    parallel:
      - {id: note, `+step+`}
      - {id: pause, sleep: 5s}
  - {id: last, set: 1}
`, `null`, map[string]json.RawMessage{"pay": json.RawMessage(`{"bad":true}`)})
		got := strings.Join(lines(p), "\n")
		if !strings.Contains(got, "(fails: ") || !strings.Contains(got, "pause sleep") || strings.Contains(got, "last") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// A plan puts placeholders into a copy of the defaults: they would be in the input of later sagas.
func TestPlanKeepsDefaults(t *testing.T) {
	def, errs := dsl.Parse("d.yaml", []byte("saga: d\ninput_schema: {properties: {c: {default: {}, required: [n]}}}\nsteps: [{id: s, set: '${input.c.n}'}]\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	if _, wrong := machine.BeginPlan(def, machine.StartOptions{Version: 1}); wrong != nil {
		t.Fatal(wrong)
	}
	if d, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1}); len(wrong) != 1 {
		t.Errorf("the start of a saga after the plan: %s, %v", d.Input, wrong)
	}
}

// A plan of a loop that sends a large input again and again is cut before it fills the memory.
func TestPlanOfManyBytes(t *testing.T) {
	def, errs := dsl.Parse("plan.yaml", []byte(`saga: p
steps:
  - id: l
    foreach: "${1..1000}"
    steps: [{id: a, http: PUT https://a.example/1, body: "${input}", compensate: {http: PUT https://a.example/2, body: "${input}"}}]
`), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	data, _ := machine.BeginPlan(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)})
	p, err := machine.MakePlan(def, data, nil, planTime)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Steps); n < 100 || n > 200 || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "MiB") {
		t.Errorf("%d steps, %v", n, p.Notes)
	}
}

// Defaults of the items of defaults multiply with each level. A plan, and the sample that a store
// makes of a new definition, do not fill in those that a start would not fill in either, whatever
// else is wrong with the input.
func TestPlanOfCostlyDefaults(t *testing.T) {
	list := "[" + strings.Repeat("{},", 59) + "{}]"
	schema := `{type: object}`
	for range 5 { // 60^5 defaults
		schema = `{type: object, properties: {x: {default: ` + list + `, items: ` + schema + `}}}`
	}
	def, errs := dsl.Parse("plan.yaml", []byte("saga: p\ninput_schema: "+schema+"\nsteps:\n  - {id: a, set: \"${input.x}\"}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	for _, tt := range []struct{ name, input, want string }{
		{"no input", ``, "schema_too_costly"},
		{"a large number", `{"n": 1e99999}`, "number_too_large"},
		{"defaults that are not needed", `{"x": []}`, ""},
	} {
		began := time.Now()
		_, findings := machine.BeginPlan(def, machine.StartOptions{Version: 1, Input: json.RawMessage(tt.input)})
		got := ""
		for _, f := range findings {
			got += f.Code
		}
		if took := time.Since(began); got != tt.want || took > 5*time.Second {
			t.Errorf("%s: %q after %v, want %q", tt.name, got, took, tt.want)
		}
	}
	if records := machine.Sample(def); len(records) < 3 {
		t.Errorf("the sample has %d records", len(records))
	}
}

// The worst case of very many attempts is not added up one by one, which would take minutes here.
func TestPlanOfManyAttempts(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - id: l
    foreach: "${1..3000}"
    max_items: 3000
    steps: [{id: a, http: GET https://a.example/1, cost: 0.01 USD, retry: 1000000}]
`, `null`, nil)
	if p.WorstCase != "30000000.00" {
		t.Error(p.WorstCase)
	}
}

func TestPlanCosts(t *testing.T) {
	p := makePlan(t, `saga: p
budget: 0.15 USD
steps:
  - {id: a, http: PUT https://a.example/1, cost: 0.10 USD, retry: forever, compensate: none}
  - {id: b, http: PUT https://a.example/2, cost: 0.10 USD, retry: none, compensate: none}
`, `null`, nil)
	if p.WorstCase != "0.20" || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "without limit") {
		t.Errorf("%s %v", p.WorstCase, p.Notes)
	}
	if note := p.Steps[1].Note; !strings.Contains(note, "budget") {
		t.Errorf("the budget does not cover b, but the note says %q", note)
	}
}

// The worst case of a loop counts each iteration if the list is known, and otherwise says that it
// counts one.
func TestPlanCostsOfALoop(t *testing.T) {
	const src = "saga: p\ninput: {list: [integer]}\nsteps:\n  - {id: look, http: \"GET https://a.example/list\"}\n  - id: each\n    foreach: ${%s}\n    steps:\n      - {id: a, http: \"PUT https://a.example/${index}\", cost: 0.10 USD, retry: none, compensate: none}\n"
	for list, want := range map[string]string{"input.list": "0.30", "steps.look.output.list": "0.10"} {
		p := makePlan(t, fmt.Sprintf(src, list), `{"list": [1, 2, 3]}`, nil)
		if unknown := want == "0.10"; p.WorstCase != want || strings.Contains(strings.Join(p.Notes, "\n"), "one iteration of each") != unknown {
			t.Errorf("%s: %s %q", list, p.WorstCase, p.Notes)
		}
	}
}

// TestPlanVars: a plan reads vars as a start does; the server's go before the definition's own.
func TestPlanVars(t *testing.T) {
	def, errs := dsl.Parse("v.yaml", []byte("saga: v\nvars: {a: own, b: own}\nsteps:\n  - {id: s, set: \"${vars.a} ${vars.b} ${vars.c}\"}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	data, wrong := machine.BeginPlan(def, machine.StartOptions{Version: 1, Vars: map[string]json.RawMessage{"a": json.RawMessage(`"server"`)}})
	if wrong != nil {
		t.Fatal(wrong)
	}
	p, err := machine.MakePlan(def, data, nil, planTime)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(p.Steps[0].Output), `"server own ‹vars.c›"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
