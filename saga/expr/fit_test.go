package expr

import (
	"testing"

	"pgregory.net/rapid"
)

// ofType reports whether a value is of a type.
func ofType(v any, typ *Type) bool {
	if KindsOf(v)&typ.kinds == 0 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !ofType(item, typ.items) {
				return false
			}
		}
	case map[string]any:
		for name, f := range v { // any order
			if typ.fields[name] == nil || !ofType(f, typ.fields[name]) {
				return false
			}
		}
		for name, f := range typ.fields { // any order
			if _, ok := v[name]; !ok && f.kinds&KindAbsent == 0 {
				return false
			}
		}
	}
	return true
}

// TestFitsAreSound holds a template without a misfit to giving no value that breaks the wanted
// type, and one with a misfit to giving such a value.
func TestFitsAreSound(t *testing.T) {
	fits, misfits, proven := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		given, want := drawType(t, 2), drawType(t, 2)
		if rapid.Bool().Draw(t, "wider") {
			want = Union(given, want, false)
		}
		chk := &Check{Roots: []string{"input"}, Type: func(string) *Type { return given }}
		whole, errs := ParseText("${input}", chk)
		if errs != nil {
			t.Fatal(errs)
		}
		found := whole.Misfits(want)
		broken := false
		for range 40 {
			if v := drawValue(t, given); !ofType(v, want) {
				broken = true
				if len(found) == 0 {
					t.Fatalf("%v was taken for %v", v, want)
				}
				break
			}
		}
		switch {
		case len(found) == 0:
			fits++
		case broken:
			misfits, proven = misfits+1, proven+1
		default:
			misfits++
		}
	})
	if fits < 10 || proven < 20 || proven*10 < misfits*8 {
		t.Errorf("%d fit and %d do not, %d of which a value shows", fits, misfits, proven)
	}
}
