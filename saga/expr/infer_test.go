package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawType draws a type that says everything of its values.
func drawType(t *rapid.T, depth int) *Type {
	kinds := []Kinds{KindNull, KindBool, KindInteger, KindNumber, KindString, KindList, KindObject}
	if depth == 0 {
		kinds = kinds[:5]
	}
	all := rapid.SampledFrom(kinds).Draw(t, "kind")
	if rapid.IntRange(0, 3).Draw(t, "either") == 0 {
		all |= rapid.SampledFrom(kinds).Draw(t, "other")
	}
	out := &Type{kinds: all}
	if all&KindList != 0 {
		out.items = drawType(t, depth-1)
	}
	if all&KindObject != 0 {
		out.fields = map[string]*Type{}
		for _, name := range []string{"a", "b", "c"} {
			f := drawType(t, depth-1)
			if rapid.IntRange(0, 3).Draw(t, "optional") == 0 {
				f = f.With(KindAbsent, true)
			}
			out.fields[name] = f
		}
	}
	return out
}

// drawValue draws a value of a type.
func drawValue(t *rapid.T, typ *Type) any {
	var kinds []Kinds
	for _, one := range []Kinds{KindNull, KindBool, KindInteger, KindFraction, KindString, KindList, KindObject} {
		if typ.kinds&one != 0 {
			kinds = append(kinds, one)
		}
	}
	switch rapid.SampledFrom(kinds).Draw(t, "of") {
	case KindBool:
		return rapid.Bool().Draw(t, "bool")
	case KindInteger:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "-3", "2.0", "7"}).Draw(t, "integer"))
	case KindFraction:
		return json.Number(rapid.SampledFrom([]string{"0.5", "-1.25", "19.10"}).Draw(t, "fraction"))
	case KindString:
		return rapid.SampledFrom([]string{"", "a", "b", "12"}).Draw(t, "string")
	case KindList:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
		for i := range list {
			list[i] = drawValue(t, typ.items)
		}
		return list
	case KindObject:
		m := map[string]any{}
		for _, name := range typ.names() {
			if f := typ.fields[name]; f.kinds&KindAbsent == 0 || rapid.Bool().Draw(t, "there") {
				m[name] = drawValue(t, f)
			}
		}
		return m
	}
	return nil
}

// drawExpr draws an expression, whose value may be needed as one of the kinds; often it fails by
// type.
func drawExpr(t *rapid.T, depth int, inside bool) string {
	path := func() string {
		roots := []string{"input", "item"}
		if inside {
			roots = append(roots, "#", "#")
		}
		p := rapid.SampledFrom(roots).Draw(t, "root")
		for range rapid.IntRange(0, 2).Draw(t, "fields") {
			p += rapid.SampledFrom([]string{".a", ".b", ".c", "?.a", "?.b"}).Draw(t, "field")
		}
		return p
	}
	if depth == 0 {
		return rapid.OneOf(rapid.Custom(func(*rapid.T) string { return path() }), rapid.Custom(func(*rapid.T) string { return path() }),
			rapid.SampledFrom([]string{"1", "0.5", `"a"`, "true", "null", "[1, 2]", `{a: 1}`})).Draw(t, "leaf")
	}
	sub := func() string { return drawExpr(t, depth-1, inside) }
	switch rapid.IntRange(0, 13).Draw(t, "form") {
	case 0:
		return fmt.Sprintf("(%s %s %s)", sub(), rapid.SampledFrom([]string{"+", "-", "*", "%", "<", "<=", "==", "!=", "in", "contains", "startsWith"}).Draw(t, "op"), sub())
	case 1:
		return fmt.Sprintf("(%s %s %s)", drawCondition(t, depth-1, inside, path), rapid.SampledFrom([]string{"&&", "||"}).Draw(t, "logic"), sub())
	case 2:
		return fmt.Sprintf("(%s ? %s : %s)", drawCondition(t, depth-1, inside, path), sub(), sub())
	case 3:
		return fmt.Sprintf("(%s ?? %s)", path(), sub())
	case 4:
		return fmt.Sprintf("%s(%s)", rapid.SampledFrom([]string{"len", "lower", "abs", "floor", "sum", "keys", "string", "json", "type", "sort", "reverse", "uniq", "min", "max"}).Draw(t, "fn"), sub())
	case 5:
		return fmt.Sprintf("%s(%s, %s)", rapid.SampledFrom([]string{"concat", "join", "split", "take", "merge", "has", "max"}).Draw(t, "fn2"), sub(), sub())
	case 6:
		return fmt.Sprintf("%s(%s, %s)", rapid.SampledFrom([]string{"filter", "any", "all", "count"}).Draw(t, "predicate"), sub(), drawCondition(t, depth-1, true, func() string { return "#.a" }))
	case 7:
		return fmt.Sprintf("map(%s, %s)", sub(), drawExpr(t, depth-1, true))
	case 8:
		return fmt.Sprintf("(let x = %s; x == null ? 1 : x)", sub())
	case 9:
		return "!" + drawCondition(t, depth-1, inside, path)
	case 10:
		return "(-" + sub() + ")"
	case 11:
		return fmt.Sprintf("[%s, %s]", sub(), sub())
	case 12:
		return fmt.Sprintf("{a: %s, b: %s}.a", sub(), sub())
	}
	return drawCondition(t, depth-1, inside, path)
}

// drawCondition draws what people ask before they use something.
func drawCondition(t *rapid.T, depth int, inside bool, path func() string) string {
	p := path()
	form := rapid.SampledFrom([]string{"(%s != null)", "(%s == null)", "has(%s, 'a')", "('b' in %s)", "(type(%s) == 'string')", "(type(%s) != 'number')", "((%s ?? '') != '')",
		"((%s ?? 0) > 1)", "(%s == 1)", "!(%s == null)", "(%s ?? false)", "", ""}).Draw(t, "condition")
	if form == "" {
		return drawExpr(t, max(depth, 0), inside)
	}
	return fmt.Sprintf(form, p)
}

// TestConditionsNarrow holds what is compiled after a condition to be taken or refused.
func TestConditionsNarrow(t *testing.T) {
	inner := Fields(map[string]*Type{"f": Exactly(KindString).With(KindAbsent, true)}, nil)
	input := Fields(map[string]*Type{"o": inner.With(KindNull, true), "n": Exactly(KindInteger)}, nil)
	chk := &Check{Roots: []string{"input"}, Type: func(string) *Type { return input }}
	for _, c := range []struct {
		condition string
		holds     bool // whether input.o.f exists if the condition is true, or if it is false
	}{
		{`type(input.o?.f) == "string"`, true},
		{`"string" == type(input.o?.f)`, true},
		{`type(input.o?.f) != "null"`, true},
		{`!(type(input.o?.f) == "null")`, true},
		{`type(input.o?.f) != "string"`, false},
		{`type(input.o?.f) == "null"`, false},
	} {
		use := c.condition + ` ? input.o.f : ""`
		other := c.condition + ` ? "" : input.o.f`
		if !c.holds {
			use, other = other, use
		}
		if _, errs := Compile(use, chk); errs != nil {
			t.Errorf("%s: %v", use, errs[0])
		}
		if _, errs := Compile(other, chk); errs == nil {
			t.Errorf("%s was taken", other)
		}
		p, errs := Compile(c.condition, chk)
		if errs != nil {
			t.Fatal(errs[0])
		}
		after := *chk
		after.Fact = func(path string) Kinds {
			keep := ^Kinds(0)
			for _, f := range p.Facts(c.holds) {
				if f.Path == path {
					keep &= f.Keep
				}
			}
			return keep
		}
		if _, errs := Compile(`input.o.f`, &after); errs != nil {
			t.Errorf("after %s: %v", c.condition, errs[0])
		}
	}
}

// TestLongConditionsNarrow holds the limit of trial evaluations to the longest chains that people
// can write.
func TestLongConditionsNarrow(t *testing.T) {
	const n = 60
	fields := map[string]*Type{}
	var src strings.Builder
	for i := range n {
		name := fmt.Sprintf("a%d", i)
		fields[name] = Fields(map[string]*Type{"x": Exactly(KindBool)}, nil).With(KindNull, true)
		fmt.Fprintf(&src, "input.%s != null && ", name)
	}
	input := Fields(fields, nil)
	chk := &Check{Roots: []string{"input"}, Type: func(string) *Type { return input }}
	p, errs := Compile(src.String()+"(input.a0.x || input.a59.x)", chk)
	if errs != nil {
		t.Fatal(errs[0])
	}
	if facts := p.Facts(true); len(facts) < n {
		t.Errorf("%d facts of %d conditions", len(facts), n)
	}
}

// byType are the codes of evaluations that fail by type.
var byType = map[string]bool{CodeWrongType: true, CodeNotABool: true, CodeNotText: true, CodeMissingField: true}

// TestTypesAreSound holds what is compiled with types to not failing by type, whatever the values
// are.
func TestTypesAreSound(t *testing.T) {
	taken, ran, narrowed := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		input, item := drawType(t, 2), drawType(t, 2)
		chk := &Check{Roots: []string{"input", "item"}, Type: func(root string) *Type {
			if root == "input" {
				return input
			}
			return item
		}}
		for range 80 {
			src := drawExpr(t, rapid.IntRange(1, 4).Draw(t, "depth"), false)
			p, errs := Compile(src, chk)
			if errs != nil {
				continue
			}
			taken++
			if strings.ContainsAny(src, "?&|") {
				narrowed++
			}
			for range 5 {
				env := MapEnv{"input": drawValue(t, input), "item": drawValue(t, item)}
				v, err := p.Eval(env)
				if e, ok := errors.AsType[*EvalError](err); ok && byType[e.Code] {
					t.Fatalf("%s was taken, and fails: %v\nof %v", src, err, env)
				}
				if err != nil {
					continue
				}
				ran++
				if k := KindsOf(v); p.Type().kinds&k == 0 {
					t.Fatalf("%s is said to be %s, and gives %v\nof %v", src, p.Type().kinds, v, env)
				}
			}
		}
	})
	if taken < 500 || ran < 1000 || narrowed < 100 {
		t.Errorf("%d expressions were taken, %d of them with conditions, and %d evaluations ended well: the drawing is stale", taken, narrowed, ran)
	}
}

// Items of a list that is surely empty have a type, too, whatever is done with them.
func TestTypesOfNothing(t *testing.T) {
	chk := &Check{Type: func(string) *Type { return anyType }}
	for name, fn := range functions {
		least, _ := fn.arity()
		args := strings.TrimSuffix(strings.Repeat("#, ", max(least, 1)), ", ")
		for _, src := range []string{"map([], %s(%s))", "map([], %s(%s)[0].x)", "map([], first(%s(%s)))"} {
			if _, errs := Compile(fmt.Sprintf(src, name, args), chk); len(errs) > 0 && errs[0].Code == CodeSyntax {
				t.Errorf("%s: %v", name, errs[0])
			}
		}
	}
	closed := Fields(map[string]*Type{"x": Exactly(KindString)}, nil)
	open := Fields(map[string]*Type{"y": Items(Exactly(KindString)).With(KindAbsent, true)}, anyField)
	if f := Both(closed, open).field("y"); f.kinds != KindAbsent {
		t.Errorf("a field that only one of two schemas allows may be %s", f.kinds)
	}
}
