package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
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

// FuzzStartBody holds the scanner against encoding/json, and the reading of a start against panics: what
// passes is JSON of valid text without a field twice, and what a start reads of it comes out as it went in.
func FuzzStartBody(f *testing.F) {
	for _, seed := range []string{
		`{"definition":"order","version":"v3","input":{"amount":19.10},"budget":"2.00 USD","labels":{"tier":"gold"}}`,
		`{"definition":"order","budget":{"amount":"2.00","currency":"USD","tokens":100}}`,
		`{"input":"\ud83d\ude00\u0000"}`, `{"input":1e400,"labels":null}`, `{"a":[{"b":1,"b":2}]}`, `[[[[`, `{"budget":{"amount":" "}}`, "\"\xff\"", `{"version":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := strictJSON(body)
		if p != nil {
			if p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Detail == "" {
				t.Fatalf("%q: %+v", body, p)
			}
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("%q passes, but is not JSON in UTF-8", body)
		}
		o := &object{fields: map[string]json.RawMessage{}}
		if err := o.parse(body, "", []string{"definition", "version", "input", "budget", "labels"}); err != nil {
			return
		}
		r, err := readStart(o)
		if err != nil {
			if q := asProblem(err); q.Status != 400 || len(q.Errors) == 0 {
				t.Fatalf("%q: %+v", body, q)
			}
			return
		}
		if r.definition == "" || r.version < 0 || !bytes.Equal(r.input, o.raw("input")) || !bytes.Contains(body, r.input) {
			t.Fatalf("%q reads as %+v", body, r)
		}
	})
}
