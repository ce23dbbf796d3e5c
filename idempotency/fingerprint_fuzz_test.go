package idempotency

import (
	"bytes"
	"strings"
	"testing"
)

// What is not decoded is what decoding and Marshal would give.
func FuzzUnaltered(f *testing.F) {
	for _, seed := range []string{
		`{"definition":"x","input":{"trip":"a-1"}}`, `{"a":[{"b":1},{"a":2}],"b":{}}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"":1,"":2}`,
		`{"a":{"z":1},"b":2}`, `{"a":"<"}`, `{"a<":1}`, `"\u0061"`, "\"\u2028\"", `"é"`, "\"\x7f\"", `[ 1]`, `[1.0,-0,1E+2]`, `{"a":"b:","c":":"}`, `"`, `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if b := rewritten(text); unaltered(text) && !bytes.Equal(b, text) {
			t.Errorf("%q passes, but Marshal writes %q", text, b)
		}
	})
}

func TestUnaltered(t *testing.T) {
	for text, want := range map[string]bool{
		`{"definition":"x","input":{"trip":"a-1"}}`: true, `[1.0,{"a":{"b":1},"c":[]}]`: true,
		`{"b":1,"a":2}`: false, `{"a":1,"a":2}`: false, `{"a": 1}`: false, `{"a":"\n"}`: false, `{"a":"&"}`: false, `{"a":"é"}`: false, "{\"a\":\"\x80\"}": false, `{"a":"b c"}`: true, `{"a`: false,
		strings.Repeat(`{"a":`, 16) + "1" + strings.Repeat("}", 16): true, strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17): false,
	} {
		if got := unaltered([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
