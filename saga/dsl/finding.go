package dsl

import (
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"recourse/saga"
	"recourse/saga/expr"
)

// maxFindings limits the findings about a value that breaks a schema. Services and clients may send
// hundreds of thousands of fields.
const maxFindings = 100

// findings flattens the validator's error to its leaves.
func (s *schema) findings(e *jsonschema.ValidationError, list *[]saga.Finding) {
	if _, alternatives := e.ErrorKind.(*kind.AnyOf); len(e.Causes) > 0 && !alternatives {
		for _, c := range e.Causes {
			if len(*list) >= maxFindings {
				return
			}
			s.findings(c, list)
		}
		return
	}
	at := pointer(e.InstanceLocation)
	add := func(at, code, detail string) {
		*list = append(*list, saga.Finding{Pointer: clip(at, 300), Code: code, Detail: clip(detail, 300)})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(at+"/"+expr.PointerToken(name), "required", strconv.Quote(name)+" is missing")
		}
	case *kind.AdditionalProperties:
		names := s.properties(e.SchemaURL)
		slices.Sort(k.Properties)
		for _, name := range k.Properties[:min(len(k.Properties), max(maxFindings-len(*list), 0))] {
			add(at+"/"+expr.PointerToken(name), "unknown_field", "there is no field "+strconv.Quote(clip(name, 60))+orOnly(name, names))
		}
	case *kind.Format:
		add(at, "format", noSuch(k))
	default:
		code := "schema"
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			code = path[0]
		}
		add(at, code, e.ErrorKind.LocalizedString(english()))
	}
}

// examples are values in the formats that people most often get wrong.
var examples = map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:30:00Z", "time": "09:30:00Z", "email": "me@shop.example", "uri": "https://shop.example/a"}

// noSuch says that a text is not in a format, with an example of the format.
func noSuch(k *kind.Format) string {
	s, _ := k.Got.(string)
	text := strconv.Quote(clip(s, 60)) + " is not a valid " + k.Want
	if example, ok := examples[k.Want]; ok {
		text += ", such as " + example
	}
	return text
}

// properties returns the declared fields at a place of the schema, for "did you mean".
func (s *schema) properties(url string) []string {
	_, fragment, _ := strings.Cut(url, "#")
	at := s.doc
	for token := range strings.SplitSeq(fragment, "/") {
		if token == "" {
			continue
		}
		token = expr.TokenName(token)
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(v) {
				return nil
			}
			at = v[i]
		}
	}
	m, _ := at.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	return sortedKeys(properties)
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + expr.PointerToken(t))
	}
	return b.String()
}
