package llmstub

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maker generates instances of a schema.
type maker struct {
	root any
	made int
}

const (
	mostMade = 10_000 // maximum of generated values; a recursive schema has no other bound
	mostDeep = 64
	items    = 4
)

// formats are instances of formatted strings.
var formats = map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "time": "09:00:00Z", "email": "stub@example.com",
	"uri": "https://stub.example/", "uuid": "00000000-0000-4000-8000-000000000000"}

// make returns an instance. name becomes part of its texts.
func (m *maker) make(schema any, name string, depth int) any {
	rules, _ := schema.(map[string]any)
	if m.made++; m.made > mostMade || depth > mostDeep {
		return nil
	}
	if v, ok := rules["const"]; ok {
		return v
	}
	if list, _ := rules["enum"].([]any); len(list) > 0 {
		return list[0]
	}
	if ref, _ := rules["$ref"].(string); ref != "" {
		return m.make(m.find(ref), name, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list, _ := rules[key].([]any); len(list) > 0 {
			return m.make(list[0], name, depth+1)
		}
	}
	switch kind(rules) {
	case "object":
		properties, _ := rules["properties"].(map[string]any)
		out := make(map[string]any, len(properties))
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			out[name] = m.make(properties[name], name, depth+1)
		}
		return out
	case "array":
		out := make([]any, items)
		for i := range out {
			out[i] = m.make(rules["items"], fmt.Sprintf("%s %d", name, i+1), depth+1)
		}
		return out
	case "integer", "number":
		return 7
	case "boolean":
		return true
	case "null":
		return nil
	}
	format, _ := rules["format"].(string)
	if v, ok := formats[format]; ok {
		return v
	}
	return name
}

// kind returns the type of a schema: the first that is not null.
func kind(rules map[string]any) string {
	switch t := rules["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if s, _ := one.(string); s != "null" {
				return s
			}
		}
		return "null"
	}
	if rules["properties"] != nil {
		return "object"
	}
	if rules["items"] != nil {
		return "array"
	}
	return ""
}

// find follows a reference within the schema: #/$defs/item.
func (m *maker) find(ref string) any {
	at := m.root
	for _, token := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		fields, _ := at.(map[string]any)
		at = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return at
}
