package expr

import (
	"errors"
	"testing"
)

// partialEnv has placeholders among its values.
type partialEnv struct{ MapEnv }

func (partialEnv) Partial() bool { return true }

func unknowns() partialEnv {
	return partialEnv{MapEnv{
		"input": Raw(`{"n":2,"s":"x","list":[1,2],"u":"` + Placeholder("input.u") + `"}`),
		"steps": map[string]any{"flight": map[string]any{"output": Placeholder("flight")}, "known": map[string]any{"output": Raw(`{"a":[{"b":"` + Placeholder("known.b") + `"},1]}`)}},
	}}
}

// TestUnknownValues holds that evaluations keep what is known, and name what is not.
func TestUnknownValues(t *testing.T) {
	check := &Check{Roots: []string{"input", "steps"}, Journaled: true}
	for _, c := range []struct{ text, want string }{
		{`${steps.flight.output}`, `"‹flight›"`},
		{`${steps.flight.output.id}`, `"‹flight.id›"`},
		{`${steps.flight.output?.legs[0]["from"]}`, `"‹flight.legs[0].from›"`},
		{`${steps.flight.output.legs[input.n]}`, `"‹flight.legs[2]›"`},
		{`${steps.flight.output[input.u]}`, `"‹flight[input.u]›"`},
		{`Seat ${steps.flight.output.seat} of ${input.s}`, `"Seat ‹flight.seat› of x"`},
		{`${steps.flight.output.price + 10}`, `"‹flight.price + 10›"`},
		{`${steps.flight.output.price ?? 0}`, `"‹flight.price›"`},
		{`${input.nope ?? steps.flight.output.id}`, `"‹flight.id›"`},
		{`${[input.n, steps.flight.output.id, steps.flight.output.n * 2]}`, `[2,"‹flight.id›","‹[input.n, flight.id, flight.n * 2]›"]`},
		{`${merge({a: steps.flight.output.id}, {b: 1})}`, `{"a":"‹flight.id›","b":1}`},
		{`${len([steps.flight.output.id, 1])}`, `2`},
		{`${len(steps.flight.output.legs)}`, `"‹len(flight.legs)›"`},
		{`${json({a: steps.flight.output.id})}`, `"{\"a\":\"‹flight.id›\"}"`},
		{`${steps.known.output.a[0].b}`, `"‹known.b›"`},
		{`${steps.known.output.a[1] + 1}`, `2`},
		{`${input.n > 1 ? "yes" : steps.flight.output.id}`, `"yes"`},
		{`${steps.flight.output.ok ? "yes" : "no"}`, `"‹flight.ok ? "yes" : "no"›"`},
		{`${let x = steps.flight.output.id; {a: x, b: 1}}`, `{"a":"‹flight.id›","b":1}`},
		{`${filter(input.list, # > steps.flight.output.n)}`, `"‹filter(input.list, # > flight.n)›"`},
		{`${urlencode(steps.flight.output.id)}`, `"‹flight.id›"`},
		{`${type(steps.flight.output.id)}`, `"‹type(flight.id)›"`},
		{`${uuid()}`, `"‹uuid()›"`},
		{`${now()}`, `"‹now()›"`},
		{`${input.list}`, `[1,2]`},
	} {
		tpl, errs := ParseText(c.text, check)
		if errs != nil {
			t.Fatalf("%s: %v", c.text, errs)
		}
		got, err := tpl.JSON(unknowns())
		if plain := string(ShowPlaceholders(got)); err != nil || plain != escapeQuotes(c.want) {
			t.Errorf("%s gives %s, %v, want %s", c.text, plain, err, c.want)
		}
	}
}

// escapeQuotes writes the quotes inside ‹…› as JSON does.
func escapeQuotes(want string) string {
	var out []rune
	inside := false
	for _, r := range want {
		switch {
		case r == '‹':
			inside = true
		case r == '›':
			inside = false
		case r == '"' && inside:
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

func TestUnknownConditions(t *testing.T) {
	check := &Check{Roots: []string{"input", "steps"}}
	for _, c := range []struct{ src, want string }{
		{`steps.flight.output.ok`, "unknown"},
		{`!steps.flight.output.ok`, "unknown"},
		{`steps.flight.output.n > 3`, "unknown"},
		{`steps.flight.output.ok && input.n == 2`, "unknown"},
		{`steps.flight.output.ok && input.n == 3`, "false"},
		{`steps.flight.output.ok || input.n == 2`, "true"},
		{`input.n == 3 && steps.flight.output.ok`, "false"},
		{`"x" in [input.s, steps.flight.output.id]`, "true"},
		{`"y" in [input.s, steps.flight.output.id]`, "unknown"},
		{`input.u == "x"`, "unknown"},
		{`input.s == "x"`, "true"},
	} {
		p, errs := Compile(c.src, check)
		if errs != nil {
			t.Fatal(errs)
		}
		yes, err := p.Bool(unknowns())
		got := "false"
		switch {
		case errors.Is(err, ErrUnknown):
			got = "unknown"
		case err != nil:
			got = err.Error()
		case yes:
			got = "true"
		}
		if got != c.want {
			t.Errorf("%s is %s, want %s", c.src, got, c.want)
		}
	}
}

// TestMarksAreTextElsewhere: outside a Partial environment the marks are characters like others.
func TestMarksAreTextElsewhere(t *testing.T) {
	tpl, errs := ParseText("${urlencode(input.u)} ${upper(input.u)}", &Check{Roots: []string{"input"}})
	if errs != nil {
		t.Fatal(errs)
	}
	got, err := tpl.Text(unknowns().MapEnv)
	if want := "%EF%B7%90input.u%EF%B7%91 " + Placeholder("INPUT.U"); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestEncodeKnown(t *testing.T) {
	got := EncodeKnown("a b"+Placeholder("x y")+"c d"+markOpen+"e", func(s string) string { return "<" + s + ">" })
	if want := "<a b>" + Placeholder("x y") + "<c d>" + markOpen + "e<>"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
