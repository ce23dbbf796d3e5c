package api

import (
	"strings"
	"testing"
)

func TestStrictJSON(t *testing.T) {
	for _, good := range []string{
		`{}`, `[]`, `null`, ` true `, `-0`, `0`, `1.50`, `1e10000`, `1E-10000`, `"\u0000\"\\\/\b\f\n\r\t"`, `"\ud83d\ude00"`, `"é😀"`,
		`{"a":{"a":1},"b":{"a":1}}`, `[1,[2,[3]]]`, deep(64), strings.Repeat("9", 4096), "\t\r\n{ \"a\" : [ 1 , 2 ] }\n",
	} {
		if p := strictJSON([]byte(good)); p != nil {
			t.Errorf("%.60s: %v %+v", good, p, p.Errors)
		}
	}
	for bad, want := range map[string]string{
		``: "empty_body", `{`: "syntax", `{"a"}`: "syntax", `{"a":}`: "syntax", `{"a":1,}`: "syntax", `[1,]`: "syntax", `[1 2]`: "syntax",
		`{a:1}`: "syntax", `'a'`: "syntax", `"a`: "syntax", `"\x"`: "syntax", `"\u12"`: "syntax", `"\`: "syntax", "\"\n\"": "syntax",
		`01`: "syntax", `-`: "syntax", `1.`: "syntax", `.5`: "syntax", `1e`: "syntax", `+1`: "syntax", `1e+`: "syntax", `tru`: "syntax",
		`Infinity`: "syntax", `// x`: "syntax", `{"a":1,"a":1}`: "duplicate_field", `{"":1,"":1}`: "duplicate_field", `{"\u0061":1,"a":1}`: "duplicate_field",
		`"\ud800"`: "lone_surrogate", `"\ud800\ud800"`: "lone_surrogate", `"\udc00\ud800"`: "lone_surrogate", `"\ud800x"`: "lone_surrogate",
		"\"\xc3\"": "not_utf8", "\"\xed\xa0\x80\"": "not_utf8", "\"\xf4\x90\x80\x80\"": "not_utf8", "\"\xc0\x80\"": "not_utf8",
		deep(65): "too_deep", strings.Repeat("9", 4097): "number_too_long", `1e10001`: "number_too_large", `1e99999999999999999999`: "number_too_large",
		`1 2`: "trailing_text", `{}]`: "trailing_text", "\ufeff{}": "syntax",
	} {
		p := strictJSON([]byte(bad))
		if p == nil {
			t.Errorf("%.60q passes, want %s", bad, want)
			continue
		}
		if got := p.Errors[0].Code; got != want || p.Status != 400 || p.Errors[0].Line == 0 {
			t.Errorf("%.60q: %s, want %s", bad, got, want)
		}
	}
}

func TestStrictJSONPlaces(t *testing.T) {
	f := strictJSON([]byte("{\n  \"a/b\": [0, {\"é\": tru}]\n}")).Errors[0]
	if f.Pointer != "/a~1b/1/é" || f.Line != 2 || f.Column != 20 {
		t.Errorf("%+v", f)
	}
}
