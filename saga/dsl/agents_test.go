package dsl_test

import (
	"strings"
	"testing"

	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

func mustParseAction(t *testing.T, src string) *saga.Action {
	t.Helper()
	a, errs := dsl.ParseAction("action.yaml", []byte(src), options())
	if errs != nil {
		t.Fatalf("%s\n%v", src, errs)
	}
	return a
}

// TestAgents evaluates what agents.go compiles with only the values that a session has.
func TestAgents(t *testing.T) {
	a, err := actions("book", 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Irreversible || a.Agents.Approve || len(a.Agents.Limits) != 3 || a.Agents.Limits[0].Calls != 3 || a.Agents.Limits[0].Sum != nil ||
		a.Agents.Limits[1].Max.String() != "5000.00" || a.Agents.Limits[1].Calls != 0 || len(a.Warnings) > 0 {
		t.Errorf("%+v, policy %+v, warnings %v", a, a.Agents, a.Warnings)
	}
	env := func(price string, calls int, spent string) expr.MapEnv {
		s, err := retry.Amount(spent, "EUR")
		if err != nil {
			t.Fatal(err)
		}
		return expr.MapEnv{saga.ActionInput: expr.Raw(`{"traveller": "ann", "to": "OSL", "price": ` + price + `, "seats": 2}`), "session": saga.SessionRoot(calls, s)}
	}
	for _, tt := range []struct {
		price, spent string
		calls        int
		approve      bool
		adds         string
	}{
		{"1000", "0", 0, false, "2000"},
		{"1000.01", "0", 0, true, "2000.02"},
		{"0.10", "0", 4, false, "0.20"},
		{"0.10", "0", 5, true, "0.20"},
		{"0.10", "2000.40", 0, false, "0.20"},
		{"0.11", "2000.40", 0, true, "0.22"},
		{"-1", "0", 0, false, ""},
		{"1e300", "0", 0, true, ""},
	} {
		e := env(tt.price, tt.calls, tt.spent)
		if v, err := a.Agents.ApproveWhen.Eval(e); err != nil || v != tt.approve {
			t.Errorf("%+v: approval %v, %v", tt, v, err)
		}
		m, err := a.Agents.Limits[1].Adds(e)
		if (err != nil) != (tt.adds == "") || err == nil && m.Decimal() != tt.adds {
			t.Errorf("%+v: adds %s, %v", tt, m, err)
		}
		if once, err := a.Once.JSON(e); err != nil || string(once) != `{"who":"ann","to":"OSL"}` {
			t.Errorf("once %s, %v", once, err)
		}
	}
}

func TestLimitRefusesWhatIsNoNumber(t *testing.T) {
	a := mustParseAction(t, "action: a\nhttp: GET https://a.example/\nagents: {limits: [{sum: input.n, max: 0}]}\n")
	for value, want := range map[string]string{`"5"`: "must be a number, not string", `null`: "must be a number, not null", `-0.01`: "at least 0", `0`: ""} {
		m, err := a.Agents.Limits[0].Adds(expr.MapEnv{saga.ActionInput: expr.Raw(`{"n": ` + value + `}`)})
		if want == "" && (err != nil || !m.IsZero()) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %s, %v, want %q", value, m, err, want)
		}
	}
	if _, err := a.Agents.Limits[0].Adds(expr.MapEnv{saga.ActionInput: expr.Raw(`{}`)}); err == nil {
		t.Error("a value that is absent counts")
	}
}

// TestIrreversible says which calls of agents need an approval, by the action's effect and policy.
func TestIrreversible(t *testing.T) {
	const (
		get  = "http: GET https://a.example/\n"
		post = "http: POST https://a.example/\nin_doubt: retry\n"
		task = "task: {type: a}\nin_doubt: retry\n"
		llm  = "llm: {model: m, prompt: p}\n"
		undo = "compensate: {http: DELETE https://a.example/}\n"
	)
	for _, tt := range []struct {
		name, src    string
		irreversible bool
		policy       string // no, auto, approve, or when
		warning      string
	}{
		{"not for agents", post, true, "no", ""},
		{"a read", get + "agents: auto\n", false, "auto", ""},
		{"a model", llm + "agents: auto\n", false, "auto", ""},
		{"a write with an undo", post + undo + "agents: auto\n", false, "auto", ""},
		{"said so", post + undo + "irreversible: false\nagents: auto\n", false, "auto", ""},
		{"a write", post + "agents: auto\n", true, "auto", "irreversible-auto"},
		{"a task", task + "agents: auto\n", true, "auto", "irreversible-auto"},
		{"a task with an undo", task + undo + "agents: auto\n", false, "auto", ""},
		{"compensate: none", post + "compensate: none\nagents: auto\n", true, "auto", "irreversible-auto"},
		{"an undo of doubt alone", post + strings.Replace(undo, "}", ", on: in_doubt}", 1) + "agents: auto\n", true, "auto", "irreversible-auto"},
		{"declared", post + undo + "irreversible: true\nagents: auto\n", true, "auto", "irreversible-auto"},
		{"declared, with an approval", post + undo + "irreversible: true\nagents: approve\n", true, "approve", ""},
		{"declared, with a limit", post + undo + "irreversible: true\nagents: {limits: [{calls: 3}]}\n", true, "approve", ""},
		{"a write with a limit", post + "agents: {limits: [{calls: 3}]}\n", true, "approve", ""},
		{"a write with a condition", post + "agents: {approve_when: input.n > 1}\n", true, "approve", "dead-approve-when"},
		{"a write with the condition false", post + "agents: {approve_when: false}\n", true, "approve", "dead-approve-when"},
		{"a write with the condition true", post + "agents: {approve_when: true}\n", true, "approve", ""},
		{"an undo with a condition", post + undo + "agents: {approve_when: input.n > 1}\n", false, "when", ""},
		{"an undo with a limit", post + undo + "agents: {limits: [{calls: 3}]}\n", false, "auto", ""},
		{"an undo with an approval", post + undo + "agents: approve\n", false, "approve", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := mustParseAction(t, "action: a\n"+tt.src)
			policy := "no"
			switch p := a.Agents; {
			case p == nil:
			case p.Approve:
				policy = "approve"
			case p.ApproveWhen != nil:
				policy = "when"
			default:
				policy = "auto"
			}
			warning := ""
			for _, w := range a.Warnings {
				warning += w.Code
			}
			if a.Irreversible != tt.irreversible || policy != tt.policy || warning != tt.warning {
				t.Errorf("irreversible %v, policy %s, warning %q", a.Irreversible, policy, warning)
			}
		})
	}
}

// TestTaskAction holds an action whose body is a task to being used as any other.
func TestTaskAction(t *testing.T) {
	d := mustParse(t, "saga: x\nsteps:\n  - {id: a, use: book, with: {traveller: ann, to: OSL, price: 10}}\n  - {id: b, set: 1}\n")
	a := d.ByID["a"]
	q, ok := a.Body.(saga.Queued)
	if !ok || a.Kind != "task" || a.Use.String() != "book@7" || d.Pins["book"] != 7 || a.Compensate == nil || a.Compensate.Kind != "task" || !a.Compensate.NeedsOutput {
		t.Fatalf("%+v", a)
	}
	r, err := a.Body.(saga.Call).Request(expr.MapEnv{saga.ActionInput: expr.Raw(`{"traveller": "ann", "to": "OSL", "price": 10, "seats": 1}`), "key": "k"})
	if err != nil {
		t.Fatal(err)
	}
	kind, input, lease := q.Task(r)
	if kind != "flight.book" || string(input) != `{"who":"ann","to":"OSL","seats":1,"key":"k"}` || lease.String() != "10s" {
		t.Errorf("%s %s %s", kind, input, lease)
	}
	if a.Idempotency.Name != "request" || len(d.Warnings) > 0 {
		t.Errorf("%+v, warnings %v", a.Idempotency, d.Warnings)
	}
}
