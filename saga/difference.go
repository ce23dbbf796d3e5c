package saga

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"recourse/saga/expr"
)

// Difference returns a JSON pointer (RFC 6901) to the first difference of two decoded JSON values;
// ok is false if there is none. Members come in the order of their names. Numbers are compared by
// their digits, so 10 and 10.0 differ.
func Difference(a, b any) (pointer string, ok bool) {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is {
			return "", true
		}
		return differenceOfObjects(a, b)
	case []any:
		b, is := b.([]any)
		if !is {
			return "", true
		}
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) {
				return "/" + strconv.Itoa(i), true
			}
			if at, differs := Difference(a[i], b[i]); differs {
				return "/" + strconv.Itoa(i) + at, true
			}
		}
		return "", false
	}
	return "", !bytes.Equal(Encode(a), Encode(b))
}

func differenceOfObjects(a, b map[string]any) (pointer string, ok bool) {
	names := make(map[string]bool, len(a)+len(b))
	for name := range a { // any order
		names[name] = true
	}
	for name := range b { // any order
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[name]
		y, inB := b[name]
		if inA != inB {
			return "/" + expr.PointerToken(name), true
		}
		if at, differs := Difference(x, y); differs {
			return "/" + expr.PointerToken(name) + at, true
		}
	}
	return "", false
}
