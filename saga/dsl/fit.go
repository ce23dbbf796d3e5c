package dsl

import (
	"fmt"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// fits reports values of a template that the schema of their recipient refuses. The recipient is an
// action, a definition that is run, or the definition that a trigger starts. place names its input
// in messages. n is the template's node. If n is nil, the input is an empty object, and errors are
// reported at the node at.
func (p *parser) fits(place string, taker saga.Schema, at, n *Node, t *expr.Template) {
	if s, ok := taker.(*schema); ok {
		p.fitsType(place, s, takenType(s.doc), at, n, t)
	}
}

// starts is fits for the input of a saga, where null is an empty object.
func (p *parser) starts(place string, taker saga.Schema, at, n *Node, t *expr.Template) {
	s, ok := taker.(*schema)
	if !ok {
		return
	}
	if n != nil && n.IsNull() {
		n = nil
	}
	want := takenType(s.doc)
	if len(expr.Map(nil).Misfits(want)) == 0 {
		want = want.With(expr.KindNull, true)
	}
	p.fitsType(place, s, want, at, n, t)
}

func (p *parser) fitsType(place string, s *schema, want *expr.Type, at, n *Node, t *expr.Template) {
	if p.options.Stored {
		return
	}
	r := &fitReport{parser: p, place: place, at: at, n: n}
	r.constants(s)
	if n == nil {
		t = expr.Map(nil)
	}
	for _, m := range t.Misfits(want) {
		r.report(m.Pointer, m.Detail)
	}
}

// fitReport reports each place once.
type fitReport struct {
	*parser
	place    string
	at, n    *Node
	reported []string // the reported places, as pointers
}

func (r *fitReport) report(pointer, detail string) {
	if related(pointer, r.reported) {
		return
	}
	n, in := r.at, ""
	if r.n != nil {
		n = r.n.nearest(pointer)
	}
	if pointer != "" {
		in = ", " + pointer
	}
	text := fmt.Sprintf("%s%s: %s", r.place, in, detail)
	if before, after, ok := strings.Cut(n.value, "${"); ok && n.Form == Scalar {
		r.failInside(n, len(before)+2+len(after)-len(strings.TrimLeft(after, " ")), "bad_input", text)
		return
	}
	r.fail(n, "bad_input", text)
}

// constants validates constant values. A rule of a JSON Schema may depend on several values, so
// only values that are constant as a whole are validated.
func (r *fitReport) constants(s *schema) {
	var open []string
	var given any = map[string]any{}
	if r.n != nil {
		given = constants(r.n, "", &open)
	}
	if len(open) > 0 && !s.short {
		return
	}
	_, findings := s.Apply(given)
	var reported []string
	for _, f := range findings {
		if !related(f.Pointer, open) {
			r.report(f.Pointer, f.Detail)
			reported = append(reported, f.Pointer)
		}
	}
	r.reported = reported
}

// constants returns a template's value with null for each part that is not constant. The pointers
// of these parts are added to open.
func constants(n *Node, at string, open *[]string) any {
	switch {
	case n.Form == List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = constants(item, at+"/"+strconv.Itoa(i), open)
		}
		return list
	case n.Form == Map:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Name()] = constants(e.Value, at+"/"+expr.PointerToken(e.Name()), open)
		}
		return m
	case n.kind == oddNumber, n.kind == textScalar && strings.Contains(n.value, "$"):
		*open = append(*open, at)
		return nil
	case n.kind == textScalar:
		return n.value
	}
	return n.plain()
}

// related reports whether one of some places is at, inside or around a place.
func related(at string, places []string) bool {
	for _, place := range places {
		if at == place || strings.HasPrefix(at, place+"/") || strings.HasPrefix(place, at+"/") {
			return true
		}
	}
	return false
}

// nearest returns the node at a pointer, or the last node on the way there.
func (n *Node) nearest(pointer string) *Node {
	for pointer != "" {
		token, rest, _ := strings.Cut(pointer[1:], "/")
		if pointer = rest; rest != "" {
			pointer = "/" + rest
		}
		next := n.child(token)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func (n *Node) child(token string) *Node {
	for _, e := range n.Entries {
		if expr.PointerToken(e.Name()) == token {
			return e.Value
		}
	}
	if i, err := strconv.Atoi(token); err == nil && i < len(n.Items) {
		return n.Items[i]
	}
	return nil
}
