package dsl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/saga/dsl"
)

// TestBombs holds the limits against documents that are made to cost: each is
// refused within a second.
func TestBombs(t *testing.T) {
	head := "saga: x\nsteps:\n  - id: s\n    set: "
	var lines, laughs strings.Builder
	for i := range 45_000 {
		fmt.Fprintf(&lines, "a%d: 1\n", i)
	}
	laughs.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	tests := []struct {
		name, src, want string
	}{
		{"nested [", head + strings.Repeat("[", 100_000), "too_deep"},
		{"nested [ closed", head + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), "too_deep"},
		{"nested {", head + strings.Repeat("{a: ", 100_000), "too_deep"},
		{"nested [{", head + strings.Repeat("[{a: ", 80_000), "too_deep"},
		{"nested ?", strings.Repeat("? ", 200_000), "too_deep"},
		{"nested -", strings.Repeat("- ", 200_000), "too_deep"},
		{"long flow list", head + "[" + strings.Repeat("a,", 240_000) + "]", "too_many_nodes"},
		{"long flow map", head + "{" + strings.Repeat("a: 1,", 90_000) + "}", "too_many_nodes"},
		{"commas", head + "[" + strings.Repeat(",", 500_000), "too_many_nodes"},
		{"long block list", head + "\n" + strings.Repeat("      -\n", 60_000), "too_many_nodes"},
		{"long block map", lines.String(), "too_many_nodes"},
		{"billion laughs", laughs.String(), "alias"},
		{"documents", strings.Repeat("---\n", 120_000), "several_documents"},
		{"duplicate keys", strings.Repeat("a: 1\n", 4_900), "duplicate_key"},
		{"too long", "saga: " + strings.Repeat("x", dsl.MaxBytes), "too_large"},
		{"comments", strings.Repeat("#\n", 250_000), "empty"},
		{"anchors", strings.Repeat("&a ", 170_000), "syntax"},
		{"long name", "saga: " + strings.Repeat("x", 500_000), "bad_name"},
		{"open quotes", strings.Repeat(`"a":`, 120_000), "syntax"},
		{"many steps", "saga: x\nsteps:\n" + strings.Repeat("  - id: s\n", 3_000), "no_kind"},
		{"many expressions", head + "\n" + strings.Repeat("      - ${steps.nosuch.output}\n", 9_000), "unknown_step"},
		{"long expression", head + "${" + strings.Repeat("1+", 200_000) + "1}", "too_long"},
		{"big exponent", "saga: x\ninput_schema: {maximum: 1e999999999}\nsteps: [{id: a, set: 1}]\n", "bad_schema"},
		{"big pattern", "saga: x\ninput_schema: {pattern: \"((a{100}){100}){100}\"}\nsteps: [{id: a, set: 1}]\n", "bad_schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs, took := quickest(tt.src)
			if took > slower*time.Second {
				t.Errorf("took %v", took)
			}
			if errs == nil || !slices.ContainsFunc(errs.List, func(e dsl.Error) bool { return e.Code == tt.want }) {
				t.Errorf("no error %s: %.500v", tt.want, errs)
			}
		})
	}
}

// quickest parses up to three times, so that a busy machine does not count.
func quickest(src string) (errs *dsl.Errors, took time.Duration) {
	for i := range 3 {
		begin := time.Now()
		_, errs = dsl.Parse("bomb.yaml", []byte(src), options())
		if one := time.Since(begin); i == 0 || one < took {
			took = one
		}
		if took < time.Second/2 {
			break
		}
	}
	return errs, took
}

// TestNoFalseBombs holds the pre-scan to counting only what separates items.
func TestNoFalseBombs(t *testing.T) {
	commas := strings.Repeat("a, [b, {c, ", 8_000)
	for name, text := range map[string]string{
		"plain":         commas + "end",
		"double quotes": `"` + commas + `\" , ` + `"`,
		"single quotes": "'" + commas + "'",
		"literal":       "|\n      " + commas + "\n\n      [" + commas,
		"folded":        ">-\n      " + commas,
		"comment":       "1 # [" + commas,
		"flow quotes":   `["` + commas + `"]`,
	} {
		t.Run(name, func(t *testing.T) {
			mustParse(t, "saga: x\nsteps:\n  - id: s\n    set: "+text+"\n")
		})
	}
}
