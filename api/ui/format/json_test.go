package format

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":[1,"x,[{\\\",{"],"b":{}}`: "{\n  \"a\": [\n    1,\n    \"x,[{\\\\\\\",{\"\n  ],\n  \"b\": {}\n}",
		`1e400`:                         `1e400`,
		`{"a":`:                         `{"a":`,
	} {
		if got := JSON(json.RawMessage(raw)); got != want {
			t.Errorf("%s became\n%s\nwant\n%s", raw, got, want)
		}
	}
	list := json.RawMessage("[" + strings.Repeat(`{"id":1,"tags":["a","b"]},`, 10_000) + "0]")
	if got := JSON(list); strings.Count(got, "\n") < 60_000 {
		t.Errorf("a long list stays in %d lines", strings.Count(got, "\n"))
	}
}

// Nesting multiplies the size of indented JSON, so the indents are counted first.
func TestJSONOfDeep(t *testing.T) {
	const deep = 500
	raw := json.RawMessage(strings.Repeat("[", deep) + strings.Repeat("0,", 10_000) + "0" + strings.Repeat("]", deep))
	if got := JSON(raw); len(got) > 10*len(raw) {
		t.Errorf("%d bytes became %d", len(raw), len(got))
	}
	for _, doc := range []string{`[[1,2],{"a":[]}]`, `{"a\\":"[","b":[0,{"c":null}]}`} {
		if got, most := len(JSON(json.RawMessage(doc)))-len(doc), indents(json.RawMessage(doc)); got > most || most > 2*got {
			t.Errorf("%s grows by %d, counted as %d", doc, got, most)
		}
	}
}

func TestFirstLines(t *testing.T) {
	for _, tt := range []struct {
		text, first string
		n, more     int
	}{
		{"", "", 2, 0}, {"a", "a", 1, 0}, {"a\n", "a\n", 1, 0}, {"a\nb", "a\n", 1, 1}, {"a\nb\nc\n", "a\nb\n", 2, 1}, {"a\nb\nc", "a\nb\nc", 3, 0}, {"\n\n\n", "\n", 1, 2},
	} {
		if first, more := FirstLines(tt.text, tt.n); first != tt.first || more != tt.more {
			t.Errorf("the first %d lines of %q: %q and %d more", tt.n, tt.text, first, more)
		}
	}
}
