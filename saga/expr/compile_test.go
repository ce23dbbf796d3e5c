package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func strictCheck() *Check {
	return &Check{
		Roots: []string{"input", "steps", "vars", "item"},
		Step: func(id string) error {
			switch id {
			case "charge":
				return nil
			case "later":
				return &Error{Code: "step_runs_later", Detail: "later runs later"}
			}
			return fmt.Errorf("there is no step %s", id)
		},
		Type: func(root string) *Type {
			if root != "input" {
				return nil
			}
			return Fields(map[string]*Type{"x": Any(), "trip": Fields(map[string]*Type{"from": Exactly(KindString)}, nil)}, Any())
		},
		Secrets: []string{"PAY_KEY"},
	}
}

// brief is the errors as "offset code" each.
func brief(errs []*Error) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%d %s", e.Offset, e.Code))
	}
	return out
}

func TestCompileErrors(t *testing.T) {
	cases := []struct {
		src  string
		want []string
		says string
	}{
		{`input.x + steps.charge.output`, []string{}, ""},
		{``, []string{"0 expr_syntax"}, "empty"},
		{`1 +`, []string{"2 expr_syntax"}, "ends too early"},
		{`x.`, []string{"1 expr_syntax"}, "ends too early"},
		{`{`, []string{"0 expr_syntax"}, "ends too early"},
		{`{-: 1}`, []string{"1 expr_syntax"}, "a key is"},
		{`{a 17}`, []string{"3 expr_syntax"}, `"17" is not expected`},
		{`"abc`, []string{"4 expr_syntax"}, "closing quote"},
		{`filter(input.x)`, []string{"14 expr_syntax"}, "filter(list, # > 1)"},
		{`map(input.x, {sku: .sku})`, []string{"17 expr_syntax"}, "{{sku: .sku}}"},
		{`input.x | map({"a b": .sku})`, []string{"20 expr_syntax"}, "{{sku: .sku}}"},
		{`[1, {{a: 1}}]`, []string{"5 expr_syntax"}, "a key is"},
		{`input.x : 1`, []string{"8 expr_syntax"}, `":" is not expected`},
		{`${input.x}`, []string{"1 expr_syntax"}, "without ${"},
		{`@`, []string{"0 expr_syntax"}, "unrecognized character"},
		{`input.x = 1`, []string{"8 expr_syntax"}, "use =="},
		{`inpt.x`, []string{"0 unknown_root"}, "did you mean input?"},
		{`1 + foo + bar`, []string{"4 unknown_root", "10 unknown_root"}, ""},
		{`"é" + foo`, []string{"7 unknown_root"}, ""},
		{`steps`, []string{"0 unknown_step"}, "steps.charge.output"},
		{`steps[item].output`, []string{"0 unknown_step"}, ""},
		{`steps[0]`, []string{"0 unknown_step"}, ""},
		{`len(steps)`, []string{"4 unknown_step"}, ""},
		{`"charge" in steps`, []string{"12 unknown_step"}, ""},
		{`let s = steps; s.charge`, []string{"8 unknown_step"}, ""},
		{`steps.chrge.output`, []string{"0 unknown_step"}, "no step chrge"},
		{`steps["chrge"].output`, []string{"0 unknown_step"}, "no step chrge"},
		{`steps?.later.output`, []string{"0 step_runs_later"}, "later runs later"},
		{`input.trip.frm`, []string{"0 unknown_input"}, `did you mean "from"?`},
		{`secrets.PAY_KEY`, []string{"0 secret_in_expression"}, "whole of a ${…}"},
		{`secrets.PAY_KEY == "x"`, []string{"0 secret_in_expression"}, ""},
		{`secrets`, []string{"0 secret_in_expression"}, ""},
		{`[secrets][0].PAY_KEY`, []string{"1 secret_in_expression"}, ""},
		{`secrets[item]`, []string{"0 secret_in_expression"}, ""},
		{`secrets.PAYKEY`, []string{"0 unknown_secret"}, "did you mean PAY_KEY?"},
		{`foo(1)`, []string{"0 unknown_function"}, ""},
		{`lenn(1)`, []string{"0 unknown_function"}, "did you mean len?"},
		{`toJSON(1)`, []string{"0 unknown_function"}, "use json(x)"},
		{`date("x")`, []string{"0 unknown_function"}, "now(), in a set step"},
		{`nwo()`, []string{"0 unknown_function"}, "did you mean now?"},
		{`rand(6)`, []string{"0 unknown_function"}, "use random(n)"},
		{`now() + uuid() + random(2)`, []string{"0 not_journaled", "8 not_journaled", "17 not_journaled"}, "steps.<id>.output"},
		{`reduce([1], # + #acc)`, []string{"0 unknown_function"}, ""},
		{`sortBy([1], #)`, []string{"0 unknown_function"}, ""},
		{`take([1])`, []string{"0 wrong_arguments"}, "take(list, n)"},
		{`len(1, 2)`, []string{"0 wrong_arguments"}, ""},
		{`sum([1], #)`, []string{"0 wrong_arguments"}, ""},
		{`count([1])`, []string{"0 wrong_arguments"}, ""},
		{`input.x.trim()`, []string{"8 unsupported"}, "f(x)"},
		{`b"x"`, []string{"0 unsupported"}, ""},
		{`1; 2`, []string{"0 unsupported"}, ""},
		{`#`, []string{"0 expr_syntax"}, ""},
		{`map([1], #acc)`, []string{"9 unsupported"}, ""},
		{`$env`, []string{"0 unknown_root"}, ""},
		{`$env.x`, []string{"0 unknown_root"}, ""},
		{`let input = 1; input`, []string{"4 unsupported"}, ""},
		{`let len = 1; len`, []string{}, ""},
		{`"x" matches "[a"`, []string{"12 bad_pattern"}, "RE2"},
		{"\"\xff\"", []string{"0 expr_syntax"}, "UTF-8"},
		{`"\xff \ud800"`, []string{}, ""},
		{"1 + \x00", []string{"4 expr_syntax"}, ""},
		{`input.x ?? 1 + 2`, []string{"13 expr_syntax"}, "parentheses"},
		{strings.Repeat("(", 5000), []string{"0 too_long"}, "4096"},
		{strings.Repeat("1+", 100) + "1", []string{"71 too_deep"}, ""},
		{strings.Repeat("[", 2000) + strings.Repeat("]", 2000), []string{"64 too_deep"}, ""},
		{"input" + strings.Repeat(".a", 1000), []string{"1878 too_deep"}, ""},
		{strings.Repeat("1<(", 40) + "1" + strings.Repeat(")<1", 40), []string{"93 too_deep"}, ""},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%.40s", c.src), func(t *testing.T) {
			p, errs := Compile(c.src, strictCheck())
			if diff := cmp.Diff(c.want, brief(errs)); diff != "" {
				t.Fatalf("errors (-want +got):\n%s%v", diff, errs)
			}
			if (p == nil) != (len(errs) > 0) {
				t.Errorf("program %v with errors %v", p, errs)
			}
			if c.says != "" && !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("%v does not say %q", errs[0], c.says)
			}
		})
	}
}

func TestCompileWithoutSecrets(t *testing.T) {
	for _, chk := range []*Check{nil, {Roots: []string{"input"}}} {
		_, errs := Compile(`secrets.X`, chk)
		if len(errs) != 1 || errs[0].Code != CodeSecretNotAllowed || !strings.Contains(errs[0].Detail, "headers") {
			t.Errorf("errors = %v, want one secret_not_allowed that says where", errs)
		}
	}
	if _, errs := Compile(`input`, nil); len(errs) != 1 || errs[0].Code != CodeUnknownRoot {
		t.Errorf("a nil Check allowed a root: %v", errs)
	}
}

func TestRefs(t *testing.T) {
	cases := []struct {
		src  string
		want []Ref
	}{
		{`1`, []Ref{}},
		{`steps.charge.output.id`, []Ref{{"steps", []string{"charge", "output", "id"}}}},
		{`steps["charge"]?.output["id"]`, []Ref{{"steps", []string{"charge", "output", "id"}}}},
		{`input.a[0].b + input.a[0].c`, []Ref{{"input", []string{"a"}}}},
		{`input.a[item.k].b`, []Ref{{"input", []string{"a"}}, {"item", []string{"k"}}}},
		{`vars.b + vars.a + vars.b`, []Ref{{"vars", []string{"b"}}, {"vars", []string{"a"}}}},
		{`item`, []Ref{{"item", nil}}},
		{`map(input.xs, .y + vars.z)`, []Ref{{"input", []string{"xs"}}, {"vars", []string{"z"}}}},
		{`input.a[1:2] | len()`, []Ref{{"input", []string{"a"}}}},
		{`let v = input.q; v.r`, []Ref{{"input", []string{"q"}}}},
	}
	for _, c := range cases {
		p, errs := Compile(c.src, strictCheck())
		if errs != nil {
			t.Fatalf("%s: %v", c.src, errs[0])
		}
		if diff := cmp.Diff(c.want, p.Refs()); diff != "" {
			t.Errorf("%s refs (-want +got):\n%s", c.src, diff)
		}
		if p.Source() != c.src {
			t.Errorf("Source = %q, want %q", p.Source(), c.src)
		}
	}
}

func TestStepIsAskedOnceAUse(t *testing.T) {
	var asked []string
	chk := &Check{Roots: []string{"steps"}, Step: func(id string) error { asked = append(asked, id); return nil }}
	if _, errs := Compile(`steps.a.output.x.y + steps["b"].output + (steps.a.output ?? 1)`, chk); errs != nil {
		t.Fatal(errs[0])
	}
	if diff := cmp.Diff([]string{"a", "b", "a"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// The expressions of the examples that are part of the contract.
func TestContractExamples(t *testing.T) {
	chk := &Check{
		Roots: []string{"input", "steps", "vars", "saga", "result", "key", "output", "error", "query", "url"}, Secrets: []string{"PAY_KEY"},
	}
	for _, src := range []string{
		`POST ${vars.air}/bookings`, `${input.trip.from}-${input.trip.to}`, `GET ${vars.air}/bookings?client_ref=${key}`,
		`${result.body.items[0]}`, `DELETE ${vars.air}/bookings/${output.id}`, `${secrets.PAY_KEY}`,
		`${steps.flight.output.price + steps.hotel.output.total}`, `${steps.itinerary.output?.text ?? "Your booking is confirmed."}`,
		`Refund ${input.amount} for order ${input.order_id}?`, `com.shop.return.${saga.status}`, `${error?.title}`,
		`Give 4 queries that cover "${input.topic}".`, `GET ${vars.search}/v1/search?q=${urlencode(query)}`,
		`${take(uniq(flatten(steps.searches.output)), input.max_sources)}`, `Only ${len(steps.pages.output)} sources could be read`,
		`Key findings: ${json(steps.pages.output)}`, `Apply ${steps.critique.output.json.fixes} to: ${steps.draft.output.text}`,
		`${steps.revise.output?.text ?? steps.draft.output.text}`, `${saga.spent}`, `${url}`,
	} {
		if _, errs := ParseText(src, chk); errs != nil {
			t.Errorf("ParseText(%q) = %v", src, errs[0])
		}
	}
}

func TestAliases(t *testing.T) {
	p, errs := Compile("input.amount + vars.n", &Check{Roots: []string{"input", "vars"}, Aliases: map[string]string{"input": "given"}})
	if errs != nil {
		t.Fatal(errs)
	}
	env := sample()
	env["given"] = map[string]any{}
	if v, err := p.Eval(env); err == nil || !strings.Contains(err.Error(), "input.amount") {
		t.Errorf("%v, %v: want an error in the author's words", v, err)
	}
	env["given"] = map[string]any{"amount": 4}
	if v, err := p.Eval(env); err != nil || fmt.Sprint(v) != "7" {
		t.Errorf("%v, %v: want 7", v, err)
	}
	delete(env, "given")
	if v, err := p.Eval(env); err == nil {
		t.Errorf("%v: the environment's own input was read", v)
	}
}

func TestNeeds(t *testing.T) {
	for src, want := range map[string][][]string{
		`input.a.b`:                           {{"a", "b"}},
		`input`:                               {nil},
		`input["a"].b + input.c`:              {{"a", "b"}, {"c"}},
		`input.a?.b.c`:                        {{"a"}},
		`input?.a.b`:                          {nil},
		`input.a.b ?? input.c`:                nil,
		`input.a[input.n].b`:                  {{"n"}, {"a"}},
		`input.a[input.n].b ?? 1`:             {{"n"}},
		`(input.a ?? input.b).c`:              nil,
		`input.a[1:2]`:                        {{"a"}},
		`input.a > 1 ? input.b : input.c`:     {{"a"}},
		`input.a && input.b`:                  {{"a"}},
		`map(input.xs, .y + input.z)`:         {{"xs"}},
		`let v = input.q; v.r + input.s`:      {{"q"}, {"s"}},
		`!has(input.a, "b") || input.a.b > 1`: {{"a"}},
		`vars.a`:                              nil,
	} {
		p, errs := Compile(src, strictCheck())
		if errs != nil {
			t.Fatalf("%s: %v", src, errs[0])
		}
		if diff := cmp.Diff(want, p.Needs("input")); diff != "" {
			t.Errorf("%s needs (-want +got):\n%s", src, diff)
		}
	}
}
