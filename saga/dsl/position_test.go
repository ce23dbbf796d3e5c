package dsl_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"recourse/saga/dsl"
)

// TestPositions holds the place of an expression's error to being where its name
// is written, in every style a scalar can have.
func TestPositions(t *testing.T) {
	words := rapid.SliceOfN(rapid.StringMatching(`[a-zé€𝄞.,;()/]{1,6}`), 0, 6)
	styles := map[string]func(words []string) string{
		"plain":         func(w []string) string { return "x " + strings.Join(append(w, "${nosuch(1)}"), " ") },
		"plain lines":   func(w []string) string { return "x " + strings.Join(append(w, "${nosuch(1)}"), "\n        ") },
		"single quotes": func(w []string) string { return "'" + strings.Join(append(w, "${nosuch(1)}"), "''") + "'" },
		"single lines":  func(w []string) string { return "'" + strings.Join(append(w, "${nosuch(1)}"), "\n        ") + "'" },
		"double quotes": func(w []string) string { return `"` + strings.Join(append(w, "${nosuch(1)}"), `\n\u00e9 \"\\`) + `"` },
		"double lines":  func(w []string) string { return `"` + strings.Join(append(w, "${nosuch(1)}"), "\n\n      ") + `"` },
		"literal":       func(w []string) string { return "|\n      " + strings.Join(append(w, "${nosuch(1)}"), "\n      ") },
		"literal indent": func(w []string) string {
			return "|-\n        " + strings.Join(append(w, "${nosuch(1)}"), "\n          ")
		},
		"folded":       func(w []string) string { return ">\n      " + strings.Join(append(w, "${nosuch(1)}"), "\n      ") },
		"folded blank": func(w []string) string { return ">\n      " + strings.Join(append(w, "${nosuch(1)}"), "\n\n      ") },
	}
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				src := "saga: x\nsteps:\n  - id: a\n    set: " + style(words.Draw(t, "words")) + "\n"
				if rapid.Bool().Draw(t, "crlf") {
					src = strings.ReplaceAll(src, "\n", "\r\n")
				}
				_, errs := dsl.Parse("t", []byte(src), options())
				if errs == nil || len(errs.List) != 1 || errs.List[0].Code != "unknown_function" {
					t.Fatalf("%q: %v, want one unknown_function", src, errs)
				}
				before, _, _ := strings.Cut(src, "nosuch")
				line := strings.Count(before, "\n") + 1
				column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
				if e := errs.List[0]; e.Line != line || e.Column != column {
					t.Fatalf("%q: at %d:%d, want %d:%d", src, e.Line, e.Column, line, column)
				}
			})
		})
	}
}
