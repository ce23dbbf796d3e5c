package expr

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// looped is an environment that refers to itself, next to the fuzzed input.
func looped(input []byte) MapEnv {
	env := sample()
	env["input"] = Raw(input)
	loop := map[string]any{"n": json.Number("1"), "s": "x"}
	loop["self"] = loop
	loop["list"] = []any{loop, []any{loop}}
	env["vars"] = loop
	return env
}

func seeds(f *testing.F) []string {
	f.Helper()
	return []string{
		`input.a`, `input?.a.b ?? 1`, `input.a[0][1:]`, `1e400 + 0.1 * -2 ** 3 / 7 % 2`, `map(input, #.x + #index)`, `vars == vars.self`,
		`json(vars)`, `uniq(vars.list)`, `let x = input; [x, x]`, `{a: 1, (key): 2}`, `"a" matches "a|b"`, `1..index`, `if true { 1 } else { 2 }`,
		`input | len()`, `a ? b : c`, `1 < 2 < 3`, `steps.charge.output.id`, `secrets.PAY_KEY`, `sort(input)`, `round(input, 2)`, "`}`", `"\u{1F600}"`,
		`{1: 2}`, `not not true`, `x not in y`, `#`, `.a`, `a.b()`, `b"x"`, `/* */ 1 // x`, `1e999999999999999999999`, `-0`, `sum(1..9)`, `flatten([[1]])`,
		`map(1..3, random(#) + len(uuid()))`, `0 < random(9007199254740992) < 5`, `let x = random(6); now() < uuid() && 0 <= x < 6`,
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
		f.Add("a ${" + s + "} $${ ${secrets.PAY_KEY}")
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, errs := Compile(src, sampleCheck())
		checkErrors(t, src, p == nil, errs)
		tpl, errs := ParseText(src, sampleCheck())
		checkErrors(t, src, tpl == nil, errs)
		if tpl != nil {
			a, errA := tpl.SealedJSON(sample())
			b, errB := tpl.SealedJSON(sample())
			if string(a) != string(b) || outcome("", errA) != outcome("", errB) {
				t.Fatalf("two renderings differ: %q %v, %q %v", a, errA, b, errB)
			}
			if errA == nil && !json.Valid(a) {
				t.Fatalf("not JSON: %q", a)
			}
		}
	})
}

func checkErrors(t *testing.T, src string, failed bool, errs []*Error) {
	t.Helper()
	if failed != (len(errs) > 0) {
		t.Fatalf("failed %v with %d errors", failed, len(errs))
	}
	last := 0
	for _, e := range errs {
		if e.Offset < 0 || e.Offset > len(src) || e.Code == "" || e.Detail == "" {
			t.Fatalf("a bad error: %+v", e)
		}
		if e.Offset < last {
			t.Fatalf("errors out of order: %v", errs)
		}
		if last = e.Offset; utf8.ValidString(src) && last < len(src) && !utf8.RuneStart(src[last]) {
			t.Fatalf("offset %d is inside a character", last)
		}
	}
}

func FuzzEval(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, []byte(`{"a": [1, {"b": 19.10}], "s": "x", "n": null}`))
		f.Add(s, []byte(`[1e400, "a", {"x": 1}, [`))
	}
	f.Fuzz(func(t *testing.T, src string, input []byte) {
		p, errs := Compile(src, sampleCheck())
		if errs != nil {
			return
		}
		a, errA := p.Eval(kept{looped(input)})
		b, errB := p.Eval(kept{looped(input)})
		if outcome("", errA) != outcome("", errB) {
			t.Fatalf("two evaluations differ: %v, %v", errA, errB)
		}
		if errA != nil {
			if e, ok := errors.AsType[*EvalError](errA); !ok || e.Code == "" || e.Detail == "" || e.Expr == "" {
				t.Fatalf("a bad error: %#v", errA)
			}
			return
		}
		s := newState(nil)
		s.fuel = 1 << 40
		encA, err := s.encode(nil, a)
		if err != nil || !json.Valid(encA) {
			t.Fatalf("the result is not JSON: %q, %v", encA, err)
		}
		if encB, _ := s.encode(nil, b); string(encA) != string(encB) {
			t.Fatalf("two evaluations differ: %s, %s", encA, encB)
		}
	})
}

func FuzzSeal(f *testing.F) {
	for _, s := range []string{`$`, `$${`, `${secrets.PAY_KEY}`, `$$${secrets.A}`, `{`, `\u0024{`, "\n\"\\", `${secrets.`} {
		f.Add(s, s)
	}
	tpl, errs := ParseText(`${input}|${secrets.PAY_KEY}${vars}`, sampleCheck())
	if errs != nil {
		f.Fatal(errs[0])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		if got, err := Unseal(seal(a), refuse, identity); err != nil || got != a {
			t.Fatalf("Unseal(seal(%q)) = %q, %v", a, got, err)
		}
		sealed, err := tpl.SealedJSON(MapEnv{"input": a, "vars": b})
		if err != nil {
			t.Fatal(err)
		}
		if names := SealedNames(string(sealed)); len(names) != 1 || names[0] != "PAY_KEY" {
			t.Fatalf("SealedNames(%q) = %v", sealed, names)
		}
		open, err := Unseal(string(sealed), func(string) (string, error) { return a + `"`, nil }, jsonQuote)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal([]byte(open), &got); err != nil || got != a+"|"+a+`"`+b {
			t.Fatalf("Unseal(%q) = %q, %v", sealed, open, err)
		}
	})
}
