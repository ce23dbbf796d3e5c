package dsl

import (
	"strings"

	"recourse/saga/expr"
)

// schemaType returns the type that a JSON Schema gives a value. Parts that it does not mention have
// any type. filled says that the value has the schema's defaults (see fill). strict says that a
// field that is not required may really be absent. It is false for answers, because the author of
// an answer's schema may only have forgotten `required`.
func schemaType(doc any, filled, strict bool) *expr.Type {
	r := &schemaReader{doc: doc, refs: map[string]*expr.Type{}, strict: strict}
	return r.read(doc, filled)
}

// takenType returns the type of a value before it is given the schema's defaults.
func takenType(doc any) *expr.Type {
	r := &schemaReader{doc: doc, refs: map[string]*expr.Type{}, strict: true, taken: true}
	return r.read(doc, true)
}

// schemaReader reads one schema.
type schemaReader struct {
	doc    any
	refs   map[string]*expr.Type // the targets of $ref; any while a target is being read
	depth  int
	strict bool
	taken  bool // the value does not have its defaults yet
}

var schemaKinds = map[string]expr.Kinds{
	"null": expr.KindNull, "boolean": expr.KindBool, "integer": expr.KindInteger, "number": expr.KindNumber,
	"string": expr.KindString, "array": expr.KindList, "object": expr.KindObject,
}

func (r *schemaReader) read(doc any, filled bool) *expr.Type {
	rules, ok := doc.(map[string]any)
	if r.depth++; !ok || r.depth > MaxDepth || rules["$id"] != nil && r.depth > 1 {
		r.depth--
		return expr.Any()
	}
	defer func() { r.depth-- }()
	t := r.own(rules, filled)
	if ref, ok := rules["$ref"].(string); ok {
		t = expr.Both(t, r.ref(ref))
	}
	if list, ok := rules["allOf"].([]any); ok {
		for _, one := range list {
			t = expr.Both(t, r.read(one, false))
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		list, _ := rules[word].([]any)
		if len(list) == 0 {
			continue
		}
		either := r.read(list[0], false)
		for _, one := range list[1:] {
			either = expr.Alternative(either, r.read(one, false))
		}
		t = expr.Both(t, either)
	}
	if r.taken && filled { // the default comes before any rule that requires the field
		t = t.Optional(defaulted(rules))
	}
	return t
}

// defaulted lists the properties that have a default.
func defaulted(rules map[string]any) (names []string) {
	properties, _ := rules["properties"].(map[string]any)
	for name, doc := range properties { // any order
		inner, _ := doc.(map[string]any)
		if _, has := inner["default"]; has {
			names = append(names, name)
		}
	}
	return names
}

// ref follows a reference into the schema itself.
func (r *schemaReader) ref(ref string) *expr.Type {
	if t, ok := r.refs[ref]; ok {
		return t
	}
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' || strings.Contains(path, "%") {
		return expr.Any()
	}
	r.refs[ref] = expr.Any()
	at := r.doc
	for _, token := range strings.Split(path, "/")[1:] {
		m, _ := at.(map[string]any)
		at = m[expr.TokenName(token)]
	}
	r.refs[ref] = r.read(at, false)
	return r.refs[ref]
}

// own reads the rules that do not refer to other schemas for the same value.
func (r *schemaReader) own(rules map[string]any, filled bool) *expr.Type {
	t := expr.Any()
	switch word := rules["type"].(type) {
	case string:
		t = expr.Exactly(schemaKinds[word])
	case []any:
		var kinds expr.Kinds
		for _, one := range word {
			name, _ := one.(string)
			kinds |= schemaKinds[name]
		}
		t = expr.Exactly(kinds)
	}
	if only, ok := rules["const"]; ok {
		t = expr.Both(t, expr.Exactly(expr.KindsOf(only)))
	}
	if list, ok := rules["enum"].([]any); ok && len(list) > 0 {
		var kinds expr.Kinds
		for _, one := range list {
			kinds |= expr.KindsOf(one)
		}
		t = expr.Both(t, expr.Exactly(kinds))
	}
	if items, ok := rules["items"]; ok && rules["prefixItems"] == nil {
		t = t.OfItems(r.read(items, filled))
	}
	return r.fields(t, rules, filled)
}

// fields reads the rules about an object's fields.
func (r *schemaReader) fields(t *expr.Type, rules map[string]any, filled bool) *expr.Type {
	properties, _ := rules["properties"].(map[string]any)
	required, declared := rules["required"].([]any)
	rest := expr.Any().With(expr.KindAbsent, false)
	if more, ok := rules["additionalProperties"]; ok && rules["patternProperties"] == nil {
		rest = r.read(more, false).With(expr.KindAbsent, false)
		if more == false {
			rest = nil
		}
	}
	if len(properties) == 0 && len(required) == 0 && rest != nil && rules["additionalProperties"] == nil {
		return t
	}
	needed := make(map[string]bool, len(required))
	for _, name := range required {
		text, _ := name.(string)
		needed[text] = true
	}
	sure := (declared || r.strict) && !asksMore(rules)
	fields := make(map[string]*expr.Type, len(properties))
	for name, doc := range properties { // any order
		f := r.read(doc, filled)
		inner, _ := doc.(map[string]any)
		_, fills := inner["default"]
		fills = fills && filled
		if fills && r.taken || !fills && !needed[name] {
			f = f.With(expr.KindAbsent, sure)
		}
		fields[name] = f
	}
	for name := range needed { // any order
		if fields[name] == nil {
			fields[name] = expr.Any()
			if rest != nil {
				fields[name] = rest.Only(expr.KindAny)
			}
		}
	}
	return t.OfFields(fields, rest)
}

// asksMore reports whether a schema requires fields depending on others, so that a field that is
// not required may still be known to be present.
func asksMore(rules map[string]any) bool {
	for _, word := range []string{"if", "allOf", "anyOf", "oneOf", "not", "$ref", "$dynamicRef", "dependentRequired", "dependentSchemas", "minProperties"} {
		if rules[word] != nil {
			return true
		}
	}
	return false
}
