package main

import (
	"strings"
	"testing"
)

// long is wider than a comment may be.
var long = strings.TrimSpace(strings.Repeat("word ", 30))

func TestWide(t *testing.T) {
	for src, want := range map[string]int{
		"package a\n\n// " + long + "\n":                               1,
		"package a\n\nfunc f() {\n\t\t// " + long[:94] + "\n}\n":       1, // a tab counts as four
		"package a\n\n// " + long[:94] + "\n":                          0,
		"package a\n\n//go:generate " + long + "\n":                    0,
		"package a\n\n//\t" + long + "\n":                              0, // preformatted
		"package a\n\n// " + strings.ReplaceAll(long, " ", "-") + "\n": 0, // there is nowhere to wrap it
		"package a\n\nvar x = `\n// " + long + "\n`\n":                 0, // a string
		"package a\n\nvar x = 1 // " + long + "\n":                     0, // not on a line of its own
		"package a\n\n// Output:\n// " + long + "\n// " + long + "\n":  0,
	} {
		if got := wide([]byte(src)); len(got) != want {
			t.Errorf("%d wide lines, want %d, in\n%s", len(got), want, src)
		}
		if again := wide(wrap([]byte(src))); len(again) > 0 {
			t.Errorf("still wide once wrapped:\n%s", wrap([]byte(src)))
		}
		if want == 0 && string(wrap([]byte(src))) != src {
			t.Errorf("wrapped without need:\n%s", wrap([]byte(src)))
		}
	}
	if got := wide([]byte("package a\n\n// see https://a.example/ " + long + "\n")); len(got) > 0 {
		t.Error("a line with an address is too wide")
	}
	src := "package a\n\n// short\n//\n// - " + long + "\n// - item\nfunc f() {}\n"
	want := "package a\n\n// short\n//\n// - " + long[:94] + "\n// " + strings.TrimSpace(long[94:]) + "\n// - item\nfunc f() {}\n"
	if got := string(wrap([]byte(src))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTrailing(t *testing.T) {
	for src, want := range map[string]int{
		"package a\n\nvar x = 1 // " + long + "\n":                                 1,
		"package a\n\nvar x = 1 // " + long[:100] + "\n":                           0,
		"package a\n\nvar x = `" + long + "` // y\n":                               1,
		"package a\n\nvar x = `" + long + " // y`\n":                               0, // a string
		"package a\n\n// " + long + "\n":                                           0, // on a line of its own
		"package a\n\nfunc f() {\n\t\tg() // " + long[:108] + "\n}\n":              1, // a tab counts as four
		"package a\n\nvar x = 1 /* " + long + " */\n\nvar y = `\n// " + long + "`": 0,
	} {
		if got := trailing([]byte(src)); len(got) != want {
			t.Errorf("%d wide lines, want %d, in\n%s", len(got), want, src)
		}
	}
}
