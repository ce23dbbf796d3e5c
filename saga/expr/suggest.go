package expr

import (
	"slices"
	"strconv"
	"strings"

	"recourse/internal/spelling"
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
		if d := spelling.Distance(strings.ToLower(got), strings.ToLower(name), bestDist); d < bestDist {
			best, bestDist = name, d
		}
	}
	return best
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
