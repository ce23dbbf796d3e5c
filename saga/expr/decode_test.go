package expr

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What plainScalar reads is what encoding/json reads, and it leaves alone what that refuses.
func TestPlainScalar(t *testing.T) {
	for doc, plain := range map[string]bool{
		`""`: true, `"a b"`: true, `"é€😀"`: true, "\"\x7f\u2028\"": true, `"${x}<&>"`: true,
		`0`: true, `-0`: true, `19.10`: true, `1e400`: true, `9007199254740993`: true,
		``: false, `"`: false, `"a`: false, `"\"`: false, `"\\"`: false, `"\u0041"`: false, `"a"b"`: false, "\"\n\"": false, `"a" `: false, ` "a"`: false, `"a","b"`: false,
		`-`: false, `01`: false, `1.`: false, `1 `: false, `1 2`: false, `+1`: false, `.5`: false, `0x1`: false, `null`: false, `true`: false, `[1]`: false, `{}`: false,
	} {
		got, ok := plainScalar([]byte(doc))
		if ok != plain {
			t.Errorf("plainScalar(%s) = %v, %v", doc, got, ok)
		}
		if !ok {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader([]byte(doc)))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil || got != want {
			t.Errorf("plainScalar(%s) = %v, want %v, %v", doc, got, want, err)
		}
	}
}
