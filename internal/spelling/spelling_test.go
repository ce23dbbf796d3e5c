package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b  string
		limit int
		want  int
	}{
		{"", "", 3, 0},
		{"abc", "abc", 3, 0},
		{"abc", "abd", 3, 1},
		{"abc", "ab", 3, 1},
		{"ab", "abc", 3, 1},
		{"acb", "abc", 3, 1}, // neighbours are swapped
		{"ca", "abc", 3, 3},  // not 2: what was swapped is not changed again
		{"kitten", "sitting", 3, 3},
		{"a", "abcdef", 3, 4}, // more than the limit
		{strings.Repeat("a", 65), strings.Repeat("a", 65), 3, 4},
	} {
		if got := Distance(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
