package expr

import (
	"slices"
	"strconv"
	"strings"
)

const (
	maxNamesShown = 12
	maxNameShown  = 48
	maxNamesTried = 500 // for "did you mean"; a large object is data, not a schema
)

// nearest returns the name most similar to got, or "" if none is similar.
func nearest(got string, names []string) string {
	if len(got) > maxNameShown || len(names) > maxNamesTried {
		return ""
	}
	best, bestDist := "", max(1, len(got)/3)+1
	for _, name := range names {
		if len(name) > maxNameShown {
			continue
		}
		if d := distance(strings.ToLower(got), strings.ToLower(name)); d < bestDist {
			best, bestDist = name, d
		}
	}
	return best
}

// distance is the edit distance with swaps of neighbours (optimal string
// alignment).
func distance(a, b string) int {
	prev2, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

// didYouMean returns "; did you mean x?", or the list of names.
func didYouMean(got string, names []string) string {
	if near := nearest(got, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return " (" + listNames(names) + ")"
}

// listNames returns "there are a, b, c", shortened.
func listNames(names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	names = slices.Sorted(slices.Values(names))
	more := ""
	if len(names) > maxNamesShown {
		names, more = names[:maxNamesShown], ", …"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = clip(name)
	}
	return "there are " + strings.Join(shown, ", ") + more
}

// quotedNames lists names as messages do: "a", "b" or "c", shortened.
func quotedNames(names []string) string {
	shown := make([]string, 0, len(names))
	for _, name := range names[:min(len(names), maxNamesShown)] {
		shown = append(shown, strconv.Quote(clip(name)))
	}
	if len(names) > maxNamesShown {
		return strings.Join(shown, ", ") + ", …"
	}
	if last := len(shown) - 1; last > 0 {
		return strings.Join(shown[:last], ", ") + " or " + shown[last]
	}
	return strings.Join(shown, ", ")
}

// clip shortens a name for an error without cutting a character.
func clip(name string) string {
	if len(name) <= maxNameShown {
		return strings.ToValidUTF8(name, "�")
	}
	return strings.ToValidUTF8(name[:maxNameShown], "") + "…"
}
