package dsl

import (
	"encoding/json"

	"recourse/journal"
	"recourse/saga"
)

// Form compiles the schema of what a person fills in: JSON Schema, or the shorthand as `input` has
// it, in which fields that are not declared are refused. It is returned as JSON too, for those who
// show the form. Both are nil after an error.
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

// Document returns a schema of this package as JSON Schema, for those who make a form of it; nil
// for any other.
func Document(s saga.Schema) json.RawMessage {
	own, ok := s.(*schema)
	if !ok {
		return nil
	}
	doc, err := journal.Encode(own.doc)
	if err != nil {
		panic("dsl: a schema that JSON cannot hold: " + err.Error()) // it came from text
	}
	return doc
}
