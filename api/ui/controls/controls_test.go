package controls

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
)

func TestOf(t *testing.T) {
	doc := json.RawMessage(`{"type":"object","required":["n","who","sub"],"properties":{
		"opt":{"type":["string","null"]},"n":{"type":"integer","description":"how many","maximum":9007199254740993},"who":{"enum":["ada",7,null]},"def":{"type":"string","default":"x"},
		"when":{"type":"string","format":"date"},"list":{"type":"array"},"b":{"type":"boolean"},"odd":{"type":["string","integer"]},"any":true,
		"sub":{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":2},"deep":{"type":"object","properties":{"x":{}}}}},
		"may":{"type":"object","required":["a"],"properties":{"a":{"type":"number"}}}}}`)
	want := []*Control{
		{Name: "/in/any", Label: "any", Kind: "json", Hints: []string{"JSON"}},
		{Name: "/in/b", Label: "b", Kind: "bool"},
		{Name: "/in/def", Label: "def", Kind: "text", Default: "x", Hints: []string{"default x"}},
		{Name: "/in/list", Label: "list", Kind: "json", Hints: []string{"JSON: array"}},
		{Name: "/in/may", Label: "may", Kind: "group", Fields: []*Control{{Name: "/in/may/a", Label: "a", Kind: "number", Hints: []string{"number", "required with the others"}}}},
		{Name: "/in/n", Label: "n", Kind: "number", Required: true, About: "how many", Hints: []string{"integer", "at most 9007199254740993"}},
		{Name: "/in/odd", Label: "odd", Kind: "json", Hints: []string{"JSON: string or integer"}},
		{Name: "/in/opt", Label: "opt", Kind: "text"},
		{Name: "/in/sub", Label: "sub", Kind: "group", Required: true, Fields: []*Control{
			{Name: "/in/sub/a", Label: "a", Kind: "text", Required: true, Hints: []string{"characters, at least: 2"}},
			{Name: "/in/sub/deep", Label: "deep", Kind: "json", Hints: []string{"JSON: object"}},
		}},
		{Name: "/in/when", Label: "when", Kind: "date"},
		{Name: "/in/who", Label: "who", Kind: "enum", Required: true, Options: []option{{`"ada"`, "ada"}, {"7", "7"}, {"null", "null"}}},
	}
	pointers(want)
	if d := cmp.Diff(want, Of(doc, "/in", nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, odd := range []string{`{"type":"array"}`, `true`, `{"type":"object"}`, ``} {
		if got := Of(json.RawMessage(odd), "/in", nil); len(got) != 1 || got[0].Kind != "json" || got[0].Label != "In" {
			t.Errorf("of %s: %v", odd, got)
		}
	}
}

// pointers sets each field's name to its pointer.
func pointers(list []*Control) {
	for _, c := range list {
		c.Pointer = c.Name
		pointers(c.Fields)
	}
}

func TestDocument(t *testing.T) {
	const object = `{"type":"object","required":["r"],"properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"boolean"},"d":{"enum":["ada",7]},"e":{"type":"array"},
		"r":{"type":"object","properties":{"x":{"type":"string"}}},"s/~":{"type":"object","properties":{"x":{"type":"integer"}}}}}`
	for _, tt := range []struct {
		name, schema, want string
		form               url.Values
	}{
		{"nothing", object, `{"r":{}}`, url.Values{"comment": {"x"}, "/in/a": {""}, "/in/b": {" "}}},
		{"each type", object, `{"a":" 1","b":0.10,"c":false,"d":"ada","e":[1],"r":{"x":"y"},"s/~":{"x":12345678901234567890}}`, url.Values{"/in/a": {" 1"}, "/in/b": {" 0.10 "}, "/in/c": {"false"}, "/in/d": {`"ada"`}, "/in/e": {" [1]"},
			"/in/r/x": {"y"}, "/in/s~1~0/x": {"12345678901234567890"}}},
		{"what is of another type is judged by the API", object, `{"b":"0x1","c":"perhaps","d":"bob","r":{}}`, url.Values{"/in/b": {"0x1"}, "/in/c": {"perhaps"}, "/in/d": {"bob"}}},
		{"numbers that JSON does not write so", object, `{"b":"01","r":{}}`, url.Values{"/in/b": {"01"}}},
		{"no JSON", object, "", url.Values{"/in/e": {"a, b"}}},
		{"a document", `{"type":"array"}`, "[1, 2]", url.Values{"/in": {" [1, 2]"}}},
		{"bytes that are no text", object, `{"a":"\ufffd","r":{}}`, url.Values{"/in/a": {"\xff"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fields := Of(json.RawMessage(tt.schema), "/in", nil)
			Fill(fields, tt.form)
			got, ok := Document(fields)
			if ok != (tt.want != "") {
				t.Fatalf("ok is %v", ok)
			}
			if d := cmp.Diff(tt.want, string(got)); ok && d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestBlame(t *testing.T) {
	fields := Of(json.RawMessage(`{"type":"object","properties":{"a":{"type":"array"},"ab":{"type":"string"},"s":{"type":"object","properties":{"x":{"type":"string"}}}}}`), "/in", nil)
	rest := Blame(fields, []saga.Finding{{Pointer: "/in/a/0", Detail: "no text"}, {Pointer: "/in/s/x", Detail: "too short"}, {Pointer: "/in/s/z", Detail: "unknown"}, {Pointer: "/in/b", Detail: "unknown, too"}, {Pointer: "/labels", Detail: "many"}})
	got := map[string][]string{"a": fields[0].Wrong, "ab": fields[1].Wrong, "s": fields[2].Wrong, "x": fields[2].Fields[0].Wrong}
	want := map[string][]string{"a": {"/0: no text"}, "ab": nil, "s": {"/z: unknown"}, "x": {"too short"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(rest) != 2 || rest[0].Pointer != "/in/b" || rest[1].Pointer != "/labels" {
		t.Errorf("left: %v", rest)
	}
}
