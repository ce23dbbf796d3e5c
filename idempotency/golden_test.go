package idempotency

import (
	"strings"
	"testing"
)

// Stores keep fingerprints: what earlier versions have made must be made again.
func TestFingerprintStays(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{``, "J_oHh99Giaxt-h_YhfW48Q"},
		{` `, "Rhk-V2zZ325tfMFjqydE0A"},
		{`{}`, "IJ1QZJ4S3s21Sb-oJda3iw"},
		{`[]`, "lDZGabcj22faoSdJrqDa9g"},
		{`null`, "Q-W05clVuZ-TPaoJvz7Aqg"},
		{`{"definition":"x","input":{"trip":"a-1"}}`, "nhaUMo6NLQdqQrS7W-RYxA"},
		{`{"input":{"trip":"a-1"},"definition":"x"}`, "nhaUMo6NLQdqQrS7W-RYxA"},
		{"{\"definition\": \"x\",\n\t\"input\": {\"trip\": \"a-1\"}}\r\n", "nhaUMo6NLQdqQrS7W-RYxA"},
		{`{"b":1,"a":2,"aa":3,"B":4,"":5}`, "ZjKK-Qb0V81agiET_qpc0w"},
		{`{"a":1,"a":2}`, "yai26t9_Bms5hXyGsKZkEQ"},
		{`{"a":{"b":1},"a":{"c":2}}`, "_9x1rf7-0PwfCxxiG521SA"},
		{`[1.0,1,1e2,1E+2,-0,-0.0,9007199254740993,1e400,0.10]`, "5PzQZEijfmSxG9XMCLwkjQ"},
		{`"<&>"`, "zV75A9rGm17u2oixJ3jNwA"},
		{`"\u003c\u0026\u003e"`, "zV75A9rGm17u2oixJ3jNwA"},
		{`"é"`, "mCnFWvVlhKrFFOvc6KJMCQ"},
		{`"\u00e9"`, "mCnFWvVlhKrFFOvc6KJMCQ"},
		{`"\ud83d\ude00"`, "WvOPapkjqgrVfZhPDFOzow"},
		{`"\ud800"`, "UV7hJbB6crqAbNt4vD2sPA"},
		{"\"\xff\"", "UV7hJbB6crqAbNt4vD2sPA"},
		{`"\u2028"`, "iEdcr2LAK5VEAZFbifrJ6g"},
		{"\"\u2028\u2029\"", "Zv_MsEfr3tGbRd6Mfh1wGg"},
		{"\"\ufffd\"", "UV7hJbB6crqAbNt4vD2sPA"},
		{`"a\/b"`, "EclxroFcLlmzTiG-BHa-ZA"},
		{`"a/b"`, "EclxroFcLlmzTiG-BHa-ZA"},
		{`"\b\f\n\r\t\"\\\u0000\u007f"`, "_IkWAgX82DYk5Ut2-zPqaQ"},
		{"\"\x7f\"", "1QrCyaoFJaSbQIaRHfHYvQ"},
		{`"\u0001\u001F"`, "ivLMuuKcNR37LVzTcu21ag"},
		{`{"\u0061":1,"b":2}`, "nzq6m9XN_0N22ldjOQJwWg"},
		{`{"é":1,"z":2}`, "2V9hk7sFbL9RGWGsjwE0aQ"},
		{`{"<":1,"=":2}`, "JSe6Z33dluYJsVt9ZcdODg"},
		{`{"a b":1,"a":2}`, "OWIX2cRZOUwPtGkUJhXuuw"},
		{`{"a\u0000":1,"a":2}`, "qLfWKj4rm3z0pC2kjodXvg"},
		{`{"z":[{"b":true,"a":null},{"b":false}],"a":[[],{},""]}`, "elyi4Ks4kmbbUB3TYvauyg"},
		{`{"a":1} {}`, "rzjHs343dAuGssuvm4ohuw"},
		{`{"a":1}x`, "blKjYTeJXYR7rCT_eJKoVQ"},
		{`{"a":1,}`, "TGHtftFVHkLRuNpeBHyWrA"},
		{`{"a":01}`, "SZtKOTImte39XGdBZc6nww"},
		{"saga: a\n", "Vm_VWJSymYjOZM4uhBQQtA"},
		{`true`, "4x85FT5NS6G42GS6MrbvzQ"},
		{` "x" `, "XwZ5_qX0ahoSsnm3p6rJcQ"},
		{`12`, "GybK78jkyaYYbyF1zmb1Qw"},
		{`-1.5e-3`, "Pu2FjGIIMalBTEofwvgbbg"},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), "IoVE-WpD4-lZcW_McnDmUQ"},
		{strings.Repeat("[", 10001) + strings.Repeat("]", 10001), "70lcBgjsXnmfQ3VHeG5_qA"},
	} {
		if got := Fingerprint("POST", "/v1/sagas", []byte(tt.body)); got != tt.want {
			t.Errorf("the fingerprint of %.60q was %s and is now %s", tt.body, tt.want, got)
		}
	}
}
