package dsl

import (
	"strings"

	"recourse/saga/expr"
)

// inputs reads `input` or `input_schema` into the definition, and returns the type of the input.
func (p *parser) inputs(root *Node) *expr.Type {
	short, long := root.Get("input"), root.Get("input_schema")
	switch {
	case short != nil && long != nil:
		p.fail(long, "two_schemas", "input and input_schema say the same thing twice: keep one")
	case long != nil:
		if schema := p.jsonSchema(long); schema != nil {
			p.def.Input = schema
			return schemaType(schema.doc, true, true)
		}
	case short != nil:
		if word := short.value; short.IsText() && word == "any" {
			return expr.Any()
		}
		if schema := p.short(short, true); schema != nil {
			p.def.Input = schema
			return schemaType(schema.doc, true, true)
		}
	}
	return expr.Any()
}

// short compiles the shorthand. given says that it describes the saga's own input: its objects are
// closed, and absent fields become null. Otherwise it describes an answer.
func (p *parser) short(n *Node, given bool) *schema {
	if !p.declared(n) {
		return nil
	}
	errs := len(p.errs)
	doc, _ := (&shorthand{p, given, given}).compile(n)
	if len(p.errs) > errs {
		return nil
	}
	compiled, err := compileSchema(doc)
	if err != nil {
		p.fail(n, "bad_schema", err.Error())
		return nil
	}
	compiled.short = true
	return compiled
}

// answerSchema reads expect.schema: JSON Schema if it is recognizably that, else shorthand whose
// objects may have more fields, because remote services add some.
func (p *parser) answerSchema(n *Node) *schema {
	if saysJSONSchema(n) {
		return p.jsonSchema(n)
	}
	return p.short(n, false)
}

// saysJSONSchema reports whether a map cannot be shorthand: it has a key that begins with $, or
// type: object with properties, or type: array with items.
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
