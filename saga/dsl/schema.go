package dsl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"recourse/saga"
	"recourse/saga/expr"
)

// Limits of the numbers that a schema validates. Validation is exact, and the exact form of
// 1e999999999 would fill the memory.
const (
	MaxExponent = 10_000
	MaxDigits   = 4_096
)

// schema is a compiled JSON Schema that also fills in defaults. It is immutable.
type schema struct {
	short bool // made from the shorthand: each field is validated by itself
	doc   any
	rules *jsonschema.Schema
	wrong *jsonschema.Schema // accepts the values that break the rules; it keeps no list of errors
	cost  *schemaCost
}

// answer returns the type of an answer that fits the schema.
func (s *schema) answer() *expr.Type { return schemaType(s.doc, false, s.short) }

// Document implements [saga.Schema].
func (s *schema) Document() any { return s.doc }

const (
	schemaURL = "recourse:///schema"
	wrongURL  = "recourse:///wrong"
	draft     = "https://json-schema.org/draft/2020-12/schema"
	onlyDraft = "schemas are of " + draft
)

// refuseLoading is the loader of references that leave the schema, which are not allowed.
type refuseLoading struct{}

func (refuseLoading) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s lies outside the schema: a $ref points into the schema itself (#/$defs/…)", clip(url, 80))
}

// compileSchema compiles a JSON Schema of draft 2020-12, given as a value of package expr. Formats
// are asserted; patterns are RE2.
func compileSchema(doc any) (*schema, error) {
	if f := boundNumbers(doc); f != nil {
		return nil, fmt.Errorf("%s: %s", f.Pointer, f.Detail)
	}
	if m, ok := doc.(map[string]any); ok && m["$schema"] != nil && m["$schema"] != draft {
		return nil, errors.New("$schema is another draft: " + onlyDraft)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoading{})
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, schemaError(err)
	}
	rules, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	if err := c.AddResource(wrongURL, map[string]any{"not": map[string]any{"$ref": schemaURL}}); err != nil {
		return nil, schemaError(err)
	}
	wrong, err := c.Compile(wrongURL)
	if err != nil {
		return nil, schemaError(err)
	}
	cost, err := newSchemaCost(append(dynamicAnchors(c, doc, ""), rules))
	if err != nil {
		return nil, err
	}
	return &schema{doc: doc, rules: rules, wrong: wrong, cost: cost}, nil
}

// dynamicAnchors finds the parts of a schema that have a $dynamicAnchor. They are already compiled.
func dynamicAnchors(c *jsonschema.Compiler, doc any, at string) (list []*jsonschema.Schema) {
	switch v := doc.(type) {
	case map[string]any:
		if _, ok := v["$dynamicAnchor"].(string); ok {
			// Inside an enum there is no schema to compile.
			if part, err := c.Compile(schemaURL + "#" + (&url.URL{Path: at}).EscapedPath()); err == nil {
				list = append(list, part)
			}
		}
		for _, name := range sortedKeys(v) {
			list = append(list, dynamicAnchors(c, v[name], at+"/"+expr.PointerToken(name))...)
		}
	case []any:
		for i, part := range v {
			list = append(list, dynamicAnchors(c, part, at+"/"+strconv.Itoa(i))...)
		}
	}
	return list
}

// schemaError formats the errors of a schema itself in one line.
func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var bad *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &bad) {
		for len(bad.Causes) > 0 {
			bad = bad.Causes[0]
		}
		return fmt.Errorf("this is no JSON Schema: at /%s: %s", strings.Join(bad.InstanceLocation, "/"), bad.ErrorKind.LocalizedString(english()))
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), schemaURL, "")), " ")
	return errors.New("this is no usable JSON Schema: " + clip(text, 300))
}

func english() *message.Printer { return message.NewPrinter(language.English) }

// Apply implements [saga.Schema].
func (s *schema) Apply(v any) (any, []saga.Finding) {
	if f := boundNumbers(v); f != nil {
		return nil, []saga.Finding{*f}
	}
	b := s.cost.budget(v)
	v, ok := b.fill(s.doc, v)
	if !ok {
		return nil, []saga.Finding{tooCostly}
	}
	if b.visit(s.rules, v, 0); b.left < 0 {
		return nil, []saga.Finding{tooCostly}
	}
	if b.large() && s.wrong.Validate(v) == nil {
		return nil, []saga.Finding{tooLarge}
	}
	err := s.rules.Validate(v)
	if err == nil {
		return v, nil
	}
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return nil, []saga.Finding{{Code: "schema", Detail: clip(err.Error(), 300)}}
	}
	var list []saga.Finding
	s.findings(bad, &list)
	slices.SortFunc(list, func(a, b saga.Finding) int {
		return strings.Compare(a.Pointer+"\x00"+a.Detail, b.Pointer+"\x00"+b.Detail)
	})
	return nil, list
}

// Fill implements saga.Filler.
func (s *schema) Fill(v any) (any, bool) { return s.cost.budget(v).fill(s.doc, v) }

// fill returns v with the defaults of `properties`, at any depth of properties and items. It does
// not change v itself.
func fill(doc, v any) any {
	rules, _ := doc.(map[string]any)
	switch value := v.(type) {
	case map[string]any:
		properties, _ := rules["properties"].(map[string]any)
		if len(properties) == 0 {
			return v
		}
		filled := maps.Clone(value)
		for name, rule := range properties { // any order
			inner, _ := rule.(map[string]any)
			if have, ok := value[name]; ok {
				filled[name] = fill(inner, have)
			} else if def, ok := inner["default"]; ok {
				filled[name] = fill(inner, def) // the default may be an object with defaults of its own
			}
		}
		return filled
	case []any:
		if rules["items"] == nil {
			return v
		}
		filled := make([]any, len(value))
		for i, item := range value {
			filled[i] = fill(rules["items"], item)
		}
		return filled
	}
	return v
}

// boundNumbers finds a number that is too large to compute with.
func boundNumbers(v any) *saga.Finding {
	switch value := v.(type) {
	case json.Number:
		if !bounded(string(value)) {
			return &saga.Finding{Code: "number_too_large", Detail: fmt.Sprintf("a number here may have %d digits and an exponent up to %d: send it as text", MaxDigits, MaxExponent)}
		}
	case map[string]any:
		for _, name := range sortedKeys(value) {
			if f := boundNumbers(value[name]); f != nil {
				f.Pointer = "/" + expr.PointerToken(name) + f.Pointer
				return f
			}
		}
	case []any:
		for i, item := range value {
			if f := boundNumbers(item); f != nil {
				f.Pointer = "/" + strconv.Itoa(i) + f.Pointer
				return f
			}
		}
	}
	return nil
}

func bounded(number string) bool {
	digits, exponent, has := strings.Cut(strings.ToLower(number), "e")
	if len(digits) > MaxDigits {
		return false
	}
	if !has {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && e >= -MaxExponent && e <= MaxExponent
}

// decodeJSON decodes valid JSON, with numbers as written.
func decodeJSON(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic("dsl: " + err.Error()) // the caller has checked that it is valid
	}
	return v
}
