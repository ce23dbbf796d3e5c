package crashmatrix_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/crashmatrix"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// compile compiles a definition that uses the actions in some directories. sources are those of the
// actions.
func compile(t *testing.T, name, src string, dirs ...string) (def *saga.Definition, sources [][]byte) {
	t.Helper()
	actions := make(map[string]*saga.Action)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !dsl.IsAction(text) {
				continue
			}
			act, errs := dsl.ParseAction(file, text, dsl.Options{Kinds: kinds.All()})
			if errs != nil {
				t.Fatal(errs)
			}
			act.Version = 1
			actions[act.Name] = act
			sources = append(sources, text)
		}
	}
	def, errs := dsl.Parse(name, []byte(src), dsl.Options{Kinds: kinds.All(), Actions: func(name string, _ int) (*saga.Action, error) {
		if actions[name] == nil {
			return nil, fmt.Errorf("there is no action %s", name)
		}
		return actions[name], nil
	}})
	if errs != nil {
		t.Fatal(errs)
	}
	return def, sources
}

func matrix(t *testing.T, src string, o crashmatrix.Options, dirs ...string) *crashmatrix.Matrix {
	t.Helper()
	def, sources := compile(t, "test.yaml", src, dirs...)
	o.Sources = sources
	m, err := crashmatrix.Run(t.Context(), def, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// line returns what identifies a row, and its verdict.
func line(r crashmatrix.Row) string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Step, r.Way, r.Fault))
	if r.Then != nil {
		text += fmt.Sprintf(", then %s %s %s", r.Then.Step, r.Then.Way, r.Then.Fault)
	}
	return text + ": " + string(r.Verdict)
}

func find(m *crashmatrix.Matrix, want string) bool {
	for _, r := range m.Rows {
		if line(r) == want {
			return true
		}
	}
	return false
}

var wanted = regexp.MustCompile(`(?m)^# want: (.*)$`)

// Each broken definition has the row that its comment names.
func TestBrokenDefinitions(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	faulty := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := wanted.FindSubmatch(src)
			if want == nil {
				t.Fatal("the file does not say what is found")
			}
			m := matrix(t, string(src), crashmatrix.Options{})
			if !find(m, string(want[1])) {
				t.Errorf("there is no row %q:", want[1])
				for _, r := range m.Rows {
					t.Log(line(r), r.Why)
				}
			}
			if m.Faulty() {
				faulty++
			}
			if m.Rows[0].Verdict != crashmatrix.OK || m.Rows[0].End != saga.Succeeded {
				t.Errorf("it is broken without a fault, too: %+v", m.Rows[0])
			}
			for _, n := range m.Notes {
				t.Errorf("note: %s", n)
			}
		})
	}
	if faulty < 10 {
		t.Errorf("%d definitions have faults, want at least 10", faulty)
	}
}

// No example has a fault, and each of them runs to its goal on made-up answers.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../examples/actions/exchange.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := matrix(t, string(src), crashmatrix.Options{}, "../../examples/actions", "../../examples/agent")
			for _, r := range m.Rows {
				if r.Verdict.Faulty() {
					t.Errorf("%s: %s", line(r), r.Why)
				}
			}
			if m.Rows[0].End != saga.Succeeded {
				t.Errorf("it ends as %s", m.Rows[0].End)
			}
			for _, n := range m.Notes {
				t.Errorf("note: %s", n)
			}
		})
	}
}

const twoSteps = `saga: two
steps:
  - id: charge
    http: POST https://pay.example/charges
    in_doubt: retry
    compensate: {http: "POST https://pay.example/charges/${output.id}/refund"}
  - id: ship
    http: POST https://ship.example/orders
    in_doubt: retry
    compensate: {http: "DELETE https://ship.example/orders/${output.id}"}
`

// The same definition gives the same rows, although several sagas run at the same time.
func TestSameRows(t *testing.T) {
	first := matrix(t, twoSteps, crashmatrix.Options{Pairs: true})
	again := matrix(t, twoSteps, crashmatrix.Options{Pairs: true})
	if d := cmp.Diff(first, again); d != "" {
		t.Error(d)
	}
	if first.Faulty() {
		t.Errorf("faults: %v", first.Counts)
	}
}

// A service that ignores the keys that it gets makes duplicates.
func TestLedgerIgnoresKeys(t *testing.T) {
	m := matrix(t, twoSteps, crashmatrix.Options{Ledger: crashmatrix.Never})
	for _, want := range []string{"charge do answer lost: duplicate", "charge do crash before send: ok", "charge undo answer lost: duplicate", "ship undo answer lost: ok"} {
		if !find(m, want) {
			t.Errorf("no row %s", want)
		}
	}
	keyless := strings.Replace(twoSteps, "    in_doubt: retry\n", "    in_doubt: retry\n    idempotency: none\n", 1)
	if m := matrix(t, keyless, crashmatrix.Options{}); !find(m, "charge do answer lost: declared") || m.Faulty() {
		t.Errorf("in_doubt: retry without a key is declared: %v", m.Counts)
	}
	if m := matrix(t, keyless, crashmatrix.Options{Ledger: crashmatrix.Always}); !find(m, "charge do answer lost: ok") {
		t.Errorf("a service that recognises repetitions without a key: %v", m.Counts)
	}
}

// Two faults: the second one strikes the compensation that the first one makes necessary.
func TestPairs(t *testing.T) {
	m := matrix(t, strings.Replace(twoSteps, `refund"}`, `refund", idempotency: none}`, 1), crashmatrix.Options{Pairs: true})
	if !find(m, "ship do 400, then charge undo answer lost: duplicate") {
		t.Error("the pair is not found")
	}
}

// Every kind of step runs: what people, workers, models, partners and other sagas do is made up.
func TestEveryKind(t *testing.T) {
	src := `saga: kinds
input: {order: string, note: "string?"}
steps:
  - id: pack
    task: pack
    input: {order: "${input.order}"}
    in_doubt: retry
    compensate: {task: unpack}
  - id: words
    llm: {model: m, prompt: "Hi", schema: {tone: string, nice: boolean}}
    expect: {that: result.body.choices != null}
  - id: tool
    mcp: {server: shop, tool: book, arguments: {tone: "${steps.words.output.json.tone}"}}
    compensate: {mcp: {server: shop, tool: cancel, arguments: {id: "${output?.id ?? key}"}}}
  - id: child
    run: other
    input: {tone: "${steps.words.output.json.tone}"}
  - id: agree
    approval: {title: "Go on?", approvers: [ann], form: {amount: integer}}
  - id: paid
    signal: paid
  - id: rest
    sleep: 3d
  - id: each
    foreach: ${steps.list.output}
    steps:
      - id: one
        http: PUT https://a.example/things/${item.name}
        body: {n: "${item.count + 1}"}
        compensate: {http: "DELETE https://a.example/things/${item.name}"}
  - id: tell
    emit: com.example.done
    data: {amount: "${steps.agree.output.data.amount}", by: "${steps.paid.output.payer}"}
`
	src = strings.Replace(src, "  - id: each\n", "  - id: list\n    http: GET https://a.example/list\n  - id: each\n", 1)
	m := matrix(t, src, crashmatrix.Options{})
	if m.Rows[0].End != saga.Succeeded || m.Rows[0].Effects != 6 { // pack, tool, child, 3 things
		t.Errorf("without a fault: %+v", m.Rows[0])
	}
	for _, n := range m.Notes {
		t.Errorf("note: %s", n)
	}
	for _, r := range m.Rows {
		if r.Verdict.Faulty() {
			t.Errorf("%s: %s", line(r), r.Why)
		}
	}
	for _, want := range []string{"pack do answer lost: ok", "pack do 400: ok", "pack undo crash after send: ok", "words do 500: ok", "tool do answer lost: asks", "tool do 400: ok", "tool undo answer lost: asks", "tool undo none: ok", "child do crash before send: ok", "child undo none: ok", "agree do rejected: ok", "list do timeout: ok", "each[0].one do 500 with effect: ok", "each[0].one undo 400: asks"} {
		if !find(m, want) {
			t.Errorf("no row %s", want)
		}
	}
	if t.Failed() {
		for _, r := range m.Rows {
			t.Log(line(r), r.End, r.Why)
		}
	}
}

// Answers and the input of the user take the place of those that are made up.
func TestStubs(t *testing.T) {
	src := `saga: choice
input: {size: integer}
steps:
  - id: look
    http: GET https://a.example/things
  - id: way
    switch:
      - when: steps.look.output.kind == "big" && input.size > 10
        steps:
          - {id: big, http: "POST https://a.example/big", in_doubt: retry, idempotency: none}
      - steps:
          - {id: small, http: "PUT https://a.example/small"}
`
	given := crashmatrix.Options{Input: json.RawMessage(`{"size": 11}`), Stubs: map[string]json.RawMessage{"look": json.RawMessage(`{"kind": "big"}`)}}
	m := matrix(t, src, given)
	if !find(m, "big do answer lost: declared") || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "not reached: small.") {
		t.Errorf("%v %v", m.Counts, m.Notes)
	}
	given.Input = json.RawMessage(`{"size": 9}`)
	if m := matrix(t, src, given); find(m, "big do answer lost: declared") || !find(m, "small do answer lost: ok") {
		t.Errorf("the other branch: %v %v", m.Counts, m.Notes)
	}
	def, _ := compile(t, "x", src)
	if _, err := crashmatrix.Run(t.Context(), def, crashmatrix.Options{Input: json.RawMessage(`{"size": "x"}`)}); err == nil || !strings.Contains(err.Error(), "/input/size") {
		t.Errorf("a bad input: %v", err)
	}
}

// A compensation that never runs strands the effect of a request, but a task may say in this way
// that it has none.
func TestConditionThatIsFalse(t *testing.T) {
	src := `saga: weigh
steps:
  - id: weigh
    task: weigh
    in_doubt: retry
    compensate: {task: weigh, when: "false"}
  - id: ship
    http: POST https://a.example/orders
    in_doubt: retry
    compensate: {http: "DELETE https://a.example/orders/${output.id}", when: "false"}
  - id: last
    http: PUT https://a.example/last
`
	if m := matrix(t, src, crashmatrix.Options{}); !find(m, "ship do 400: ok") || !find(m, "last do 400: stranded") || !find(m, "ship undo none: stranded") {
		t.Errorf("%v", m.Counts)
	}
}

// Another person than the one who has started the saga approves, with the data of the form. A stub
// may be the output of the step, as plans take it.
func TestApprovalsAndModelsOfPlans(t *testing.T) {
	src := `saga: payout
steps:
  - id: say
    llm: {model: m, prompt: "Hi", schema: {tone: string}}
  - id: ok
    approval: {title: "Pay?", approvers: [finance], form: {reference: string}}
    four_eyes: true
  - id: pay
    when: steps.ok.output.data.reference == "r1" && steps.say.output.json.tone == "kind"
    http: PUT https://a.example/pay
`
	stubs := map[string]json.RawMessage{"ok": json.RawMessage(`{"decision":"approved","by":"ann","data":{"reference":"r1"}}`), "say": json.RawMessage(`{"text":"x","json":{"tone":"kind"}}`)}
	if m := matrix(t, src, crashmatrix.Options{Stubs: stubs}); m.Rows[0].Effects != 1 || len(m.Notes) > 0 {
		t.Errorf("%+v %v", m.Rows[0], m.Notes)
	}
	stubs = map[string]json.RawMessage{"ok": json.RawMessage(`{"reference":"r1"}`), "say": json.RawMessage(`{"tone":"kind"}`)}
	if m := matrix(t, src, crashmatrix.Options{Stubs: stubs}); m.Rows[0].Effects != 1 || !find(m, "ok do rejected: ok") {
		t.Errorf("%+v %v", m.Rows[0], m.Notes)
	}
}

// The status check gets an answer for which its condition is true only if the effect exists.
func TestStatusCheckIsAnswered(t *testing.T) {
	for _, found := range []string{"result.body.count > 0", "len(result.body.items) > 0", `result.body.state == "paid"`, "result.body.exists", "result.body.payment != null", "len(result.body) > 0"} {
		m := matrix(t, `saga: pay
steps:
  - id: pay
    http: POST https://a.example/pay
    idempotency: none
    in_doubt: {verify: {http: "GET https://a.example/pay?key=${key}", found: '`+found+`', output: "${result.body}"}}
    compensate: none
`, crashmatrix.Options{})
		if m.Faulty() || len(m.Notes) > 0 || !find(m, "pay do answer lost: ok") || !find(m, "pay do timeout with effect: ok") {
			t.Errorf("%s: %v %v", found, m.Counts, m.Notes)
		}
	}
}

// A service keeps the keys of each endpoint separately. Two steps whose own key is the same text
// have two effects if they send to different addresses, and the one without a compensation stays.
// At the same address the service refuses the key with another body, and repeats its answer to the
// same request.
func TestKeyOfTwoSteps(t *testing.T) {
	src := `saga: pair
input: {order: string}
steps:
  - id: hold
    http: POST https://a.example/holds
    body: {n: 1}
    idempotency: {header: Idempotency-Key, key: "${input.order}"}
    in_doubt: retry
    compensate: {http: "POST https://a.example/holds/${output.id}/release"}
  - id: ship
    http: POST https://a.example/orders
    body: {n: 2}
    idempotency: {header: Idempotency-Key, key: "${input.order}"}
    in_doubt: retry
  - id: last
    http: PUT https://a.example/last
`
	m := matrix(t, src, crashmatrix.Options{})
	if m.Rows[0].Effects != 3 || !find(m, "last do 400: stranded") {
		t.Errorf("different addresses: %+v %v", m.Rows[0], m.Counts)
	}
	same := strings.Replace(src, "a.example/orders", "a.example/holds", 1)
	m = matrix(t, same, crashmatrix.Options{})
	if m.Rows[0].End != saga.Compensated || len(m.Notes) == 0 || !strings.Contains(strings.Join(m.Notes, "\n"), "the key came with another request before") {
		t.Errorf("another body: %+v %v", m.Rows[0], m.Notes)
	}
	m = matrix(t, strings.Replace(same, "{n: 2}", "{n: 1}", 1), crashmatrix.Options{})
	if m.Rows[0].End != saga.Succeeded || m.Rows[0].Effects != 2 || len(m.Notes) > 0 {
		t.Errorf("the same request: %+v %v", m.Rows[0], m.Notes)
	}
	undos := strings.Replace(src, `/release"}`, `/release", idempotency: {header: Idempotency-Key, key: "${input.order}-undo"}}`, 1)
	undos = strings.Replace(undos, "    in_doubt: retry\n  - id: last", `    in_doubt: retry
    compensate: {http: "POST https://a.example/orders/${output.id}/cancel", idempotency: {header: Idempotency-Key, key: "${input.order}-undo"}}
  - id: last`, 1)
	if m = matrix(t, undos, crashmatrix.Options{}); m.Faulty() || !find(m, "last do 400: ok") {
		t.Errorf("compensations with one key: %v", m.Counts)
	}
	tasks := `saga: tasks
input: {order: string}
steps:
  - {id: one, task: pack, input: {n: 1}, idempotency: {body: ref, key: "${input.order}"}, in_doubt: retry, compensate: {task: unpack}}
  - {id: two, task: pack, input: {n: 2}, idempotency: {body: ref, key: "${input.order}"}, in_doubt: retry, compensate: {task: unpack}}
`
	if m = matrix(t, tasks, crashmatrix.Options{}); m.Rows[0].End != saga.Compensated || m.Faulty() {
		t.Errorf("tasks: %+v %v", m.Rows[0], m.Counts)
	}
}

// The answer to a compensation has what the compensation expects, as the answer to a step does.
func TestAnswerToACompensation(t *testing.T) {
	src := `saga: undos
steps:
  - id: hold
    http: POST https://a.example/holds
    in_doubt: retry
    compensate:
      http: POST https://a.example/holds/${output.id}/release
      expect: {status: 202, schema: {type: object, required: [released_by], properties: {released_by: {type: string}}}}
  - id: last
    http: PUT https://a.example/last
`
	if m := matrix(t, src, crashmatrix.Options{}); m.Faulty() || !find(m, "last do 400: ok") {
		t.Errorf("%v %+v", m.Counts, m.Rows)
	}
}
