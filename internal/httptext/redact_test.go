package httptext

import (
	"strings"
	"testing"
)

func TestPart(t *testing.T) {
	redact := NewRedactor([]string{"canary-1234", "two\nlines-5678", "aabbccdd-aabbccdd"})
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"no secret", "no secret"},
		{"a canary-1234 in it", "a *** in it"},
		{"ry-1234 is its end", "*** is its end"},
		{"it begins with canary-", "it begins with ***"},
		{"nary-1", "***"},
		{"ry-1234, canary", "***, ***"},
		{"ry-1234canary", "******"},
		{"an end of less than six bytes: canar", "an end of less than six bytes: canar"},
		{"es-5678: two\nlines-5678, two\nli", "***: ***, ***"},
		{`as JSON: two\nli`, `as JSON: ***`},
		{"a whole one whose begin is its end: aabbccdd-aabbccdd", "a whole one whose begin is its end: ***"},
		{"bbccdd-aabbcc", "***"},
	} {
		if got := redact.Part(tt.text); got != tt.want {
			t.Errorf("Part(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

// A description is cut after its secrets were redacted, and is one line after that.
func TestDetail(t *testing.T) {
	redact := NewRedactor([]string{"canary-1234", "two\nlines-5678"})
	for _, tt := range []struct{ text, want string }{
		{strings.Repeat("x", maxDetail-3) + "canary-1234", strings.Repeat("x", maxDetail-3) + "***"},
		{"a\ntwo\nlines-5678", "a?***"},
	} {
		if got := redact.Detail(tt.text); got != tt.want {
			t.Errorf("Detail(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}
