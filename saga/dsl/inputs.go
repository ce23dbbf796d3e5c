package dsl

import (
	"strings"

	"recourse/saga"
)

// inputs reads `input` or `input_schema` into the definition, and gives the shape
// that input paths are judged by, nil for none.
func (p *parser) inputs(root *Node) *shape {
	short, long := root.Get("input"), root.Get("input_schema")
	switch {
	case short != nil && long != nil:
		p.fail(long, "two_schemas", "input and input_schema say the same thing twice: keep one")
	case long != nil:
		if schema := p.jsonSchema(long); schema != nil {
			p.def.Input = schema
		}
	case short != nil:
		if word := short.value; short.IsText() && word == "any" {
			return nil
		}
		schema, s := p.short(short, true)
		if schema != nil {
			p.def.Input = schema
		}
		return s
	}
	return nil
}

func (p *parser) short(n *Node, closed bool) (*schema, *shape) {
	if !p.declared(n) {
		return nil, nil
	}
	errs := len(p.errs)
	doc, s, _ := (&shorthand{p, closed}).compile(n)
	if len(p.errs) > errs {
		return nil, s
	}
	compiled, err := compileSchema(doc)
	if err != nil {
		p.fail(n, "bad_schema", err.Error())
		return nil, s
	}
	compiled.short = true
	return compiled, s
}

// answerSchema reads expect.schema: JSON Schema when it says so, else shorthand whose
// objects may have more fields, since other sides add some.
func (p *parser) answerSchema(n *Node) saga.Schema {
	if saysJSONSchema(n) {
		if s := p.jsonSchema(n); s != nil {
			return s
		}
		return nil
	}
	if s, _ := p.short(n, false); s != nil {
		return s
	}
	return nil
}

// saysJSONSchema reports whether a map cannot be shorthand: it has a key that
// begins with $, or type: object with properties, or type: array with items.
func saysJSONSchema(n *Node) bool {
	for _, e := range n.Entries {
		if strings.HasPrefix(e.Name(), "$") {
			return true
		}
	}
	t := n.Get("type")
	if t == nil || t.Form != Scalar {
		return false
	}
	props := n.Get("properties")
	return t.value == "object" && props != nil && props.Form == Map || t.value == "array" && n.Get("items") != nil
}

func (p *parser) jsonSchema(n *Node) *schema {
	if !p.declared(n) {
		return nil
	}
	doc, ok := p.constant(n)
	if !ok {
		return nil
	}
	compiled, err := compileSchema(doc)
	if err != nil {
		p.fail(n, "bad_schema", err.Error())
		return nil
	}
	return compiled
}
