package dsl

import (
	"encoding/json"

	"recourse/journal"
	"recourse/saga"
)

// Form compiles the schema of a form for people: JSON Schema, or the shorthand as in `input`, which
// refuses undeclared fields. It also returns the schema as JSON, for the programs that show the
// form. Both are nil after an error.
func (d *Decoder) Form(n *Node) (saga.Schema, json.RawMessage) {
	var s *schema
	if saysJSONSchema(n) {
		s = d.p.jsonSchema(n)
	} else {
		s = d.p.short(n, true)
	}
	if s == nil {
		return nil, nil
	}
	return s, Document(s)
}

// Document returns a schema of this package as JSON Schema, for programs that make a form of it. It
// returns nil for any other schema.
func Document(s saga.Schema) json.RawMessage {
	own, ok := s.(*schema)
	if !ok {
		return nil
	}
	doc, err := journal.Encode(own.doc)
	if err != nil {
		panic("dsl: a schema that JSON cannot hold: " + err.Error()) // it was decoded from text
	}
	return doc
}
