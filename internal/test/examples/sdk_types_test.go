package examples

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

var updateSDK = flag.Bool("update-sdk", false, "write the views of the API into the SDKs, and scenario.txt")

// sdkView is a schema of api/openapi.yaml that the SDKs have as a type.
type sdkView struct {
	name   string
	fields string // those that the type has; "": all of them
	as     string // the name of the type; "": that of the schema
}

// sdkViews are in an order in which each type follows those that it refers to.
var sdkViews = []sdkView{
	{name: "Failure"},
	{name: "Reason"},
	{name: "Residue"},
	{name: "Cost", fields: "currency spent reserved budget"},
	{name: "Saga", fields: "id definition version status reason input output labels cost residual doubts open parent created_at ended_at seq"},
	{name: "Record", as: "JournalRecord"}, // Record is a type of TypeScript
	{name: "Task"},
	{name: "Call"},
	{name: "OwnStep"},
	{name: "Session", fields: "id definition status output cost residual", as: "SessionView"},
	{name: "Attached", fields: "life resumed lease_ms llm mcp"},
}

// mostValues is how many values a type lists; one with more is any string.
const mostValues = 8

// TestSDKTypes fails if the views in an SDK differ from api/openapi.yaml; -update-sdk rewrites
// them.
func TestSDKTypes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Components struct{ Schemas schemas }
	}
	if err := yaml.Unmarshal(doc, &api); err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []struct{ file, comment, views string }{
		{"../../../sdk/python/recourse.py", "#", api.Components.Schemas.python()},
		{"../../../sdk/typescript/recourse.ts", "//", api.Components.Schemas.typescript()},
	} {
		text, err := os.ReadFile(sdk.file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := bytes.Cut(text, []byte(sdk.comment+" The views of the API. TestSDKTypes writes them from api/openapi.yaml.\n"))
		have, _, found := bytes.Cut(rest, []byte(sdk.comment+" The end of the views.\n"))
		switch {
		case !found:
			t.Errorf("%s has no comments around its views", sdk.file)
		case *updateSDK:
			at := len(text) - len(rest)
			if err := os.WriteFile(sdk.file, slices.Concat(text[:at], []byte(sdk.views), rest[len(have):]), 0o644); err != nil {
				t.Fatal(err)
			}
		case string(have) != sdk.views:
			t.Errorf("the views in %s differ from api/openapi.yaml: run this test with -update-sdk\nhave\n%s\nwant\n%s", sdk.file, have, sdk.views)
		}
	}
}

// schemas are the schemas of the contract by their names.
type schemas map[string]*schema

// schema is what the types of an SDK need to know of a schema.
type schema struct {
	Ref        string `yaml:"$ref"`
	Type       any
	Enum       []string
	Items      *schema
	Properties properties
	Required   []string
	Additional any `yaml:"additionalProperties"`
}

// property is a property of an object.
type property struct {
	name string
	of   *schema
}

// properties are the properties of an object in the order of the document.
type properties []property

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *properties) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		of := new(schema)
		if err := node.Content[i+1].Decode(of); err != nil {
			return err
		}
		*p = append(*p, property{node.Content[i].Value, of})
	}
	return nil
}

// of returns the schema that a reference stands for, and otherwise s itself.
func (all schemas) of(s *schema) *schema {
	if s.Ref == "" {
		return s
	}
	return all[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
}

// python returns the views as types of Python.
func (all schemas) python() string {
	var b strings.Builder
	for _, v := range sdkViews {
		var fields []string
		for _, p := range all.fields(v) {
			fields = append(fields, fmt.Sprintf("%q: %s,", p.name, all.pythonType(p.of)))
		}
		fmt.Fprintf(&b, "%s = TypedDict(%[1]q, {\n%s}, total=False)\n", cmp.Or(v.as, v.name), wrapped(fields, "    ", 150))
	}
	return b.String()
}

// fields returns the fields of a view.
func (all schemas) fields(v sdkView) (list []property) {
	for _, p := range all[v.name].Properties {
		if v.fields == "" || slices.Contains(strings.Fields(v.fields), p.name) {
			list = append(list, p)
		}
	}
	return list
}

// named returns the type that an SDK has for the schema; "" if it has none.
func (s *schema) named() string {
	for _, v := range sdkViews {
		if s.Ref == "#/components/schemas/"+v.name {
			return cmp.Or(v.as, v.name)
		}
	}
	return ""
}

func (all schemas) pythonType(s *schema) string {
	if name := s.named(); name != "" {
		return name
	}
	s = all.of(s)
	switch {
	case len(s.Enum) > 0 && len(s.Enum) <= mostValues:
		return "Literal[" + quoted(s.Enum, `"`, ", ") + "]"
	case s.Type == "array":
		return "List[" + all.pythonType(s.Items) + "]"
	}
	text, _ := s.Type.(string)
	switch text {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "boolean":
		return "bool"
	case "object":
		return "Dict[str, Any]"
	}
	return "Any"
}

// typescript returns the views as types of TypeScript.
func (all schemas) typescript() string {
	var b strings.Builder
	for _, v := range sdkViews {
		fmt.Fprintf(&b, "export interface %s {\n%s}\n", cmp.Or(v.as, v.name), wrapped(all.members(all.fields(v), all[v.name].Required), "  ", 150))
	}
	return b.String()
}

func (all schemas) members(list []property, required []string) (members []string) {
	for _, p := range list {
		optional := "?"
		if slices.Contains(required, p.name) {
			optional = ""
		}
		members = append(members, p.name+optional+": "+all.typescriptType(p.of)+";")
	}
	return members
}

func (all schemas) typescriptType(s *schema) string {
	if name := s.named(); name != "" {
		return name
	}
	s = all.of(s)
	switch {
	case len(s.Enum) > 0 && len(s.Enum) <= mostValues:
		return quoted(s.Enum, "'", " | ")
	case s.Type == "array":
		return all.typescriptType(s.Items) + "[]"
	}
	text, _ := s.Type.(string)
	switch text {
	case "string":
		return "string"
	case "integer":
		return "number"
	case "boolean":
		return "boolean"
	case "object":
		if s.Properties == nil {
			return "Record<string, string>"
		}
		return "{ " + strings.Join(all.members(s.Properties, s.Required), " ") + " }"
	}
	return "unknown"
}

func quoted(list []string, mark, between string) string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = mark + list[i] + mark
	}
	return strings.Join(list, between)
}

// wrapped returns words in lines of at most so many columns.
func wrapped(words []string, indent string, columns int) string {
	var b strings.Builder
	line := ""
	for _, word := range words {
		if line != "" && len(indent)+len(line)+1+len(word) > columns {
			b.WriteString(indent + line + "\n")
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	b.WriteString(indent + line + "\n")
	return b.String()
}
