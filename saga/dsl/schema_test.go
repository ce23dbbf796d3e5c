package dsl_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds"
)

func value(tb testing.TB, text string) any {
	tb.Helper()
	v, err := expr.Decode([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// However much is wrong with a value, and however long the names in it are, what is said of it is
// not long.
func TestApplyMuch(t *testing.T) {
	def, errs := dsl.Parse("x", []byte("saga: x\ninput: {list: '[integer]?'}\nsteps: [{id: a, set: 1}]\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	fields := make(map[string]any)
	for i := range 5000 {
		fields[fmt.Sprintf("f%04d", i)] = true
	}
	for name, v := range map[string]any{
		"fields": fields,
		"a name": map[string]any{strings.Repeat("é/~", 100_000): true},
		"items":  value(t, `{"list":[`+strings.Repeat(`"x",`, 5000)+`"x"]}`),
	} {
		_, list := def.Input.Apply(v)
		doc, err := json.Marshal(list)
		if err != nil || len(list) == 0 || len(list) > 100 || len(doc) > 100_000 {
			t.Errorf("%s: %d findings of %d bytes, %v", name, len(list), len(doc), err)
		}
		if name == "fields" && list[99].Pointer != "/f0099" {
			t.Errorf("the last one is of %s", list[99].Pointer)
		}
	}
}

// What is not in its format is said without the words of the library that has found it.
func TestFormats(t *testing.T) {
	def := mustParse(t, "saga: x\ninput: {at: date, mail: email, when: datetime, where: uri}\nsteps: [{id: a, set: 1}]\n")
	_, findings := def.Input.Apply(value(t, `{"at":"soon","mail":"nobody","when":"now","where":"here"}`))
	want := []string{`"soon" is not a valid date, such as 2026-01-31`, `"nobody" is not a valid email, such as me@shop.example`,
		`"now" is not a valid date-time, such as 2026-01-31T09:30:00Z`, `"here" is not a valid uri, such as https://shop.example/a`}
	var got []string
	for _, f := range findings {
		got = append(got, f.Detail)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestApply(t *testing.T) {
	const short = "input: {id: string, n: integer = 12, note: string?, price: decimal?, tags: '[string] = [\"a\"]', who: {name: string, lang: string = en}, at: date?, mail: email?, more: object?}"
	const long = `input_schema: {type: object, required: [a], properties: {a: {type: integer, minimum: 1}, b: {default: 5}, c: {enum: [x, y]}, d: {format: uri, type: string}}}`
	tests := []struct {
		name, schema, input, want string // want: the value, or "pointer code" lines
	}{
		{"defaults", short, `{"id":"x","who":{"name":"n"}}`, `{"at":null,"id":"x","mail":null,"more":null,"n":12,"note":null,"price":null,"tags":["a"],"who":{"lang":"en","name":"n"}}`},
		{"given values stay", short, `{"id":"x","n":1,"note":null,"price":19.10,"tags":[],"who":{"name":"n","lang":"de"},"more":{"z":1}}`,
			`{"at":null,"id":"x","mail":null,"more":{"z":1},"n":1,"note":null,"price":19.10,"tags":[],"who":{"lang":"de","name":"n"}}`},
		{"missing", short, `{"who":{}}`, "/id required\n/who/name required"},
		{"unknown", short, `{"id":"x","nots":"y","who":{"name":"n","lnag":"de"}}`, "/nots unknown_field\n/who/lnag unknown_field"},
		{"types", short, `{"id":1,"n":1.5,"price":"1","tags":[1],"who":3}`, "/id type\n/n type\n/price type\n/tags/0 type\n/who type"},
		{"formats", short, `{"id":"x","who":{"name":"n"},"at":"31.1.2024","mail":"nobody"}`, "/at format\n/mail format"},
		{"not an object", short, `[1]`, " type"},
		{"an exact number", short, `{"id":"x","who":{"name":"n"},"price":9007199254740993.000000000001,"n":9007199254740993}`,
			`{"at":null,"id":"x","mail":null,"more":null,"n":9007199254740993,"note":null,"price":9007199254740993.000000000001,"tags":["a"],"who":{"lang":"en","name":"n"}}`},
		{"a huge exponent", short, `{"id":"x","who":{"name":"n"},"n":1e999999999}`, "/n number_too_large"},
		{"a tiny exponent", short, `{"id":"x","who":{"name":"n"},"price":1e-999999999}`, "/price number_too_large"},
		{"many digits", short, `{"id":"x","who":{"name":"n"},"n":` + strings.Repeat("9", 5000) + `}`, "/n number_too_large"},
		{"json schema", long, `{"a":2,"c":"x","z":1}`, `{"a":2,"b":5,"c":"x","z":1}`},
		{"json schema findings", long, `{"a":0,"c":"w","d":"no uri"}`, "/a minimum\n/c enum\n/d format"},
		{"defaults in a default", `input_schema: {properties: {c: {type: object, default: {}, properties: {n: {type: integer, default: 5}}}, l: {default: [{}, {x: 2}], items: {properties: {x: {default: 1}}}}}}`,
			`{}`, `{"c":{"n":5},"l":[{"x":1},{"x":2}]}`},
		{"any", "input: any", `3`, `3`},
		{"no schema", "", `3`, `3`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			def := mustParse(t, "saga: x\n"+tt.schema+"\nsteps: [{id: a, set: 1}]\n")
			input := value(t, tt.input)
			got, findings := input, []saga.Finding(nil)
			runtime.LockOSThread()
			begin := cpu()
			if def.Input != nil {
				got, findings = def.Input.Apply(input)
			}
			took := cpu() - begin
			runtime.UnlockOSThread()
			if took > slower*time.Second {
				t.Errorf("took %v", took)
			}
			text := ""
			if len(findings) == 0 {
				b, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			} else {
				var lines []string
				for _, f := range findings {
					lines = append(lines, f.Pointer+" "+f.Code)
				}
				text = strings.Join(lines, "\n")
			}
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("Apply (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(value(t, tt.input), input, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Apply changed its input:\n%s", diff)
			}
		})
	}
}

func TestApplySuggests(t *testing.T) {
	def := mustParse(t, "saga: x\ninput: {order_id: string?}\nsteps: [{id: a, set: 1}]\n")
	_, findings := def.Input.Apply(value(t, `{"ordr_id": "1"}`))
	want := []saga.Finding{{Pointer: "/ordr_id", Code: "unknown_field", Detail: `there is no field "ordr_id"; did you mean "order_id"?`}}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestAnswerSchema(t *testing.T) {
	const head = "saga: x\nsteps:\n  - id: a\n    http: GET https://a.example/\n    expect: {schema: "
	for _, tt := range []struct {
		schema, body string
		holds        bool
	}{
		{"{id: string, price: decimal}", `{"id":"x","price":1.10,"more":1}`, true},
		{"{id: string}", `{"id":1}`, false},
		{"{id: string}", `{}`, false},
		{"{type: string}", `{"type":"card"}`, true},
		{"[string]", `["a"]`, true},
		{"[string]", `[1]`, false},
		{"{type: object, properties: {a: {const: 1}}}", `{"a":2}`, false},
		{"{$schema: 'https://json-schema.org/draft/2020-12/schema', minItems: 1}", `[]`, false},
	} {
		def := mustParse(t, head+tt.schema+"}\n")
		_, findings := def.ByID["a"].Expect.Schema.Apply(value(t, tt.body))
		if holds := len(findings) == 0; holds != tt.holds {
			t.Errorf("%s over %s: %v, want %v (%v)", tt.schema, tt.body, holds, tt.holds, findings)
		}
	}
}

func editorSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(dsl.Schema(kinds.All()))))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///saga.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("mem:///saga.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func yamlValue(tb testing.TB, src string) any {
	tb.Helper()
	var v any
	if err := yaml.Load([]byte(src), &v); err != nil {
		tb.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return value(tb, string(b))
}

// TestEditorSchema holds the editor's schema to accepting what Parse accepts, and
// to refusing the plain mistakes.
func TestEditorSchema(t *testing.T) {
	s := editorSchema(t)
	for _, file := range append(glob(t, "../../examples/*.yaml"), "testdata/good/json.yaml") {
		if err := s.Validate(yamlValue(t, string(read(t, file)))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	// YAML numbers beyond JSON's doubles cannot pass the generic decoder.
	big := strings.NewReplacer("1e400", "1", "2024-01-31", "'2024-01-31'").Replace(string(read(t, "testdata/good/everything.yaml")))
	if err := s.Validate(yamlValue(t, big)); err != nil {
		t.Errorf("everything.yaml: %v", err)
	}
	if err := s.Validate(yamlValue(t, "{saga: x, steps: [{id: a, task: {type: t, input: [1], heartbeat: 5s}}]}")); err != nil {
		t.Errorf("a task as a map: %v", err)
	}
	for name, src := range map[string]string{
		"no type":         "{saga: x, steps: [{id: a, task: {input: 1}}]}",
		"no steps":        "saga: x",
		"bad name":        "{saga: X, steps: [{id: a, set: 1}]}",
		"unknown key":     "{saga: x, steps: [{id: a, set: 1}], finaly: []}",
		"two kinds":       "{saga: x, steps: [{id: a, set: 1, fail: x}]}",
		"no kind":         "{saga: x, steps: [{id: a}]}",
		"foreign key":     "{saga: x, steps: [{id: a, set: 1, headers: {}}]}",
		"bad method":      "{saga: x, steps: [{id: a, http: GO https://a.example}]}",
		"bad duration":    "{saga: x, timeout: 1.5s, steps: [{id: a, set: 1}]}",
		"nested in a map": "{saga: x, steps: [{id: a, switch: [{steps: [{id: B, set: 1}]}]}]}",
	} {
		if s.Validate(yamlValue(t, src)) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

func TestEditorSchemaIsStable(t *testing.T) {
	if a, b := dsl.Schema(kinds.All()), dsl.Schema(kinds.All()); string(a) != string(b) {
		t.Error("two calls give different bytes")
	}
}

func TestDocument(t *testing.T) {
	def, errs := dsl.Parse("t.yaml", []byte("saga: x\ninput: {n: integer = 12345678901234567890, note: string?}\nsteps: [{id: a, sleep: 1s}]\n"), options())
	if errs != nil {
		t.Fatal(errs)
	}
	const want = `{"additionalProperties":false,"properties":{"n":{"default":12345678901234567890,"type":"integer"},"note":{"default":null,"type":["string","null"]}},"type":"object"}`
	if got := string(dsl.Document(def.Input)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := dsl.Document(nil); got != nil {
		t.Errorf("a document of nothing: %s", got)
	}
}
