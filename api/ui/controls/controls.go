// Package controls makes the fields of a form from a JSON Schema, and a document from a form.
package controls

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"recourse/api/ui/format"
	"recourse/saga/expr"
)

// Control is a field of a form that is generated from a JSON Schema.
type Control struct {
	Name     string // the field's name in the form
	Pointer  string // JSON pointer of the value, as in the API's findings
	Label    string
	Kind     string // text, number, bool, enum, date, email, url, json, group
	Value    string // as typed
	Required bool
	Hints    []string // constraints of the schema
	About    string   // the schema's description
	Options  []option // values of an enum
	Default  string
	Fields   []*Control // fields of a group
	Wrong    []string   // its errors
}

// option is one of the values of an enum; Value is its JSON.
type option struct{ Value, Title string }

// schema is the part of JSON Schema that a form supports.
type schema struct {
	Type        json.RawMessage            `json:"type"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Required    []string                   `json:"required"`
	Default     json.RawMessage            `json:"default"`
	Description string                     `json:"description"`
	Title       string                     `json:"title"`
	Enum        []json.RawMessage          `json:"enum"`
	Const       json.RawMessage            `json:"const"`
	Format      string                     `json:"format"`
	Pattern     string                     `json:"pattern"`
	Minimum     json.Number                `json:"minimum"`
	Maximum     json.Number                `json:"maximum"`
	Above       json.RawMessage            `json:"exclusiveMinimum"`
	Below       json.RawMessage            `json:"exclusiveMaximum"`
	MultipleOf  json.Number                `json:"multipleOf"`
	MinLength   json.Number                `json:"minLength"`
	MaxLength   json.Number                `json:"maxLength"`
}

// types returns the schema's types without null, and whether null is one of them.
func (s *schema) types() (list []string, null bool) {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		list = []string{one}
	} else {
		_ = json.Unmarshal(s.Type, &list) // any other value is ignored
	}
	null = slices.Contains(list, "null")
	return slices.DeleteFunc(list, func(t string) bool { return t == "null" }), null
}

// Of generates a form from a schema. The schema of anything but an object becomes one field of
// JSON. names sorts an object's fields; nil sorts them by name.
func Of(doc json.RawMessage, pointer string, names func(list []string, path ...string)) []*Control {
	var s schema
	if len(doc) == 0 || json.Unmarshal(doc, &s) != nil {
		return []*Control{{Name: pointer, Pointer: pointer, Label: titleOf(pointer), Kind: "json"}}
	}
	if t, _ := s.types(); !slices.Equal(t, []string{"object"}) || len(s.Properties) == 0 {
		f := controlOf(&s, pointer, titleOf(pointer), true)
		f.Kind = "json"
		return []*Control{f}
	}
	if names == nil {
		names = func([]string, ...string) {}
	}
	return controlsOf(&s, pointer, names)
}

// titleOf returns the label of a whole document: Input, Data.
func titleOf(pointer string) string {
	return strings.ToUpper(pointer[1:2]) + pointer[2:]
}

func controlsOf(s *schema, pointer string, names func(list []string, path ...string), path ...string) []*Control {
	list := slices.Sorted(maps.Keys(s.Properties))
	names(list, path...)
	var fields []*Control
	for _, name := range list {
		var inner schema
		_ = json.Unmarshal(s.Properties[name], &inner) // `true` allows anything
		f := controlOf(&inner, pointer+"/"+expr.PointerToken(name), name, slices.Contains(s.Required, name))
		if f.Kind == "group" && len(path) > 0 { // a form shows one level; deeper ones are JSON
			f.Kind, f.Hints = "json", append(f.Hints, "JSON: object")
		}
		if f.Kind == "group" {
			f.Fields = controlsOf(&inner, f.Pointer, names, append(slices.Clone(path), name)...)
			for _, part := range f.Fields {
				if part.Required && !f.Required { // required only if the group is used
					part.Required, part.Hints = false, append(part.Hints, "required with the others")
				}
			}
		}
		fields = append(fields, f)
	}
	return fields
}

func controlOf(s *schema, pointer, name string, required bool) *Control {
	f := &Control{Name: pointer, Pointer: pointer, Label: name, Kind: "json", Required: required, About: s.Description}
	types, null := s.types()
	f.Required = required && !null
	if s.Title != "" {
		f.Label = s.Title
	}
	if len(s.Default) > 0 && string(s.Default) != "null" {
		f.Default, f.Required = format.Cut(60, shown(s.Default)), false
	}
	switch {
	case len(s.Enum) > 0:
		f.Kind = "enum"
		for _, v := range s.Enum {
			f.Options = append(f.Options, option{string(v), shown(v)})
		}
	case len(s.Const) > 0:
		f.Kind, f.Options = "enum", []option{{string(s.Const), shown(s.Const)}}
	case len(types) != 1:
	case types[0] == "string":
		f.Kind = map[string]string{"date": "date", "email": "email", "uri": "url"}[s.Format]
		if f.Kind == "" {
			f.Kind = "text"
		}
	case types[0] == "integer", types[0] == "number":
		f.Kind = "number"
	case types[0] == "boolean":
		f.Kind = "bool"
	case types[0] == "object" && len(s.Properties) > 0:
		f.Kind = "group"
	}
	f.hint(s, types)
	return f
}

// hint adds the schema's constraints as text.
func (f *Control) hint(s *schema, types []string) {
	say := func(text, value string) {
		if value != "" && value != "null" {
			f.Hints = append(f.Hints, text+value)
		}
	}
	switch {
	case f.Kind == "number":
		f.Hints = append(f.Hints, types[0])
	case f.Kind == "json" && len(types) > 0:
		f.Hints = append(f.Hints, "JSON: "+strings.Join(types, " or "))
	case f.Kind == "json":
		f.Hints = append(f.Hints, "JSON")
	}
	if f.Kind == "text" {
		say("", strings.Replace(s.Format, "date-time", "a time such as 2026-01-31T09:30:00Z", 1))
	}
	say("at least ", s.Minimum.String())
	say("more than ", string(s.Above))
	say("at most ", s.Maximum.String())
	say("less than ", string(s.Below))
	say("a multiple of ", s.MultipleOf.String())
	say("characters, at least: ", s.MinLength.String())
	say("characters, at most: ", s.MaxLength.String())
	say("like ", s.Pattern)
	say("default ", f.Default)
}

// Help returns a line about the expected value.
func (f *Control) Help() string {
	return strings.Join(append(slices.DeleteFunc([]string{f.About}, func(s string) bool { return s == "" }), f.Hints...), "; ")
}

// shown formats a JSON value for people: text without its quotes.
func shown(doc json.RawMessage) string {
	var s string
	if json.Unmarshal(doc, &s) == nil && len(doc) > 0 && doc[0] == '"' {
		return s
	}
	return string(doc)
}
