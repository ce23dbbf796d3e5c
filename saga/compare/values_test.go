package compare_test

import (
	"strings"
	"testing"

	"recourse/saga/compare"
	"recourse/saga/expr"
)

func TestValues(t *testing.T) {
	for _, tt := range []struct{ was, now, pointer, before, after string }{
		{`{"a": 1}`, `{"a": 1}`, "none", "", ""},
		{`{"a": 1.0}`, `{"a": 1}`, "/a", "1.0", "1"}, // two identities of a call, too
		{`{"a": 9007199254740993}`, `{"a": 9007199254740992}`, "/a", "9007199254740993", "9007199254740992"},
		{`{"b": {"x/y": [1, 2]}}`, `{"b": {"x/y": [1, 3]}}`, "/b/x~1y/1", "2", "3"},
		{`{"a": 1}`, `{}`, "/a", "1", ""},
		{`[1]`, `"text"`, "", `[1]`, `"text"`},
	} {
		was, err := expr.Decode([]byte(tt.was))
		if err != nil {
			t.Fatal(err)
		}
		now, err := expr.Decode([]byte(tt.now))
		if err != nil {
			t.Fatal(err)
		}
		d := compare.Values(was, now)
		switch {
		case d == nil && tt.pointer == "none":
		case d == nil || d.Pointer != tt.pointer || string(d.Was) != tt.before || string(d.Now) != tt.after:
			t.Errorf("%s and %s: %+v", tt.was, tt.now, d)
		}
	}
	long := compare.Values(strings.Repeat("a", 5000), "b")
	if text := string(long.Was); len(text) > 1100 || !strings.HasSuffix(text, "…\"") {
		t.Errorf("%d bytes: %.20s", len(text), text)
	}
}
