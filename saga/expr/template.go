package expr

import (
	"encoding/json"
	"slices"
)

// Template is a value with expressions in it: a scalar that may hold ${…}, a
// literal, a list or a map of templates. It is immutable and safe for
// concurrent use. The zero Template, and a nil one, is null.
type Template struct {
	form   form
	raw    json.RawMessage // formConst
	parts  []Part          // formText
	items  []*Template     // formList
	fields []Field         // formMap
}

type form int

const (
	formNull form = iota
	formConst
	formText
	formList
	formMap
)

// Field is one entry of a [Map].
type Field struct {
	Name  string
	Value *Template
}

// Part is a piece of a text template: literal Text, or a Program when not nil.
type Part struct {
	Text    string
	Program *Program
}

// Const is a literal JSON value; its numbers keep their literal form. raw that
// is not JSON is a bad_value error of every rendering.
func Const(raw json.RawMessage) *Template {
	return &Template{form: formConst, raw: slices.Clone(raw)}
}

// List is a list of templates.
func List(items []*Template) *Template {
	return &Template{form: formList, items: slices.Clone(items)}
}

// Map is an object of templates. JSON renders the fields in the written order. Names are literal,
// never interpolated. They must be unique.
func Map(fields []Field) *Template {
	return &Template{form: formMap, fields: slices.Clone(fields)}
}

// Value renders the template as a value, fully decoded (maps lose order).
// A secret in it is a secret_in_plain error. Errors are *[EvalError].
func (t *Template) Value(env Env) (any, error) { return t.value(newState(env)) }

// JSON renders the template as compact JSON: the fields of a [Map] in their
// written order, a bare path to (or into) a [Raw] copied verbatim, the keys of
// decoded maps sorted. A secret in it is a secret_in_plain error.
func (t *Template) JSON(env Env) (json.RawMessage, error) {
	return t.appendJSON(newState(env), nil, false)
}

// Text renders a scalar as text, for URLs and header values: strings as they
// are, numbers and bools as literals. null, an object or a list is a not_text
// error that says to use json(). A secret in it is a secret_in_plain error.
func (t *Template) Text(env Env) (string, error) { return t.text(newState(env), false) }

// SealedJSON is JSON for a request that may carry secrets: ${secrets.X} is
// rendered as the text "${secrets.X}" for [Unseal] to fill in, and every ${ in
// data or literals as $${, so that no data can forge a reference. Text ending
// in $ directly before a secret is a dollar_before_secret error.
func (t *Template) SealedJSON(env Env) (json.RawMessage, error) {
	return t.appendJSON(newState(env), make([]byte, 0, 64), true)
}

// SealedText is Text, sealed as [Template.SealedJSON] does.
func (t *Template) SealedText(env Env) (string, error) { return t.text(newState(env), true) }

// Piece is a [Part] with its value, as text.
type Piece struct {
	Text    string
	Encoded bool // path() or urlencode() produced it, so it can be used in a URL as it is
}

// Pieces renders each part of a scalar made by [ParseText] as text, for a place where they are not
// simply joined, such as a URL. A value that has no form in text is a not_text error, and a secret
// a secret_in_plain error.
func (t *Template) Pieces(env Env) ([]Piece, error) {
	s := newState(env)
	out := make([]Piece, 0, len(t.Parts()))
	for _, part := range t.Parts() {
		if part.Program == nil {
			out = append(out, Piece{Text: part.Text})
			continue
		}
		v, err := part.Program.run(s)
		if err != nil {
			return nil, err
		}
		if secret, ok := v.(Secret); ok {
			return nil, part.Program.located(errPlainSecret(secret.Name))
		}
		_, ready := v.(encoded)
		text, err := s.asText(v)
		if err != nil {
			return nil, part.Program.located(err)
		}
		out = append(out, Piece{Text: text, Encoded: ready})
	}
	return out, nil
}

// Refs lists the static references, in source order, each once.
func (t *Template) Refs() []Ref { return uniqueRefs(t.allRefs(nil)) }

func (t *Template) allRefs(refs []Ref) []Ref {
	if t == nil {
		return refs
	}
	for _, p := range t.parts {
		if p.Program != nil {
			refs = append(refs, p.Program.refs...)
		}
	}
	for _, item := range t.items {
		refs = item.allRefs(refs)
	}
	for _, f := range t.fields {
		refs = f.Value.allRefs(refs)
	}
	return refs
}

// IsConst reports whether the template has no expressions.
func (t *Template) IsConst() bool {
	if t == nil {
		return true
	}
	return !slices.ContainsFunc(t.parts, func(p Part) bool { return p.Program != nil }) &&
		!slices.ContainsFunc(t.items, func(i *Template) bool { return !i.IsConst() }) &&
		!slices.ContainsFunc(t.fields, func(f Field) bool { return !f.Value.IsConst() })
}

// Parts returns the pieces of a scalar made by [ParseText], in order, with $${ resolved; nil for
// the other kinds. The caller must not change them.
func (t *Template) Parts() []Part {
	if t == nil {
		return nil
	}
	return t.parts
}
