package dsl

import (
	"strings"

	"recourse/internal/spelling"
)

// Suggest returns `; did you mean "x"?` with the most similar name of the list, or "" if none is
// similar.
func Suggest(got string, names []string) string {
	best, distance := "", max(2, len(got)/3)+1
	for _, name := range names {
		if d := spelling.Distance(strings.ToLower(got), strings.ToLower(name), distance); d < distance {
			best, distance = name, d
		}
	}
	if best == "" || best == got || distance >= max(len(got), len(best)) {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// orOnly is Suggest for a name that must be one of names. If none is similar, it lists them.
func orOnly(got string, names []string) string {
	if hint := Suggest(got, names); hint != "" || len(names) == 0 {
		return hint
	}
	return ", only " + quoted(names)
}

// quoted writes a list of names for a sentence: "a", "b" or "c".
func quoted(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return `"` + names[0] + `"`
	}
	last := len(names) - 1
	return `"` + strings.Join(names[:last], `", "`) + `" or "` + names[last] + `"`
}
