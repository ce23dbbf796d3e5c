package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"recourse/journal"
)

// Every JSON document reads back from its YAML unchanged: numbers keep their digits, and texts that
// look like other types stay texts.
func TestYAMLHoldsTheSame(t *testing.T) {
	t.Parallel()
	back := func(t rapid.TB, doc []byte) {
		t.Helper()
		text, err := jsonToYAML(doc)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		var n yaml.Node
		if err := yaml.Load(text, &n); err != nil {
			t.Fatalf("%s\n%s: %v", doc, text, err)
		}
		got, err := YAMLToJSON(n.Content[0])
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(string(doc), string(got)); d != "" {
			t.Errorf("by way of\n%s-want +got:\n%s", text, d)
		}
	}
	for _, doc := range []string{
		`{"n":9007199254740993,"cents":19.10,"e":1e400,"E":1E+5,"minus":-0.0,"b":true,"nothing":null}`,
		`["1e3","no","NO","y","2026-11-21","0x10","1_000","~","null",".inf","- a","a: b","a #b","","  x","line\nbreak","ü","\u0001","[x","*a","!b","%c","12:30:45"]`,
		`{"":[],"a":{},"y":[[1,[2]],{"b":[{"c":"d"}]}]}`, `"text"`, `7`, `null`, `[]`, `{}`,
	} {
		raw, err := journal.Encode(jsonText(doc))
		if err != nil {
			t.Fatal(err)
		}
		back(t, raw)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(t, "document")
		raw, err := journal.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back(t, raw)
	})
}

// jsonText is JSON text.
type jsonText string

// MarshalJSON implements json.Marshaler.
func (j jsonText) MarshalJSON() ([]byte, error) { return []byte(j), nil }
