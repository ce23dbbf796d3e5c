package crashmatrix

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// items is the length of made-up lists: enough for a definition that asks for several results.
const items = 3

// maker makes up values.
type maker struct {
	id    string // strings begin with it
	turn  int    // which value of an enum is taken
	flags func(name string) bool
	defs  map[string]any // of the schema, for $ref
	depth int
}

// sample makes up a value that fits a JSON Schema. name is the name of the field that it is for.
func (m *maker) sample(schema any, name string) any {
	doc, ok := schema.(map[string]any)
	if !ok || m.depth > 12 {
		return m.text(name)
	}
	m.depth++
	defer func() { m.depth-- }()
	if defs, ok := doc["$defs"].(map[string]any); ok && m.defs == nil {
		m.defs = defs
	}
	if ref, ok := doc["$ref"].(string); ok {
		return m.sample(m.defs[strings.TrimPrefix(ref, "#/$defs/")], name)
	}
	if v, ok := doc["const"]; ok {
		return v
	}
	if list, ok := doc["enum"].([]any); ok && len(list) > 0 {
		return list[m.turn%len(list)]
	}
	if v, ok := doc["default"]; ok {
		return v
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		if list, ok := doc[key].([]any); ok && len(list) > 0 && doc["type"] == nil && doc["properties"] == nil {
			return m.sample(list[0], name)
		}
	}
	switch typeOf(doc) {
	case "object":
		return m.object(doc)
	case "array":
		return m.list(doc, name)
	case "integer", "number":
		return number(doc)
	case "boolean":
		return m.flags(name)
	case "null":
		return nil
	}
	return m.string(doc, name)
}

// typeOf returns the type that a schema declares; the first one that is not null, if there are
// several.
func typeOf(doc map[string]any) string {
	switch t := doc["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if s, ok := one.(string); ok && s != "null" {
				return s
			}
		}
	}
	switch {
	case doc["properties"] != nil:
		return "object"
	case doc["items"] != nil:
		return "array"
	}
	return "string"
}

func (m *maker) object(doc map[string]any) any {
	out := make(map[string]any)
	props, _ := doc["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		out[name] = m.sample(props[name], name)
	}
	return out
}

func (m *maker) list(doc map[string]any, name string) any {
	n := items
	if most, ok := count(doc["maxItems"]); ok {
		n = min(n, most)
	}
	if least, ok := count(doc["minItems"]); ok {
		n = max(n, min(least, 100))
	}
	out := make([]any, n)
	for i := range out {
		one := *m
		one.id, one.turn = m.id+"-"+strconv.Itoa(i+1), m.turn+i
		out[i] = one.sample(doc["items"], name)
	}
	return out
}

func count(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(n.String())
	return i, err == nil
}

// number returns 1, or the nearest number that the schema allows.
func number(doc map[string]any) any {
	for _, key := range []string{"minimum", "exclusiveMinimum", "multipleOf"} {
		if n, ok := count(doc[key]); ok && n >= 1 {
			if key == "exclusiveMinimum" {
				n++
			}
			return json.Number(strconv.Itoa(n))
		}
	}
	if n, ok := doc["maximum"].(json.Number); ok && strings.HasPrefix(n.String(), "-") {
		return n
	}
	return json.Number("1")
}

func (m *maker) string(doc map[string]any, name string) any {
	format, _ := doc["format"].(string)
	switch format {
	case "date":
		return "2027-01-01"
	case "date-time":
		return "2027-01-01T00:00:00Z"
	case "time":
		return "12:00:00Z"
	case "duration":
		return "P1D"
	case "email":
		return "someone@mail.test"
	case "uri", "uri-reference", "iri":
		return "https://" + m.id + ".test/"
	case "uuid":
		return "00000000-0000-7000-8000-000000000001"
	case "ipv4":
		return "192.0.2.1"
	case "hostname":
		return m.id + ".test"
	}
	text := m.text(name)
	if most, ok := count(doc["maxLength"]); ok && len(text) > most {
		text = text[:most]
	}
	if least, ok := count(doc["minLength"]); ok && len(text) < least {
		text += strings.Repeat("x", min(least-len(text), 10_000))
	}
	return text
}

// text makes up a text for a field.
func (m *maker) text(name string) string {
	if name == "" || name == "id" {
		return m.id
	}
	return fmt.Sprintf("%s-%s", m.id, name)
}
