package dsl

import "strings"

// Suggest returns `; did you mean "x"?` with the most similar name of the list, or "" if none is
// similar.
func Suggest(got string, names []string) string {
	best, distance := "", max(2, len(got)/3)+1
	for _, name := range names {
		if d := editDistance(strings.ToLower(got), strings.ToLower(name), distance); d < distance {
			best, distance = name, d
		}
	}
	if best == "" || best == got || distance >= max(len(got), len(best)) {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// editDistance is the Levenshtein distance, with a swap of neighbours counting as one. It may stop
// early once the distance exceeds the limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || len(a) > 64 {
		return limit + 1
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
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
