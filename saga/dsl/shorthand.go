package dsl

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"recourse/saga/expr"
)

// shorthandTypes are the words of the shorthand, with their JSON Schema.
var shorthandTypes = map[string]map[string]any{
	"string":   {"type": "string"},
	"integer":  {"type": "integer"},
	"number":   {"type": "number"},
	"decimal":  {"type": "number"}, // numbers are exact everywhere
	"boolean":  {"type": "boolean"},
	"date":     {"type": "string", "format": "date"},
	"datetime": {"type": "string", "format": "date-time"},
	"email":    {"type": "string", "format": "email"},
	"uri":      {"type": "string", "format": "uri"},
	"object":   {"type": "object"},
	"any":      {},
}

// shape is what is known of a value at publishing: enough to judge input.a.b.
type shape struct {
	open   bool // anything may be below
	word   string
	fields map[string]*shape
	item   *shape
}

func (s *shape) judge(path []string) error {
	for i, name := range path {
		switch {
		case s.open:
			return nil
		case s.fields == nil:
			return &expr.Error{Code: expr.CodeUnknownInput, Detail: fmt.Sprintf("%s is declared as %s, which has no field %q", inputAt(path[:i]), s.word, name)}
		}
		next, ok := s.fields[name]
		if !ok {
			names := sortedKeys(s.fields)
			return &expr.Error{Code: expr.CodeUnknownInput, Detail: fmt.Sprintf("%s has no field %q, only %s%s", inputAt(path[:i]), name, quoted(names), Suggest(name, names))}
		}
		s = next
	}
	return nil
}

func inputAt(path []string) string {
	return strings.Join(append([]string{"input"}, path...), ".")
}

// shorthand compiles the short form of a schema. Objects are closed or not.
type shorthand struct {
	*parser
	closed bool
}

// compile gives the JSON Schema, the shape, and whether the value may be absent.
func (h *shorthand) compile(n *Node) (schema map[string]any, s *shape, optional bool) {
	switch n.Form {
	case List:
		if len(n.Items) != 1 {
			h.expect(n, "a list of one type, such as [string]")
			return map[string]any{}, &shape{open: true}, false
		}
		items, inner, _ := h.compile(n.Items[0])
		return map[string]any{"type": "array", "items": items}, &shape{word: "a list", item: inner}, false
	case Map:
		return h.object(n)
	}
	if !n.IsText() {
		h.expect(n, "a type: "+quoted(typeNames()))
		return map[string]any{}, &shape{open: true}, false
	}
	return h.word(n, n.value)
}

func typeNames() []string {
	return []string{"string", "integer", "number", "decimal", "boolean", "date", "datetime", "email", "uri", "object", "any"}
}

func (h *shorthand) object(n *Node) (map[string]any, *shape, bool) {
	properties, required := map[string]any{}, []any{}
	s := &shape{fields: map[string]*shape{}, open: !h.closed}
	for _, e := range n.Entries {
		schema, inner, optional := h.compile(e.Value)
		properties[e.Name()] = schema
		s.fields[e.Name()] = inner
		if !optional {
			required = append(required, e.Name())
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if h.closed {
		schema["additionalProperties"] = false
	}
	return schema, s, false
}

var shortForm = regexp.MustCompile(`^\s*(\[[^=]*\]|[A-Za-z]+)\s*(\?)?\s*(?:=\s*(.*))?$`)

// word compiles the text form: TYPE, TYPE?, TYPE = default, [TYPE].
func (h *shorthand) word(n *Node, text string) (map[string]any, *shape, bool) {
	open := &shape{open: true}
	m := shortForm.FindStringSubmatch(text)
	if m == nil || strings.Count(m[1], "[") > 8 {
		h.fail(n, "bad_type", `a type is written as "string", "string?" (may be absent), "integer = 12" or "[string]"`)
		return map[string]any{}, open, false
	}
	schema, s := map[string]any{}, open
	if inner, list := strings.CutPrefix(m[1], "["); list {
		items, item, _ := h.word(n, strings.TrimSuffix(inner, "]"))
		schema, s = map[string]any{"type": "array", "items": items}, &shape{word: "a list", item: item}
	} else {
		base, ok := shorthandTypes[m[1]]
		if !ok {
			h.fail(n, "bad_type", fmt.Sprintf("there is no type %q, only %s%s", clip(m[1], 40), quoted(typeNames()), Suggest(m[1], typeNames())))
			return schema, s, false
		}
		for _, k := range sortedKeys(base) {
			schema[k] = base[k]
		}
		s = &shape{word: m[1], open: m[1] == "object" || m[1] == "any"}
	}
	if m[2] == "?" && schema["type"] != nil {
		schema["type"] = []any{schema["type"], "null"}
	}
	if !strings.Contains(text, "=") {
		return schema, s, m[2] == "?"
	}
	h.fallback(n, schema, m[1], m[3])
	return schema, s, true
}

// fallback reads the default of a type and judges it by the type itself.
func (h *shorthand) fallback(n *Node, schema map[string]any, word, text string) {
	var value any
	text = strings.TrimSpace(text)
	if t, _ := shorthandTypes[word]["type"].(string); t == "string" && !strings.HasPrefix(text, `"`) {
		value = text
	} else if !json.Valid([]byte(text)) {
		h.fail(n, "bad_default", fmt.Sprintf("the default %q is no %s: write it as JSON", clip(text, 40), word))
		return
	} else {
		value = decodeJSON([]byte(text))
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		h.fail(n, "bad_default", err.Error())
		return
	}
	if _, findings := compiled.Apply(value); len(findings) > 0 {
		h.fail(n, "bad_default", fmt.Sprintf("the default %q is no %s: %s", clip(text, 40), word, findings[0].Detail))
		return
	}
	schema["default"] = value
}
