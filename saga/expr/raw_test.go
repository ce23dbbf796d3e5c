package expr_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"recourse/saga/expr"
)

var documents = []string{
	`null`, `true`, ` false `, `"a"`, `"é\"\\ \n\u0001\u2028<>&"`, "\"\u2028\"", `-1.50e+10`, `[]`, `{}`, `[ 1 , [2, {"b" : 3, "a":[ ]} ], "x ] y" ]`,
	"{\n\t\"b\": {\"c d\": \" \\\" \"},\r\n \"a\\\"\": [\"\\\\\", 10.0]\n}", `{"a":1,"a":2}`, `"\ud800"`, `{"\u0061":"\/"}`,
}

// FuzzRaw: what the functions for raw documents return is what encoding/json returns.
func FuzzRaw(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := expr.Decode(doc)
		if err != nil {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, doc); err != nil {
			t.Fatal(err)
		}
		if got := expr.Raw(doc).AppendCompact([]byte("x")); string(got) != "x"+compact.String() {
			t.Errorf("%q compact: %q, want %q", doc, got, compact.Bytes())
		}
		again, err := expr.Decode(expr.AppendJSON(nil, v))
		if err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		if got, want := expr.AppendJSON(nil, again), encoded(t, v); string(got) != want {
			t.Errorf("%q encoded: %q, want %q", doc, got, want)
		}
		switch v := v.(type) {
		case map[string]any:
			members := make(map[string]any)
			if err := expr.Raw(doc).Each(func(name string, v expr.Raw) { members[name] = decoded(t, v) }); err != nil || encoded(t, members) != encoded(t, v) {
				t.Errorf("%q has %v, %v", doc, members, err)
			}
		case []any:
			items := []any{}
			if err := expr.Raw(doc).Each(func(_ string, v expr.Raw) { items = append(items, decoded(t, v)) }); err != nil || encoded(t, items) != encoded(t, v) {
				t.Errorf("%q has %v, %v", doc, items, err)
			}
		}
	})
}

func decoded(t *testing.T, doc []byte) any {
	t.Helper()
	v, err := expr.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// encoded returns the JSON of encoding/json. It escapes two characters that RFC 8259 does not.
func encoded(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	for from, to := range map[string]string{`\u2028`: "\u2028", `\u2029`: "\u2029", `\b`: `\u0008`, `\f`: `\u000c`} {
		out = replaceEscape(out, from, to)
	}
	return string(out)
}

// replaceEscape replaces an escape, unless its backslash is escaped itself.
func replaceEscape(doc []byte, from, to string) (out []byte) {
	for i := 0; i < len(doc); i++ {
		switch {
		case bytes.HasPrefix(doc[i:], []byte(from)):
			out = append(out, to...)
			i += len(from) - 1
		case doc[i] == '\\':
			out = append(out, doc[i], doc[i+1])
			i++
		default:
			out = append(out, doc[i])
		}
	}
	return out
}
