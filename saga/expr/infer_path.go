package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// likelihood says how likely a kind is, by the types.
type likelihood int

const (
	never  likelihood = iota
	maybe             // no schema says that it occurs
	surely            // a schema allows it, or it always occurs
)

// likelihoodOf returns how likely it is that a value of type t has the kind.
func (t *Type) likelihoodOf(kind Kinds) likelihood {
	switch {
	case t.kinds&kind == 0:
		return never
	case t.uncertain&kind != 0:
		return maybe
	}
	return surely
}

// way is the result of following a path.
type way struct {
	typ     *Type
	missing likelihood // whether it leads to nothing, which is an error without ??
	cut     likelihood // whether a ?. stops it, which makes its chain null
	code    string     // the code of the error if missing
	why     string
}

// path follows a path, as the evaluator does.
func (t *typer) path(n node) way {
	switch n := n.(type) {
	case *rootNode:
		return way{typ: t.known(n, t.chk.Type(n.name))}
	case *memberNode:
		return t.member(n)
	case *sliceNode:
		return t.slice(n)
	case *chainNode:
		w := t.path(n.inner)
		if w.cut != never {
			w.typ, w.cut = w.typ.With(KindNull, w.cut == surely), never
		}
		return w
	case *coalesceNode:
		return t.coalesce(n)
	}
	return way{typ: t.of(n)}
}

// coalesce is left ?? right.
func (t *typer) coalesce(n *coalesceNode) way {
	left, right := t.path(n.left), t.path(n.right)
	gone := max(left.missing, left.typ.likelihoodOf(KindNull))
	switch {
	case gone == never:
		return way{typ: left.typ}
	case left.typ.kinds == KindNull:
		return right
	case gone == maybe:
		right.typ, right.missing = right.typ.Doubted(), min(right.missing, maybe)
	}
	right.typ = Union(left.typ.Only(KindAny&^KindNull), right.typ, false)
	return right
}

func (t *typer) member(n *memberNode) way {
	obj := t.path(n.obj)
	w := way{typ: anyType, missing: obj.missing, cut: obj.cut, code: obj.code, why: obj.why}
	name, named := n.name, n.index == nil
	if !named {
		index := t.of(n.index)
		switch obj.typ.kinds & (KindList | KindObject) {
		case KindList:
			t.fitIndex(n, index, KindInteger, describe(n)+": an index must be an integer")
		case KindObject:
			t.fitIndex(n, index, KindString, describe(n)+": a field is named by a string")
		default:
			t.fitIndex(n, index, KindInteger|KindString, describe(n)+": an index must be an integer, or a string that names a field")
		}
	}
	if obj.typ.kinds == 0 {
		return w
	}
	fits := KindObject | KindNull
	if !named {
		fits |= KindList
	}
	if !obj.typ.fits(fits) {
		t.noFields(n, obj.typ, fits)
		return w
	}
	if at := obj.typ.likelihoodOf(KindNull); at > never {
		is := "may be"
		if obj.typ.kinds == KindNull {
			is = "is"
		}
		w.lose(n, at, CodeMissingField, fmt.Sprintf("%s %s null: write ?. or ??, or compare it with null before", describe(n.obj), is))
		if obj.typ.kinds == KindNull {
			return w
		}
	}
	switch {
	case named:
		f := t.known(n, obj.typ.field(name))
		at := f.likelihoodOf(KindAbsent)
		if f.kinds == KindAbsent {
			return t.noField(n, obj.typ, w)
		}
		w.lose(n, at, CodeMissingField, fmt.Sprintf("%s may be absent: write ?. or ??, or ask has(%s, %q) before", describe(n), describe(n.obj), name))
		w.typ = f.present()
	case obj.typ.kinds&^KindNull == KindList:
		w.typ = obj.typ.Item()
		w.lose(n, maybe, "", "")
	default:
		w.lose(n, maybe, "", "")
	}
	return w
}

// lose records that the path may end at n.
func (w *way) lose(n *memberNode, at likelihood, code, why string) {
	switch {
	case n.optional:
		w.cut = max(w.cut, at)
	case at > w.missing:
		w.missing, w.code, w.why = at, code, why
	}
}

func (t *typer) fitIndex(n *memberNode, index *Type, want Kinds, rule string) {
	if !index.fits(want) {
		t.misfit(n.index, index, want, CodeWrongType, rule)
	}
}

// noFields reports that a value has no fields. Neither ?. nor ?? prevents that error.
func (t *typer) noFields(n *memberNode, typ *Type, want Kinds) {
	what, kinds := describe(n.obj), typ.kinds&^want
	is := "is " + kinds.phrase()
	if t.unknownField(n) == CodeUnknownInput {
		is = "is declared as " + strings.Replace(kinds.String(), "list", "a list", 1)
	}
	switch {
	case typ.kinds&want&^KindNull != 0:
		t.bad(n, CodeWrongType, "%s: %s may be %s, which has no fields: ask before what it is, as in type(%s) == \"object\"", describe(n), what, kinds&^typ.uncertain, what)
	case kinds == KindList:
		t.bad(n, t.unknownField(n), "%s %s, which has no field %q: use [0], or map(list, .%s)", what, is, n.name, n.name)
	case n.index != nil:
		t.bad(n, CodeWrongType, "%s: %s %s and has no fields", describe(n), what, is)
	default:
		t.bad(n, t.unknownField(n), "%s %s, which has no field %q", what, is, n.name)
	}
}

// noField reports that an object has no such field for any values.
func (t *typer) noField(n *memberNode, typ *Type, w way) way {
	names := typ.names()
	what := describe(n.obj)
	only := "; it has none"
	if len(names) > 0 {
		only = ", only " + quotedNames(names)
	}
	if near := nearest(n.name, names); near != "" {
		only += fmt.Sprintf("; did you mean %q?", near)
	}
	t.bad(n, t.unknownField(n), "%s has no field %q%s", what, clip(n.name), only)
	return w
}

// unknownField returns the code of the error for a missing field.
func (t *typer) unknownField(n *memberNode) string {
	for n := node(n); ; {
		switch at := n.(type) {
		case *memberNode:
			n = at.obj
			continue
		case *chainNode:
			n = at.inner
			continue
		case *rootNode:
			if at.name == "input" {
				return CodeUnknownInput
			}
		}
		return CodeUnknownField
	}
}

func (t *typer) slice(n *sliceNode) way {
	obj := t.path(n.obj)
	w := way{typ: Items(anyType), missing: obj.missing, cut: obj.cut, code: obj.code, why: obj.why}
	for _, bound := range []node{n.from, n.to} {
		if bound != nil {
			t.need(bound, KindInteger, CodeWrongType, "a slice bound must be an integer")
		}
	}
	if !obj.typ.fits(KindList | KindNull) {
		t.misfit(n.obj, obj.typ, KindList, CodeWrongType, describe(n)+": only a list has slices")
		return w
	}
	if at := obj.typ.likelihoodOf(KindNull); at > w.missing {
		w.missing, w.code, w.why = at, CodeMissingField, fmt.Sprintf("%s may be null: write (%s ?? [])", describe(n.obj), describe(n.obj))
	}
	if obj.typ.kinds&KindList != 0 {
		w.typ = &Type{kinds: KindList, items: obj.typ.items, mixed: obj.typ.mixed, rest: anyField}
	}
	return w
}

// key returns a name for a path that always has the same value, "" for any other node.
func (t *typer) key(n node) string {
	switch n := n.(type) {
	case *rootNode:
		return n.name
	case *varNode:
		return "\x01" + strconv.Itoa(n.slot)
	case *elemNode:
		if !n.index {
			return "\x02" + strconv.Itoa(len(t.elems))
		}
	case *chainNode:
		return t.key(n.inner)
	case *memberNode:
		if obj := t.key(n.obj); obj != "" && n.index == nil {
			return obj + separator + n.name
		}
	}
	return ""
}

const separator = "\x00"

// known returns a type narrowed by the conditions about the node.
func (t *typer) known(n node, typ *Type) *Type {
	if typ == nil {
		typ = anyType
	}
	key := t.key(n)
	if key == "" {
		return typ
	}
	keep := ^Kinds(0)
	for _, f := range t.facts {
		if f.key == key {
			keep &= f.keep
		}
	}
	if t.chk.Fact != nil && key[0] > '\x02' {
		keep &= t.chk.Fact(key)
	}
	if keep == ^Kinds(0) {
		return typ
	}
	return typ.Only(keep)
}
