package dsl

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// shorthandTypes are the words of the shorthand, with their JSON Schemas.
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

// shorthand compiles the short form of a schema. It decides whether objects are closed, and whether
// absent values are filled with null.
type shorthand struct {
	*parser
	closed, filled bool
}

// compile returns the JSON Schema, and whether the value may be absent.
func (h *shorthand) compile(n *Node) (schema map[string]any, optional bool) {
	switch n.Form {
	case List:
		if len(n.Items) != 1 {
			h.expect(n, "a list of one type, such as [string]")
			return map[string]any{}, false
		}
		items, _ := h.compile(n.Items[0])
		return map[string]any{"type": "array", "items": items}, false
	case Map:
		return h.object(n), false
	}
	if !n.IsText() {
		h.expect(n, "a type: "+quoted(typeNames()))
		return map[string]any{}, false
	}
	return h.word(n, n.value)
}

func typeNames() []string {
	return []string{"string", "integer", "number", "decimal", "boolean", "date", "datetime", "email", "uri", "object", "any"}
}

func (h *shorthand) object(n *Node) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, e := range n.Entries {
		schema, optional := h.compile(e.Value)
		properties[e.Name()] = schema
		if _, has := schema["default"]; optional && !has && h.filled {
			schema["default"] = nil
		}
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
	return schema
}

var shortForm = regexp.MustCompile(`^\s*(\[[^=]*\]|[A-Za-z]+)\s*(\?)?\s*(?:=\s*(.*))?$`)

// word compiles the text form: TYPE, TYPE?, TYPE = default, [TYPE].
func (h *shorthand) word(n *Node, text string) (schema map[string]any, optional bool) {
	m := shortForm.FindStringSubmatch(text)
	if m == nil || strings.Count(m[1], "[") > 8 {
		h.fail(n, "bad_type", `a type is written as "string", "string?" (may be absent), "integer = 12" or "[string]"`)
		return map[string]any{}, false
	}
	schema = map[string]any{}
	if inner, list := strings.CutPrefix(m[1], "["); list {
		items, _ := h.word(n, strings.TrimSuffix(inner, "]"))
		schema = map[string]any{"type": "array", "items": items}
	} else {
		base, ok := shorthandTypes[m[1]]
		if !ok {
			h.fail(n, "bad_type", fmt.Sprintf("there is no type %q, only %s%s", clip(m[1], 40), quoted(typeNames()), Suggest(m[1], typeNames())))
			return schema, false
		}
		for _, k := range sortedKeys(base) {
			schema[k] = base[k]
		}
	}
	if m[2] == "?" && schema["type"] != nil {
		schema["type"] = []any{schema["type"], "null"}
	}
	if !strings.Contains(text, "=") {
		return schema, m[2] == "?"
	}
	h.fallback(n, schema, m[1], m[3])
	return schema, true
}

// fallback reads the default of a type and validates it by the type itself.
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
