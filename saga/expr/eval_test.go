package expr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type evalCase struct{ src, want string }

func runCases(t *testing.T, cases []evalCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.src, func(t *testing.T) {
			if got := evalJSON(t, c.src, sample()); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.src, got, c.want)
			}
		})
	}
}

func TestEvalNumbers(t *testing.T) {
	runCases(t, []evalCase{
		{`0.1 + 0.2`, `0.3`},
		{`19.10 * 2`, `38.20`},
		{`input.amount * 2`, `38.20`},
		{`input.big + 1`, `9007199254740994`},
		{`9007199254740993`, `9007199254740993`},
		{`99999999999999999999999`, `99999999999999999999999`},
		{`99999999999999999999999 + 1`, `100000000000000000000000`},
		{`1.50`, `1.50`},
		{`1e400`, `1e400`},
		{`1e400 * 1e400`, `1e800`},
		{`1.25e400 * 1e400`, `1.25e800`},
		{`1e999999999 + 1`, `<number_too_large>`},
		{`1e9999 + 1`, `<number_too_large>`},
		{`1e9000 * 1e9000`, `<number_too_large>`},
		{`1e-9000 * 1e-9000`, `<number_too_large>`},
		{`1e9000 + 0`, `1e9000`},
		{`0e999999999 + 1`, `1`},
		{`1e99999999999999999999 == 1`, `<number_too_large>`},
		{`1e999999999 > 1e999999998`, `true`},
		{`-1e999999999 < 1e-999999999`, `true`},
		{`1e2`, `1e2`},
		{`1e2 * 1`, `100`},
		{`0.00000000000000000001 * 1`, `0.00000000000000000001`},
		{`0.00000000000000000001 / 10`, `1e-21`},
		{`1 == 1.0`, `true`},
		{`100 == 1e2`, `true`},
		{`-0 == 0`, `true`},
		{`-0.00`, `0.00`},
		{`1.0 - 1`, `0.0`},
		{`10 / 4`, `2.5`},
		{`10 / 5`, `2`},
		{`100 / 10`, `10`},
		{`38.20 / 2`, `19.10`},
		{`1 / 3`, `0.3333333333333333333333333333333333`},
		{`2 / 3`, `0.6666666666666666666666666666666667`},
		{`0 / 5`, `0`},
		{`1e30 / 1`, `1000000000000000000000000000000`},
		{`1 / 0`, `<division_by_zero>`},
		{`0 / 0`, `<division_by_zero>`},
		{`7 % 3`, `1`},
		{`-7 % 3`, `-1`},
		{`7.0 % 3`, `1`},
		{`7.5 % 3`, `<wrong_type>`},
		{`7 % 0`, `<division_by_zero>`},
		{`1e999999 % 3`, `<number_too_large>`},
		{`2 ** 10`, `1024`},
		{`2 ^ 10`, `1024`},
		{`1.5 ** 2`, `2.25`},
		{`(-2) ** 3`, `-8`},
		{`5 ** 0`, `1`},
		{`2 ** 1000 > 1e301`, `true`},
		{`2 ** 1001`, `<wrong_type>`},
		{`2 ** -1`, `<wrong_type>`},
		{`2 ** 0.5`, `<wrong_type>`},
		{`1234567890 ** 1000`, `<number_too_large>`},
		{`1e9999 ** 1000`, `<number_too_large>`},
		{`1 < 2 && 2 < 10 && !(10 < 9)`, `true`},
		{`1 < 2 < 3`, `true`},
		{`1 < 3 < 2`, `false`},
		{`+5`, `5`},
		{`-input.amount`, `-19.10`},
		{`007`, `<expr_syntax>`},
		{`0x1F`, `<expr_syntax>`},
		{`1_000`, `<expr_syntax>`},
		{`.5`, `<expr_syntax>`},
		{`5.`, `<expr_syntax>`},
		{`1.5.3`, `<expr_syntax>`},
	})
}

func TestEvalPaths(t *testing.T) {
	runCases(t, []evalCase{
		{`input.amount`, `19.10`},
		{`input.huge`, `1e400`},
		{`input["name"]`, `"Ada"`},
		{`input.order.a[0]`, `1`},
		{`input.order.a[-1]`, `3`},
		{`input.order.a[3]`, `<missing_field>`},
		{`input.order.a[3] ?? 9`, `9`},
		{`input.order.a[-4] ?? 9`, `9`},
		{`input.order.a[1e100] ?? 9`, `9`},
		{`input.order.a[0.5]`, `<wrong_type>`},
		{`input.order.a["x"]`, `<wrong_type>`},
		{`input.order[0]`, `<wrong_type>`},
		{`input.order.a[1:]`, `[2,3]`},
		{`input.order.a[:-1]`, `[1,2]`},
		{`input.order.a[2:1]`, `[]`},
		{`input.order.a[-100:100]`, `[1,2,3]`},
		{`input.name[1:]`, `<wrong_type>`},
		{`input.nope`, `<missing_field>`},
		{`input.nope.deeper`, `<missing_field>`},
		{`input.nope ?? "d"`, `"d"`},
		{`input.nope.deeper ?? "d"`, `"d"`},
		{`input?.nope`, `null`},
		{`input?.nope.deeper`, `null`},
		{`input?.nope["deeper"]`, `null`},
		{`input?.nope.deeper[0].x`, `null`},
		{`input?.order.nope`, `<missing_field>`},
		{`input.nil.x`, `<missing_field>`},
		{`input.nil?.x`, `null`},
		{`input.nil?.x.y`, `null`},
		{`input?.nil.x`, `<missing_field>`},
		{`input.nil.x ?? 1`, `1`},
		{`input.nil ?? 1`, `1`},
		{`input.nil[1:] ?? []`, `[]`},
		{`input.nope ?? input.nope ?? 3`, `3`},
		{`len(input.nope) ?? 3`, `<missing_field>`},
		{`first(input.nope).x ?? 3`, `<missing_field>`},
		{`first([]) ?? 3`, `3`},
		{`input.order[input.nope] ?? 3`, `<missing_field>`},
		{`input.name.x`, `<wrong_type>`},
		{`input.name?.x`, `<wrong_type>`},
		{`input.name.x ?? 1`, `<wrong_type>`},
		{`steps.charge.output.id`, `"ch_1"`},
		{`steps["charge"].output.id`, `"ch_1"`},
		{`steps.skipped.output?.text ?? "d"`, `"d"`},
		{`steps.later.output ?? "d"`, `"d"`},
		{`steps.charge`, `<wrong_type>`},
		{`"output" in steps.charge`, `true`},
		{`keys(steps.charge)`, `["output"]`},
		{`error.title`, `<not_available>`},
		{`error?.title ?? "x"`, `<not_available>`},
		{`index + 1`, `3`},
		{`null ?? 1`, `1`},
		{`nil == null`, `true`},
		{`(input.nope ?? {a: 1}).a`, `1`},
		{`{a: 1}.a`, `1`},
		{`{"a": {"b": 2}}["a"].b`, `2`},
		{`[1, [2, 3]][1][0]`, `2`},
		{`let x = input.order; x.a[1] + x.z`, `3`},
		{`let x = 1; let y = x + 1; x * y`, `2`},
	})
}

func TestEvalOperators(t *testing.T) {
	runCases(t, []evalCase{
		{`"a" + "b"`, `"ab"`},
		{`"a" + 1`, `<wrong_type>`},
		{`[1] + [2]`, `<wrong_type>`},
		{`"a" < "b"`, `true`},
		{`"a" < 1`, `<wrong_type>`},
		{`null < 1`, `<wrong_type>`},
		{`"a" == 1`, `false`},
		{`"1" == 1`, `false`},
		{`[1, {"a": 2.0}] == [1.0, {a: 2}]`, `true`},
		{`{a: 1, b: null} == {a: 1}`, `false`},
		{`input.order == {a: [1,2,3], m: "<&>", z: 1}`, `true`},
		{`input.order != {}`, `true`},
		{`steps.charge == 1`, `<wrong_type>`},
		{`true && false`, `false`},
		{`true and not false`, `true`},
		{`false or true`, `true`},
		{`false && input.nope`, `false`},
		{`true || input.nope`, `true`},
		{`true && 1`, `<not_a_bool>`},
		{`1 && true`, `<not_a_bool>`},
		{`!1`, `<not_a_bool>`},
		{`input.yes ? 1 : input.nope`, `1`},
		{`input.name ? 1 : 2`, `<not_a_bool>`},
		{`if input.yes { 1 } else { 2 }`, `1`},
		{`2 in [1, 2.0]`, `true`},
		{`3 not in [1, 2]`, `true`},
		{`"a" in {"a": 1}`, `true`},
		{`1 in {"a": 1}`, `false`},
		{`"a" in "abc"`, `<wrong_type>`},
		{`"abc" contains "b"`, `true`},
		{`"abc" not contains "b"`, `false`},
		{`["a"] contains "a"`, `<wrong_type>`},
		{`"abc" startsWith "ab"`, `true`},
		{`"abc" endsWith "ab"`, `false`},
		{`"abc" matches "^a.c$"`, `true`},
		{`"abc" matches "("`, `<bad_pattern>`},
		{`"abc" matches ("(" + "")`, `<bad_pattern>`},
		{`"abc" matches "((a{100}){9}b{900}){1,1}c{900}"`, `<bad_pattern>`},
		{`"abc" matches ("a" + "b")`, `true`},
		{`1..3`, `[1,2,3]`},
		{`3..1`, `[]`},
		{`1..1e9`, `<out_of_fuel>`},
		{`-1e99..1e99`, `<out_of_fuel>`},
		{`{(string(1)): 2, 1.50: 3, x: 4}`, `{"1":2,"1.50":3,"x":4}`},
		{`{(1): 2}`, `<wrong_type>`},
		{`[1, 2] | len()`, `2`},
	})
}

func TestEvalPredicates(t *testing.T) {
	runCases(t, []evalCase{
		{`map(input.lines, .qty * .price)`, `[3.00,0.10]`},
		{`sum(map(input.lines, .qty * .price))`, `3.10`},
		{`filter(input.lines, .qty > 1)[0].sku`, `"x"`},
		{`map(1..3, # * #index)`, `[0,2,6]`},
		{`map([[1, 2], [3]], map(#, # + 1))`, `[[2,3],[4]]`},
		{`any(input.tags, # == "a")`, `true`},
		{`all(input.tags, # == "a")`, `false`},
		{`all([], false)`, `true`},
		{`none(input.tags, # == "z")`, `true`},
		{`one(input.tags, # == "b")`, `false`},
		{`one(input.tags, # == "a")`, `true`},
		{`count(input.tags, # == "b")`, `2`},
		{`find(input.lines, .sku == "y").price`, `0.10`},
		{`find(input.lines, .sku == "q")`, `null`},
		{`filter(input.tags, #)`, `<not_a_bool>`},
		{`filter(input.name, true)`, `<wrong_type>`},
		{`map(input.lines, .nope)`, `<missing_field>`},
		{`map(1..1000, map(1..1000, #))`, `<out_of_fuel>`},
		{`map(input.lines, let t = .qty; t + 1)`, `[3,2]`},
	})
}

func TestEvalErrorsSayWhatToDo(t *testing.T) {
	cases := []struct{ src, want string }{
		{`input.amont`, `input.amont: no field "amont"; did you mean "amount"?`},
		{`input.order.q`, `there are a, m, z`},
		{`input.nil.x`, `input.nil.x: input.nil is null; use ?. or ??`},
		{`input.order.a[9]`, `outside the list of 3`},
		{`"n: " + 1`, `string(x)`},
		{`input.name < 1`, `two numbers or two strings, not string and number`},
		{`round("x", 1)`, `round: argument 1 must be a number, not string`},
		{`error.title`, `error is not available here`},
	}
	for _, c := range cases {
		_, err := mustCompile(t, c.src).Eval(sample())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to say %q", c.src, err, c.want)
		}
	}
}

func TestErrorsHoldNoData(t *testing.T) {
	env := MapEnv{"input": map[string]any{"canary": "CANARY-7", "list": []any{"CANARY-7"}}}
	for _, src := range []string{
		`input[input.canary]`,
		`input.canary + 1`, `input.canary.x`, `input.canary < 1`, `number(input.canary)`, `int(input.canary)`,
		`parse_json(input.canary)`, `unbase64(input.canary)`, `bool(input.canary)`, `sort([1, input.canary])`,
		`"x" matches ("(" + input.canary)`, `join([input.list], "")`, `input.canary ? 1 : 2`, `sum(input.list)`,
		`{(input.list): 1}`, `input.list[input.canary]`, `round(1, input.canary)`, `input.canary[0:1]`, `-input.canary`,
	} {
		_, err := mustCompile(t, src).Eval(env)
		if err == nil {
			t.Errorf("%s: no error", src)
			continue
		}
		if strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: the error shows data: %v", src, err)
		}
	}
}

func TestBool(t *testing.T) {
	if got, err := mustCompile(t, `input.amount > 19`).Bool(sample()); err != nil || !got {
		t.Errorf("Bool = %v, %v; want true", got, err)
	}
	_, err := mustCompile(t, `input.amount`).Bool(sample())
	if e, ok := errors.AsType[*EvalError](err); !ok || e.Code != CodeNotABool || !strings.Contains(e.Detail, "not number") {
		t.Errorf("Bool of a number: %v, want not_a_bool that says number", err)
	}
}

func TestFuelBoundsWork(t *testing.T) {
	list := make([]any, 2000)
	for i := range list {
		list[i] = strings.Repeat("x", 1000)
	}
	loop := map[string]any{}
	loop["self"] = loop
	digits := json.Number(strings.Repeat("1", 1<<20))
	env := MapEnv{"input": map[string]any{"list": list, "loop": loop, "big": strings.Repeat("a", 1<<20), "n": digits}}
	for _, src := range []string{
		`join(map(input.list, join(input.list, "")), "")`,
		`json(input.loop)`, `input.loop == {self: input.loop}`, `uniq([input.loop])`, `input.loop`,
		`let a = input.big + input.big; let b = a + a; let c = b + b; c + c`,
		`replace(input.big, "a", input.big)`,
		`let a = input.list; let b = concat(a,a,a,a,a,a,a); let c = concat(b,b,b,b,b,b,b); concat(c,c,c,c)`,
		`map(1..300, map(1..300, # in 1..300))`,
		`let a = [1,1,1,1,1,1,1,1,1,1]; let b = [a,a,a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b,b,b]; let d = [c,c,c,c,c,c,c,c,c,c]; [d,d,d,d,d,d,d,d,d,d] == [d,d,d,d,d,d,d,d,d,d]`,
		`input.big matches "(a?){200}b"`,
		`count(1..390, "` + strings.Repeat("a", 1000) + `" matches "(?:a?){990}b")`,
		`map(1..10, input.n)`, `map(1..10, {{(input.big): #}})`, `uniq(map(1..10, [input.n, #]))`,
		`count(1..200, input.n == input.n)`, `count(1..200, input.n <= input.n)`, `count(1..200, -input.n < 0)`,
		`count(1..200, abs(input.n) != null)`, `count(1..200, number(input.n) != null)`,
		`sort(map(1..200, input.n))`, `max(map(1..200, input.n))`,
		`count(1..200, input.big in {a: 1})`, `count(1..200, input?.[input.big] == 1)`,
	} {
		if got := evalJSON(t, src, env); got != "<out_of_fuel>" {
			t.Errorf("%.60s: got %.60s, want <out_of_fuel>", src, got)
		}
	}
}

// TestFuelBoundsRendering holds every rendering of a template to the limit. Each writes one large
// value many times.
func TestFuelBoundsRendering(t *testing.T) {
	env := MapEnv{"input": map[string]any{"text": strings.Repeat("a", 1<<20), "n": json.Number(strings.Repeat("1", 1<<20))}}
	for _, src := range []string{
		`${map(1..10, input.text)}`, `${map(1..10, input.n)}`, `${map(1..10, {{(input.text): #}})}`, `${map(1..10, path(input.text))}`,
	} {
		tpl := mustText(t, src)
		if _, err := tpl.Value(env); outcome("", err) != "<out_of_fuel>" {
			t.Errorf("Value of %s: %v, want out_of_fuel", src, err)
		}
		if _, err := tpl.JSON(env); outcome("", err) != "<out_of_fuel>" {
			t.Errorf("JSON of %s: %v, want out_of_fuel", src, err)
		}
	}
}

func TestGoValuesFromCallers(t *testing.T) {
	env := MapEnv{"input": map[string]any{"raw": json.RawMessage(`{"a": [1.10, null]}`), "list": []any{json.RawMessage(`{"b": 2}`), 7, int64(8)}, "f": 1.5}}
	for _, c := range []evalCase{
		{`input.raw`, `{"a":[1.10,null]}`},
		{`input.raw.a[0]`, `1.10`},
		{`input.raw.a[1] ?? 3`, `3`},
		{`type(input.raw)`, `"object"`},
		{`map(input.list, type(#))`, `["object","number","number"]`},
		{`input.list[0].b + input.list[1] + input.list[2]`, `17`},
		{`find(input.list, true).b`, `2`},
		{`keys(input.raw)`, `["a"]`},
		{`input.raw == {a: [1.1, null]}`, `true`},
		{`input.list`, `[{"b":2},7,8]`},
		{`input.f`, `<bad_value>`},
		{`input.f.x`, `<bad_value>`},
	} {
		if got := evalJSON(t, c.src, env); got != c.want {
			t.Errorf("%s = %s, want %s", c.src, got, c.want)
		}
	}
}
