package dsl_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/saga/dsl"
)

// TestBombs holds the limits against documents that are made to cost: each is
// refused within two seconds.
func TestBombs(t *testing.T) {
	head := "saga: x\nsteps:\n  - id: s\n    set: "
	var laughs strings.Builder
	many := func(n int, format string) string { // the number of each is in it once
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	laughs.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	tests := []struct {
		name, src, want string
	}{
		{"nested [", head + strings.Repeat("[", 2_000_000), "too_deep"},
		{"nested [ closed", head + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), "too_deep"},
		{"nested {", head + strings.Repeat("{a: ", 190_000), "too_deep"},
		{"nested [{", head + strings.Repeat("[{a: ", 190_000), "too_deep"},
		{"nested ?", strings.Repeat("? ", 200_000), "too_deep"},
		{"nested -", strings.Repeat("- ", 200_000), "too_deep"},
		{"long flow list", head + "[" + strings.Repeat("a,", 1_000_000) + "]", "too_many_nodes"},
		{"long flow map", head + "{" + strings.Repeat("a: 1,", 400_000) + "}", "too_many_nodes"},
		{"commas", head + "[" + strings.Repeat(",", 2_000_000), "too_many_nodes"},
		{"long block list", head + "\n" + strings.Repeat("      -\n", 200_000), "too_many_nodes"},
		{"short block list", strings.Repeat("-\n", 1_000_000), "too_many_nodes"},
		{"long block map", many(180_000, "a%d: 1\n"), "too_many_nodes"},
		{"many maps", strings.Repeat("- a:\n", 400_000), "too_many_nodes"},
		{"billion laughs", laughs.String(), "alias"},
		{"documents", strings.Repeat("---\n", 500_000), "several_documents"},
		{"duplicate keys", strings.Repeat("a: 1\n", 99_000), "duplicate_key"},
		{"too long", "saga: " + strings.Repeat("x", dsl.MaxBytes), "too_large"},
		{"comments", strings.Repeat("#\n", 1_000_000), "empty"},
		{"anchors", strings.Repeat("&a ", 690_000), "too_many_nodes"},
		{"tags", strings.Repeat("!a ", 690_000), "too_many_nodes"},
		{"tags apart", head + "[" + strings.Repeat("!!x a,", 90_000) + "]", "tag"},
		{"long name", "saga: " + strings.Repeat("x", 2_000_000), "bad_name"},
		{"open quotes", strings.Repeat(`"a":`, 500_000), "syntax"},
		{"many steps", "saga: x\nsteps:\n" + strings.Repeat("  - id: s\n", 60_000), "no_kind"},
		{"more steps", "saga: x\nsteps:\n" + many(20_000, "  - {id: s%d, set: 1}\n"), "too_many_steps"},
		{"steps in branches", "saga: x\nsteps:\n  - id: s\n    switch:\n" + many(11_000, "      - {when: true, steps: [{id: s%d, set: 1}]}\n"), "too_many_steps"},
		{"many irreversible", "saga: x\nsteps:\n" + many(10_001, "  - {id: s%d, http: DELETE http://h/, compensate: none, on_error: continue}\n"), "too_many_steps"},
		{"many inputs", "saga: x\ninput:\n" + many(90_000, "  a%d: integer = 1\n") + "steps: [{id: s, set: 1}]\n", "too_many_nodes"},
		{"many vars", "saga: x\nvars:\n" + many(90_000, "  a%d: 1\n") + "steps: [{id: s, set: 1}]\n", "too_many_nodes"},
		{"many secrets", "saga: x\nsecrets:\n" + many(150_000, "  - A%d\n") + "steps: [{id: s, set: 1}]\n", "too_many_nodes"},
		{"many schemas", "saga: x\nsteps:\n" + many(9_900, "  - {id: s%d, http: GET http://h/, expect: {schema: {a: integer = 1}}}\n"), "too_many_nodes"},
		{"many expressions", head + "\n" + strings.Repeat("      - ${steps.nosuch.output}\n", 60_000), "unknown_step"},
		{"expressions on one line", head + "[" + strings.Repeat(`"${steps.nosuch.output}",`, 80_000) + "]", "unknown_step"},
		{"expressions in one text", "saga: x\nsteps:\n" + many(9_000, "  - {id: s%d, set: 1}\n") + "  - id: s\n    set: \"" + many(80_000, "${steps.q%d}") + "\"\n", "unknown_step"},
		{"long expression", head + "${" + strings.Repeat("1+", 1_000_000) + "1}", "too_long"},
		{"pattern in a condition", "saga: x\ninput: {n: integer}\nsteps:\n  - id: s\n    when: 'count(1..390, \"" + strings.Repeat("a", 1000) + "\" matches \"(?:a?){990}b\") > input.n'\n    set: ${steps.nosuch.output}\n", "unknown_step"},
		{"patterns in conditions", "saga: x\ninput: {n: integer}\nsteps:\n" + many(1_000, "  - {id: s%d, set: 1, when: 'count(1..390, \""+strings.Repeat("a", 1000)+"\" matches \"(?:a?){990}b\") > input.n'}\n") + "  - {id: s, set: \"${steps.nosuch.output}\"}\n", "unknown_step"},
		{"big patterns", "saga: x\ninput: {n: string}\nsteps:\n" + many(200, "  - {id: s%d, set: 1, when: 'input.n matches \"(?:"+strings.Repeat("a", 500)+"){1000}\"'}\n"), "bad_pattern"},
		{"long condition", "saga: x\ninput: {n: integer}\nsteps:\n  - id: s\n    when: '" + strings.Repeat("count(1..950, # > 0) > input.n && ", 55) + "true'\n    set: ${steps.nosuch.output}\n", "unknown_step"},
		{"long conditions", "saga: x\ninput: {n: integer}\nsteps:\n" + many(200, "  - {id: s%d, set: 1, when: '"+strings.Repeat("count(1..950, # > 0) > input.n && ", 55)+"true'}\n") + "  - {id: s, set: \"${steps.nosuch.output}\"}\n", "unknown_step"},
		{"big exponent", "saga: x\ninput_schema: {maximum: 1e999999999}\nsteps: [{id: a, set: 1}]\n", "bad_schema"},
		{"big pattern", "saga: x\ninput_schema: {pattern: \"((a{100}){100}){100}\"}\nsteps: [{id: a, set: 1}]\n", "bad_schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs, took := timed(tt.src)
			if took > slower*2*time.Second {
				t.Errorf("took %v", took)
			}
			if errs == nil || !slices.ContainsFunc(errs.List, func(e dsl.Error) bool { return e.Code == tt.want }) {
				t.Errorf("no error %s: %.500v", tt.want, errs)
			}
		})
	}
}

// timed parses, and says what processor time that took.
func timed(src string) (*dsl.Errors, time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := cpu()
	_, errs := dsl.Parse("bomb.yaml", []byte(src), options())
	return errs, cpu() - begin
}

// TestLong holds the limits to a saga of as many steps as there may be, with a body and a
// compensation each.
func TestLong(t *testing.T) {
	var b strings.Builder
	b.WriteString("saga: long\ndefaults: {in_doubt: retry}\nsteps:\n")
	for i := range dsl.MaxSteps {
		fmt.Fprintf(&b, "  - id: s%d\n    http: POST http://127.0.0.1:12345/do/s%[1]d\n    body: {item: seat}\n    compensate: {http: \"DELETE http://127.0.0.1:12345/do/s%[1]d/${output.id}\"}\n", i)
	}
	if errs, took := timed(b.String()); errs != nil || took > slower*2*time.Second {
		t.Errorf("%d bytes took %v: %.500v", b.Len(), took, errs)
	}
	if def := mustParse(t, b.String()); len(def.Steps) != dsl.MaxSteps || len(def.Warnings) != 0 {
		t.Errorf("%d steps, %d warnings", len(def.Steps), len(def.Warnings))
	}
}

// TestErrorsEnd holds a document that is wrong throughout to a list that can be read.
func TestErrorsEnd(t *testing.T) {
	_, errs := dsl.Parse("test.yaml", []byte("saga: x\nsteps:\n"+strings.Repeat("  - id: 1\n", 1_000)), options())
	if errs == nil || len(errs.List) < dsl.MaxErrors-1 || len(errs.List) > dsl.MaxErrors {
		t.Errorf("got %d errors", len(errs.List))
	}
}

// TestNoFalseBombs holds the pre-scan to counting only what separates items.
func TestNoFalseBombs(t *testing.T) {
	commas := strings.Repeat("a, [b, {c, ", 70_000)
	for name, text := range map[string]string{
		"plain":         commas + "end",
		"double quotes": `"` + commas + `\" , ` + `"`,
		"single quotes": "'" + commas + "'",
		"literal":       "|\n      " + commas + "\n\n      [" + commas,
		"folded":        ">-\n      " + commas,
		"comment":       "1 # [" + commas,
		"flow quotes":   `["` + commas + `"]`,
		"colons":        "[" + strings.Repeat("http://h:80/!a&b*c-d?e:f ", 20_000) + "]",
		"block colons":  strings.Repeat("a:b -c ?d &e !f *g", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			mustParse(t, "saga: x\nsteps:\n  - id: s\n    set: "+text+"\n")
		})
	}
}
