package expr

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp/syntax"
	"testing"

	"pgregory.net/rapid"
)

// literals draws JSON numbers of moderate size, in every notation.
func literals() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`)
}

func rat(tb rapid.TB, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		tb.Fatalf("not a number: %q", text)
	}
	return r
}

func TestArithmeticIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literals().Draw(t, "a"), literals().Draw(t, "b")
		x, y := rat(t, a), rat(t, b)
		want := map[string]*big.Rat{"+": new(big.Rat).Add(x, y), "-": new(big.Rat).Sub(x, y), "*": new(big.Rat).Mul(x, y)}
		for _, op := range []string{"+", "-", "*"} {
			got, err := arithmetic(op, json.Number(a), json.Number(b))
			if err != nil {
				t.Fatalf("%s %s %s: %v", a, op, b, err)
			}
			if !isLiteral(string(got)) || rat(t, string(got)).Cmp(want[op]) != 0 {
				t.Fatalf("%s %s %s = %s, want %s", a, op, b, got, want[op].RatString())
			}
			again, err := arithmetic("+", got, "0")
			if c, _ := newState(nil).compareNumbers(again, got); err != nil || c != 0 {
				t.Fatalf("%s + 0 = %s, %v", got, again, err)
			}
		}
	})
}

func TestQuotientIsCloseOrExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literals().Draw(t, "a"), literals().Draw(t, "b")
		x, y := rat(t, a), rat(t, b)
		got, err := arithmetic("/", json.Number(a), json.Number(b))
		if y.Sign() == 0 {
			if outcome("", err) != "<division_by_zero>" {
				t.Fatalf("%s / %s: %v", a, b, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s / %s: %v", a, b, err)
		}
		want := new(big.Rat).Quo(x, y)
		diff := new(big.Rat).Sub(rat(t, string(got)), want)
		bound := new(big.Rat).Mul(want.Abs(want), rat(t, "5e-34")) // half a unit in the 34th digit
		if diff.Abs(diff).Cmp(bound) > 0 {
			t.Fatalf("%s / %s = %s, off by more than half a unit", a, b, got)
		}
	})
}

func TestIntegersAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := literals().Draw(t, "x")
		x, one := rat(t, text), big.NewRat(1, 1)
		for name, from := range map[string]*big.Rat{"floor": x, "ceil": new(big.Rat).Neg(x)} { // -ceil(x) is floor(-x)
			v, err := functions[name].call(&call{state: newState(nil), name: name, args: []any{json.Number(text)}})
			if err != nil {
				t.Fatalf("%s(%s): %v", name, text, err)
			}
			got := rat(t, string(v.(json.Number)))
			if name == "ceil" {
				got.Neg(got)
			}
			if rest := new(big.Rat).Sub(from, got); !got.IsInt() || rest.Sign() < 0 || rest.Cmp(one) >= 0 {
				t.Fatalf("%s(%s) = %s", name, text, v)
			}
		}
	})
}

// The quick count of a pattern's instructions is never above their number.
func TestLeastSizeIsLeast(t *testing.T) {
	var pattern func(depth int) *rapid.Generator[string]
	pattern = func(depth int) *rapid.Generator[string] {
		leaf := rapid.SampledFrom([]string{"a", "abc", ".", "[a-z]", `\b`, "^", "$", "", `[^\x00-\x{10FFFF}]`, "(?i)k"})
		if depth == 0 {
			return leaf
		}
		sub := pattern(depth - 1)
		return rapid.Custom(func(t *rapid.T) string {
			a, b := sub.Draw(t, "a"), sub.Draw(t, "b")
			format := rapid.SampledFrom([]string{"(%s)%s", "(?:%s)*%s", "(?:%s)?%s", "(?:%s)+?%s", "(?:%s){3}%s", "(?:%s){2,}%s", "(?:%s){1,4}%s", "(?:%s){0}%s", "%s|%s"}).Draw(t, "format")
			return fmt.Sprintf(format, a, b)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := pattern(3).Draw(t, "pattern")
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Skip(err)
		}
		tree = tree.Simplify()
		prog, err := syntax.Compile(tree)
		if n := leastSize(tree, maxPatternSize); err != nil || n > len(prog.Inst) {
			t.Fatalf("%s has at least %d instructions, and %d: %v", text, n, len(prog.Inst), err)
		}
	})
}

func TestComparisonIsByValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := literals().Draw(t, "a"), literals().Draw(t, "b")
		if rapid.Bool().Draw(t, "same") {
			b = fmt.Sprintf("%s00e-%d", digitsOnly(a), rapid.IntRange(0, 3).Draw(t, "shift"))
		}
		got, err := newState(nil).compareNumbers(json.Number(a), json.Number(b))
		if want := rat(t, a).Cmp(rat(t, b)); err != nil || got != want {
			t.Fatalf("compare %s, %s = %d, %v; want %d", a, b, got, err, want)
		}
		la, _ := parseLiteral(json.Number(a))
		lb, _ := parseLiteral(json.Number(b))
		if (la.key() == lb.key()) != (got == 0) {
			t.Fatalf("keys of %s and %s: %s, %s", a, b, la.key(), lb.key())
		}
	})
}

// digitsOnly is the digits before any point or exponent, without a sign.
func digitsOnly(lit string) string {
	if lit[0] == '-' {
		lit = lit[1:]
	}
	return "1" + lit[:digitRun(lit)]
}

// documents draws JSON values as encoding/json with UseNumber gives them.
func documents(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(literals(), func(s string) any { return json.Number(s) }))
	if depth == 0 {
		return leaf
	}
	inner := documents(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(m map[string]any) any { return m }))
}

// A document means the same parsed and not parsed, and survives encoding.
func TestRawAndDecodedAgree(t *testing.T) {
	same, whole := mustCompile(t, `input == vars && vars == input && uniq([input, vars]) == [input]`), mustText(t, `${input}`)
	rapid.Check(t, func(t *rapid.T) {
		doc := documents(3).Draw(t, "doc")
		enc, err := newState(nil).encode(nil, doc)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := same.Bool(MapEnv{"input": Raw(enc), "vars": doc}); err != nil || !ok {
			t.Fatalf("%s: raw and decoded differ: %v", enc, err)
		}
		copied, err := whole.JSON(MapEnv{"input": Raw(enc)})
		if err != nil || string(copied) != string(enc) {
			t.Fatalf("copied %s, %v; want %s", copied, err, enc)
		}
		if m, ok := doc.(map[string]any); ok {
			for _, key := range sortedKeys(m) {
				v, found, err := newState(nil).rawField(enc, key)
				if err != nil || !found {
					t.Fatalf("rawField(%q) = %v, %v", key, found, err)
				}
				if eq, err := newState(nil).equal(v, m[key]); err != nil || !eq {
					t.Fatalf("rawField(%q) = %s", key, v)
				}
			}
		}
	})
}
