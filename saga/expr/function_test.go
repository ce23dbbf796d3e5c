package expr

import (
	"encoding/json"
	"strings"
	"testing"
)

// whole values: an Object that can be written out.
type document struct{ lazy }

func (d document) JSON() (json.RawMessage, error) { return json.RawMessage(`{"b":1,"a":[2]}`), nil }

func TestFunctionEdges(t *testing.T) {
	runCases(t, []evalCase{
		{`len(null)`, `<wrong_type>`},
		{`len(5)`, `<wrong_type>`},
		{`len(steps.charge)`, `1`},
		{`take([1], 5)`, `[1]`},
		{`take([1], -1)`, `<bad_value>`},
		{`take([1], "x")`, `<wrong_type>`},
		{`take(1, 1)`, `<wrong_type>`},
		{`uniq([{a: 1, b: 2.0}, {b: 2, a: 1.0}, null, null])`, `[{"a":1,"b":2.0},null]`},
		{`flatten([])`, `[]`},
		{`concat([1])`, `[1]`},
		{`concat([1], 2)`, `<wrong_type>`},
		{`last([])`, `null`},
		{`sort([])`, `[]`},
		{`sort([1, "a"])`, `<wrong_type>`},
		{`sort(["a", 1])`, `<wrong_type>`},
		{`sort([1.0, 1, 0.5])`, `[0.5,1.0,1]`},
		{`reverse("ab")`, `<wrong_type>`},
		{`keys([1])`, `<wrong_type>`},
		{`values(steps.charge)`, `<wrong_type>`},
		{`has(steps.charge, "output")`, `true`},
		{`has(steps.charge, "nope")`, `false`},
		{`has(null, "x")`, `false`},
		{`has([1], "x")`, `<wrong_type>`},
		{`has({a: 1}, 1)`, `<wrong_type>`},
		{`merge({a: {x: 1}}, {a: {y: 2}})`, `{"a":{"y":2}}`},
		{`merge({}, null)`, `<wrong_type>`},
		{`"a" <= "a"`, `true`},
		{`2 >= 3`, `false`},
		{`abs(1.50)`, `1.50`},
		{`abs("x")`, `<wrong_type>`},
		{`abs(-1e999999999)`, `1e999999999`},
		{`floor(1e5)`, `100000`},
		{`floor(1e5000)`, `<number_too_large>`},
		{`ceil(-0.5)`, `0`},
		{`ceil(0.05)`, `1`},
		{`ceil(0.001)`, `1`},
		{`ceil(-0.05)`, `0`},
		{`ceil(0.00)`, `0`},
		{`ceil(1e-9000)`, `1`},
		{`floor(0.05)`, `0`},
		{`floor(-0.05)`, `-1`},
		{`floor(-1e-9000)`, `-1`},
		{`floor(1e50) == 1e50`, `true`},
		{`round(0.05)`, `0`},
		{`round(-0.05)`, `0`},
		{`round(0.0004, 2)`, `0.00`},
		{`round(4, -3)`, `0`},
		{`round(19.1, 2)`, `19.10`},
		{`round(0.5)`, `1`},
		{`round(1, 101)`, `<bad_value>`},
		{`round(1, 0.5)`, `<wrong_type>`},
		{`int("x")`, `<bad_value>`},
		{`int(" 7 ")`, `7`},
		{`int(true)`, `<wrong_type>`},
		{`number(" 1.50 ")`, `1.50`},
		{`number("0x10")`, `<bad_value>`},
		{`number("")`, `<bad_value>`},
		{`min()`, `<wrong_arguments>`},
		{`min([])`, `<bad_value>`},
		{`min(1, "a")`, `<wrong_type>`},
		{`max(1, 1.0)`, `1`},
		{`max(5)`, `5`},
		{`max(1e999999999, 2)`, `1e999999999`},
		{`sum(5)`, `<wrong_type>`},
		{`sum([1, "2"])`, `<wrong_type>`},
		{`split("", ",")`, `[""]`},
		{`split("a", "")`, `<bad_value>`},
		{`split(1, ",")`, `<wrong_type>`},
		{`join([], ",")`, `""`},
		{`join([null], ",")`, `<not_text>`},
		{`join(["a"], 1)`, `<wrong_type>`},
		{`replace("a", "", "b")`, `<bad_value>`},
		{`replace("aaa", "a", "bb")`, `"bbbbbb"`},
		{`string("x")`, `"x"`},
		{`string(null)`, `<not_text>`},
		{`string([1])`, `<not_text>`},
		{`lower(1)`, `<wrong_type>`},
		{`unbase64("!")`, `<bad_value>`},
		{`unbase64("/w==")`, `<bad_value>`},
		{`urlencode(1.50)`, `"1.50"`},
		{`urlencode(null)`, `<not_text>`},
		{`json(input.order)`, `"{\"z\":1,\"a\":[1,2,3],\"m\":\"<&>\"}"`},
		{`json(steps.charge)`, `<wrong_type>`},
		{`json("\u2028<\u0001\"\\\n\r\t")`, `"\"` + "\u2028" + `<\\u0001\\\"\\\\\\n\\r\\t\""`},
		{`parse_json("{")`, `<bad_value>`},
		{`parse_json("1 2")`, `<bad_value>`},
		{`parse_json("[1.10]")[0]`, `1.10`},
		{`bool(false)`, `false`},
		{`bool("yes")`, `<bad_value>`},
		{`bool(1)`, `<wrong_type>`},
		{`type(input.nil)`, `"null"`},
		{`type(input.yes)`, `"bool"`},
		{`type([])`, `"list"`},
		{`type(steps.charge)`, `"object"`},
		{`type("")`, `"string"`},
	})
}

func TestWholeObject(t *testing.T) {
	env := MapEnv{"input": document{lazy{"a": Raw(`[2]`), "b": 1}}}
	for _, c := range []evalCase{
		{`input`, `{"a":[2],"b":1}`},
		{`json(input)`, `"{\"b\":1,\"a\":[2]}"`},
		{`input == {a: [2], b: 1}`, `true`},
		{`values(input)`, `[[2],1]`},
		{`merge(input, {b: 3})`, `{"a":[2],"b":3}`},
		{`uniq([input, {a: [2.0], b: 1}])`, `[{"a":[2],"b":1}]`},
		{`input.a[0] + input.b`, `3`},
	} {
		if got := evalJSON(t, c.src, env); got != c.want {
			t.Errorf("%s = %s, want %s", c.src, got, c.want)
		}
	}
	if raw, err := mustText(t, `${input}`).JSON(env); err != nil || string(raw) != `{"b":1,"a":[2]}` {
		t.Errorf("JSON = %s, %v; want the object's own bytes", raw, err)
	}
}

func TestDecode(t *testing.T) {
	if v, err := Decode([]byte(` 1.10 `)); err != nil || v != json.Number("1.10") {
		t.Errorf("Decode = %v, %v", v, err)
	}
	for _, bad := range []string{``, `1 2`, `{`, "\"\xff\"", `nul`} {
		if v, err := Decode([]byte(bad)); err == nil {
			t.Errorf("Decode(%q) = %v, want an error", bad, v)
		}
	}
}

func TestSuggestions(t *testing.T) {
	names := []string{"amount", "order_id", "Name"}
	for got, want := range map[string]string{"amuont": "amount", "orderid": "order_id", "name": "Name", "zzz": "", strings.Repeat("a", 100): ""} {
		if near := nearest(got, names); near != want {
			t.Errorf("nearest(%.10q) = %q, want %q", got, near, want)
		}
	}
	if got := listNames(strings.Split("nmlkjihgfedcba", "")); got != "there are a, b, c, d, e, f, g, h, i, j, k, l, …" {
		t.Errorf("listNames = %s", got)
	}
	if got := clip(strings.Repeat("é", 30)); len(got) > maxNameShown+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("clip = %q", got)
	}
}
