package dsl

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"recourse/saga/expr"
)

// counter counts how often the validator comes to a schema's end.
type counter struct{ n *int }

// Validate implements jsonschema.SchemaExt.
func (c counter) Validate(*jsonschema.ValidatorContext, any) { *c.n++ }

// counting has a compiled schema count, and returns where.
func counting(s *schema) *int {
	n := new(int)
	seen := make(map[*jsonschema.Schema]bool)
	for queue := []*jsonschema.Schema{s.rules}; len(queue) > 0; queue = queue[1:] {
		if one := queue[0]; one != nil && !seen[one] {
			seen[one] = true
			one.Extensions = append(one.Extensions, counter{n})
			queue = append(queue, parts(one)...)
			for _, others := range s.cost.anchors {
				queue = append(queue, others...)
			}
		}
	}
	return n
}

// drawSchema draws a schema that refers to itself often, as text.
func drawSchema(t *rapid.T, depth int) string {
	sub := func() string { return drawSchema(t, depth-1) }
	leaf := []string{`{"$ref":"#"}`, `{"$ref":"#/$defs/a"}`, `{"$dynamicRef":"#d"}`, `true`, `{"type":"integer"}`, `{"type":["object","array"]}`, `{"enum":[1,"a",{"a":1}]}`, `{"pattern":"^a+b?$"}`,
		`{"uniqueItems":true}`, `{"required":["a"]}`}
	n := rapid.IntRange(0, len(leaf)+9).Draw(t, "schema")
	if n < len(leaf) || depth == 0 {
		return leaf[n%len(leaf)]
	}
	switch n - len(leaf) {
	case 0:
		return `{"anyOf":[` + sub() + `,` + sub() + `]}`
	case 1:
		return `{"oneOf":[` + sub() + `,` + sub() + `]}`
	case 2:
		return `{"allOf":[` + sub() + `,` + sub() + `]}`
	case 3:
		return `{"not":` + sub() + `}`
	case 4:
		return `{"if":` + sub() + `,"then":` + sub() + `,"else":` + sub() + `}`
	case 5:
		return `{"properties":{"a":` + sub() + `,"b":` + sub() + `},"additionalProperties":` + sub() + `}`
	case 6:
		return `{"patternProperties":{"^[ab]$":` + sub() + `,".":` + sub() + `},"propertyNames":` + sub() + `}`
	case 7:
		return `{"prefixItems":[` + sub() + `],"items":` + sub() + `,"contains":` + sub() + `}`
	case 8:
		return `{"dependentSchemas":{"a":` + sub() + `},"unevaluatedProperties":` + sub() + `,"unevaluatedItems":` + sub() + `}`
	default:
		return `{"properties":{"a":{"$ref":"#"},"c":{"$ref":"#"}},"items":{"$ref":"#"},"anyOf":[` + sub() + `,` + sub() + `]}`
	}
}

func drawValue(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 6).Draw(t, "value")
	if depth == 0 {
		n %= 4
	}
	switch n {
	case 0:
		return "1"
	case 1:
		return `"aab"`
	case 2:
		return "null"
	case 3:
		return "[]"
	case 4:
		return "[" + drawValue(t, depth-1) + "," + drawValue(t, depth-1) + "]"
	default:
		return `{"a":` + drawValue(t, depth-1) + `,"c":` + drawValue(t, depth-1) + `}`
	}
}

// What is counted beforehand is no less than what the validator then does.
func TestSchemaCostIsAnUpperBound(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		text := `{"$defs":{"a":` + drawSchema(t, 2) + `,"d":{"$dynamicAnchor":"d","items":` + drawSchema(t, 2) + `}},"allOf":[` + drawSchema(t, 3) + `]}`
		doc, err := expr.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := compileSchema(doc)
		if err != nil {
			t.Fatal(text, err)
		}
		n := counting(s)
		for range 8 {
			v, err := expr.Decode([]byte(drawValue(t, 4)))
			if err != nil {
				t.Fatal(err)
			}
			b := s.cost.budget(v)
			if b.visit(s.rules, v, 0); b.left < 0 {
				continue
			}
			*n = 0
			_ = s.rules.Validate(v)
			if spent := b.most - b.left; *n > spent {
				t.Fatalf("%d steps were counted, %d done: %s", spent, *n, text)
			}
			most = max(most, *n)
		}
	})
	if most < 30 {
		t.Errorf("the largest case took %d steps: this shows nothing", most)
	}
}

// A new keyword of the validator needs a look at what it costs here.
func TestSchemaCostKnowsTheKeywords(t *testing.T) {
	if n := reflect.TypeFor[jsonschema.Schema]().NumField(); n != 69 {
		t.Errorf("a compiled schema has %d fields: see whether parts, same and visit know all that lead to other schemas, then change this number", n)
	}
}

func nested(open, end string, depth int) string {
	return strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth)
}

// many writes n numbers in a format.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestSchemaTooCostly has schemas of a few hundred bytes, for which the validator takes 2^depth
// steps or more.
func TestSchemaTooCostly(t *testing.T) {
	const two = `{"$defs":{"n":{"anyOf":[{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}}},{"type":"integer"}]}},"$ref":"#/$defs/n"}`
	const object, array = `{"c":`, `[`
	for _, tt := range []struct{ name, schema, value string }{
		{"valid, 16 deep", two, nested(object, "}", 16)},
		{"valid, 20 deep", two, nested(object, "}", 20)},
		{"invalid, 20 deep", two, strings.Replace(nested(object, "}", 20), "1", `"x"`, 1)},
		{"of arrays", `{"oneOf":[{"items":{"$ref":"#"},"minItems":5,"type":"array"},{"items":{"$ref":"#"},"type":"array"},{"type":"integer"}]}`, nested(array, "]", 20)},
		{"allOf", `{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, nested(array, "]", 20)},
		{"not", `{"not":{"items":{"$ref":"#"}},"if":{"items":{"$ref":"#"}}}`, nested(array, "]", 24)},
		{"a dynamic reference", `{"$dynamicAnchor":"n","anyOf":[{"items":{"$dynamicRef":"#n"},"minItems":5},{"items":{"$dynamicRef":"#n"}}]}`, nested(array, "]", 20)},
		{"a pattern", `{"items":{"pattern":".{0,500}.{0,400}y"}}`, `["` + strings.Repeat("x", 20_000) + `"]`},
		{"an enum", `{"items":{"enum":[` + strings.Repeat("1e9999,", 200) + `"a"]}}`, "[" + strings.Repeat("1e9998,", 20) + "1]"},
		{"defaults", `{"items":{"properties":{"a":{"default":"` + strings.Repeat("x", 1000_000) + `"}}}}`, "[" + strings.Repeat("{},", 1000) + "{}]"},
		{"defaults of a default", `{"properties":{"l":{"default":[` + strings.Repeat("{},", 1000) + `{}],"items":{"properties":{"a":{"default":"` + strings.Repeat("x", 100_000) + `"}}}}}}`, "{}"},
		{"defaults to look for", `{"items":{"properties":{"a":{}` + many(10_000, `,"p%d":{}`) + `}}}`, "[" + strings.Repeat("{},", 10_000) + "{}]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := must(compileSchema(decodeJSON([]byte(tt.schema))))
			_, findings := s.Apply(decodeJSON([]byte(tt.value)))
			if len(findings) != 1 || findings[0].Code != "schema_too_costly" {
				t.Errorf("%v, want schema_too_costly", findings)
			}
		})
	}
}

// TestSchemaAffordable has values that are large, or schemas that are intricate, and that are
// judged all the same.
func TestSchemaAffordable(t *testing.T) {
	tree := `{"$defs":{"e":{"oneOf":[{"type":"string"},{"type":"number"},{"type":"object","required":["op","l","r"],"properties":{"op":{"enum":["+","-"]},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}}}]}},"$ref":"#/$defs/e"}`
	sum := "1"
	for range 30 {
		sum = `{"op":"+","l":` + sum + `,"r":"x"}`
	}
	row := `{"id":"c-1","at":"2026-01-31T09:30:00Z","n":12,"tags":["a","b"]}`
	rows := "[" + strings.Repeat(row+",", 20_000) + row + "]"
	rowSchema := `{"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string","pattern":"^c-[0-9]+$"},"at":{"format":"date-time"},"n":{"type":"integer","minimum":0},"tags":{"items":{"enum":["a","b","c"]},"uniqueItems":true}}}}`
	for _, tt := range []struct {
		name, schema, value, want string
	}{
		{"an expression tree", tree, sum, ""},
		{"many rows", rowSchema, rows, ""},
		{"many numbers", `{"items":{"type":"integer"}}`, "[" + strings.Repeat("1,", 210_000) + "1]", ""},
		{"many wrong numbers", `{"items":{"type":"string"}}`, "[" + strings.Repeat("1,", 210_000) + "1]", "the value breaks its schema, and is too large to say where"},
		{"a long text", `{"pattern":"^[a-z]+$"}`, `"` + strings.Repeat("x", 1<<20) + `"`, ""},
		{"a circle", `{"$ref":"#"}`, `1`, "schema"},
		{"the draft's own schema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := must(compileSchema(decodeJSON([]byte(tt.schema))))
			got := ""
			if _, findings := s.Apply(decodeJSON([]byte(tt.value))); len(findings) > 0 {
				got = findings[0].Code + " " + findings[0].Detail
			}
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "costly") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if _, err := compileSchema(decodeJSON([]byte(`{"$defs":{"old":{"$id":"https://shop.example/old","$schema":"http://json-schema.org/draft-07/schema#"}},"$ref":"#/$defs/old"}`))); err == nil || !strings.Contains(err.Error(), "another draft") {
		t.Errorf("a part of another draft: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint("must: ", err))
	}
	return v
}
