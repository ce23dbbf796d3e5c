package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// typer infers the types of a compiled expression. It reports expressions whose types are wrong for
// all values, or for a value that a schema allows. It follows the evaluator node by node: an error
// has the same code and text as in the evaluation.
type typer struct {
	chk   *Check
	at    map[node]int // where a node begins in the source
	errs  []*Error
	lets  []*Type
	elems []*Type
	facts []fact

	probed map[probe][]fact // see notNothing
	spent  int              // fuel of the trial evaluations so far
}

// bad records an error at a node, and returns a type so that checking can continue.
func (t *typer) bad(n node, code, format string, args ...any) *Type {
	e := &Error{Offset: t.at[n], Code: code, Detail: fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(t.errs, func(o *Error) bool { return *o == *e }) { // a < b < c contains b twice
		t.errs = append(t.errs, e)
	}
	return anyType
}

// of returns the type of a node's value. It is an error if a path may lead to nothing.
func (t *typer) of(n node) *Type {
	switch n := n.(type) {
	case pathNode:
		w := t.path(n)
		if w.missing == surely {
			return t.bad(n, w.code, "%s", w.why)
		}
		return w.typ
	case *constNode:
		return Exactly(KindsOf(n.value))
	case *listNode:
		return t.list(n)
	case *mapNode:
		return t.object(n)
	case *condNode:
		return t.choice(n)
	case *letNode:
		t.lets = append(t.lets, t.of(n.value))
		out := t.of(n.body)
		t.lets = t.lets[:len(t.lets)-1]
		return out
	case *varNode:
		return t.known(n, t.lets[n.slot])
	case *elemNode:
		if n.index {
			return Exactly(KindInteger)
		}
		return t.known(n, t.elems[len(t.elems)-1])
	case *notNode:
		t.condition(n.x, "what ! negates")
		return Exactly(KindBool)
	case *signNode:
		return t.need(n.x, KindNumber, CodeWrongType, "a sign goes before a number").numeric()
	case *logicNode:
		t.condition(n.left, "the left of "+n.op)
		t.under(n.left, n.and, func() { t.condition(n.right, "the right of "+n.op) })
		return Exactly(KindBool)
	case *binaryNode:
		return t.binary(n)
	case *callNode:
		return t.call(n)
	case *predicateNode:
		return t.predicate(n)
	}
	return anyType // a secret is a reference, allowed wherever it compiles
}

// KindsOf returns the kind of a JSON value, as decoded by [Decode].
func KindsOf(v any) Kinds {
	switch kind(v) {
	case "null":
		return KindNull
	case "bool":
		return KindBool
	case "string":
		return KindString
	case "list":
		return KindList
	case "object":
		return KindObject
	case "number":
		_, err := smallInt(v, "it")
		if e, ok := errors.AsType[*EvalError](err); ok && e.Code == CodeWrongType {
			return KindFraction
		}
		return KindInteger
	}
	return KindAny
}

// whole returns the type of a whole expression, which must be the type that its place requires.
func (t *typer) whole(n node, inText bool) *Type {
	switch {
	case inText:
		return t.need(n, KindScalar, CodeNotText, "only a string, a number or a bool can stand inside text")
	case t.chk.Want != 0:
		return t.need(n, t.chk.Want, t.chk.WantCode, t.chk.Rule)
	}
	return t.of(n)
}

// numeric returns the type of a number computed from one of type t.
func (t *Type) numeric() *Type {
	out := Exactly(KindNumber)
	if kinds, sure := t.Kinds(); kinds&KindNumber == KindInteger {
		out.kinds = KindInteger
	} else if sure&KindFraction == 0 {
		out.uncertain = KindNumber
	}
	return out
}

func (t *typer) list(n *listNode) *Type {
	types := make([]*Type, len(n.items))
	for i, item := range n.items {
		types[i] = t.of(item)
	}
	return tuple(types)
}

func (t *typer) object(n *mapNode) *Type {
	fields, rest := make(map[string]*Type, len(n.entries)), (*Type)(nil)
	for _, e := range n.entries {
		t.need(e.key, KindString, CodeWrongType, "a key must be a string")
		typ := t.of(e.value)
		if key, ok := e.key.(*constNode); ok {
			if name, ok := key.value.(string); ok {
				fields[name] = typ
				continue
			}
		}
		fields, rest = map[string]*Type{}, anyField // it may be any of them
	}
	if rest != nil {
		clear(fields)
	}
	return Fields(fields, rest)
}

func (t *typer) choice(n *condNode) *Type {
	t.condition(n.cond, "the condition before ?")
	var yes, no *Type
	t.under(n.cond, true, func() { yes = t.of(n.yes) })
	t.under(n.cond, false, func() { no = t.of(n.no) })
	return Union(yes, no, false)
}

// condition requires a bool; where is the name of the place.
func (t *typer) condition(n node, where string) {
	t.need(n, KindBool, CodeNotABool, where+" must be true or false")
}

// need returns the type of a node whose value must have one of the kinds. rule is the text of the
// error.
func (t *typer) need(n node, want Kinds, code, rule string) *Type {
	typ := t.of(n)
	if typ.fits(want) {
		return typ
	}
	return t.misfit(n, typ, want, code, rule)
}

// misfit reports that a value may not, or cannot, have the required kinds.
func (t *typer) misfit(n node, typ *Type, want Kinds, code, rule string) *Type {
	return t.bad(n, code, "%s", misfitDetail(describe(n), typ, want, rule))
}

// misfitDetail says that a value may not, or cannot, have the required kinds. what describes the
// value; without it the text has no advice.
func misfitDetail(what string, typ *Type, want Kinds, rule string) string {
	if strings.ContainsRune(what, '…') {
		what = "x"
	}
	kinds, sure := typ.Kinds()
	wrong := sure &^ want
	advice := func(wrong Kinds) string {
		if what == "" {
			return ""
		}
		return hint(wrong, want, what)
	}
	switch {
	case kinds&want == 0 && kinds&KindAny == KindNull:
		return fmt.Sprintf("%s, not null%s", rule, advice(KindNull))
	case kinds&want == 0:
		return fmt.Sprintf("%s, not %s%s", rule, kinds, advice(kinds&^KindNull))
	case wrong == KindFraction:
		return fmt.Sprintf("%s, and %s may have a fraction%s", rule, what, advice(wrong))
	case wrong == KindNull:
		return fmt.Sprintf("%s, and %s may be null%s", rule, what, advice(wrong))
	}
	return fmt.Sprintf("%s, and %s may be %s: ask before what it is, as in type(%s) == \"%s\"", rule, what, wrong, what, (kinds & want).oneName())
}

// oneName returns the first name of the kinds, as type() returns it.
func (k Kinds) oneName() string {
	for _, one := range kindNames {
		if k&one.kinds != 0 {
			return one.name
		}
	}
	return "null"
}

// defaults are values to write after ?? for each kind. The first that fits is used.
var defaults = []struct {
	kinds Kinds
	value string
}{{KindString, "''"}, {KindNumber, "0"}, {KindBool, "false"}, {KindList, "[]"}, {KindObject, "{}"}}

// hint says what to write instead of an expression of the wrong kinds.
func hint(wrong, want Kinds, what string) string {
	switch {
	case wrong&KindNull != 0:
		for _, d := range defaults {
			if want&d.kinds != 0 {
				return fmt.Sprintf(": write (%s ?? %s), or compare it with null before", what, d.value)
			}
		}
	case want == KindBool && wrong&KindString != 0:
		return fmt.Sprintf(": compare it, as in %s == 'yes'", what)
	case want == KindBool:
		return fmt.Sprintf(": compare it, as in %s == 1", what)
	case want == KindInteger && wrong&KindFraction != 0:
		return fmt.Sprintf(": write int(%s)", what)
	case want&KindNumber != 0 && want&KindString == 0 && wrong&KindString != 0:
		return fmt.Sprintf(": write number(%s)", what)
	case want&KindString != 0 && wrong&(KindList|KindObject) != 0:
		return fmt.Sprintf(": write json(%s), or name a part of it", what)
	case want&KindString != 0 && wrong&KindScalar != 0:
		return fmt.Sprintf(": write string(%s)", what)
	case want&KindList != 0 && wrong&KindObject != 0:
		return fmt.Sprintf(": write values(%s) or keys(%s)", what, what)
	}
	return ""
}

func (t *typer) binary(n *binaryNode) *Type {
	switch n.op {
	case "==", "!=":
		t.of(n.left)
		t.of(n.right)
		return Exactly(KindBool)
	case "<", "<=", ">", ">=":
		t.alike(n, n.op+" takes two numbers or two strings")
		return Exactly(KindBool)
	case "+":
		return t.plus(n)
	case "in":
		t.of(n.left)
		t.need(n.right, KindList|KindObject, CodeWrongType, "in takes a list or an object on its right")
		return Exactly(KindBool)
	case "contains", "startsWith", "endsWith", "matches":
		t.need(n.left, KindString, CodeWrongType, n.op+" takes two strings")
		t.need(n.right, KindString, CodeWrongType, n.op+" takes two strings")
		return Exactly(KindBool)
	case "..":
		t.need(n.left, KindInteger, CodeWrongType, "the start of a range must be an integer")
		t.need(n.right, KindInteger, CodeWrongType, "the end of a range must be an integer")
		return Items(Exactly(KindInteger))
	case "%":
		t.need(n.left, KindInteger, CodeWrongType, "% takes two integers")
		t.need(n.right, KindInteger, CodeWrongType, "% takes two integers")
		return Exactly(KindInteger)
	case "**":
		left := t.need(n.left, KindNumber, CodeWrongType, "** takes two numbers")
		t.need(n.right, KindInteger, CodeWrongType, "the exponent must be an integer")
		return left.numeric()
	}
	left := t.need(n.left, KindNumber, CodeWrongType, n.op+" takes two numbers")
	right := t.need(n.right, KindNumber, CodeWrongType, n.op+" takes two numbers")
	if n.op == "/" {
		return Exactly(KindNumber).Doubted()
	}
	return sum(left, right)
}

// sum returns the type of + - * of two numbers.
func sum(a, b *Type) *Type {
	return (&Type{kinds: a.kinds | b.kinds, uncertain: (a.uncertain | b.uncertain) &^ (a.kinds &^ a.uncertain) &^ (b.kinds &^ b.uncertain)}).numeric()
}

func (t *typer) plus(n *binaryNode) *Type {
	left, right := t.alike(n, "+ takes two numbers or two strings")
	kinds := left.kinds & right.kinds
	switch {
	case left.kinds&KindNumber == 0 || right.kinds&KindNumber == 0:
		return Exactly(KindString)
	case kinds&KindString == 0:
		return sum(left, right)
	}
	return Exactly(KindNumber | KindString).Doubted()
}

// alike requires two numbers or two strings.
func (t *typer) alike(n *binaryNode, rule string) (left, right *Type) {
	const both = KindNumber | KindString
	before := len(t.errs)
	left, right = t.need(n.left, both, CodeWrongType, rule), t.need(n.right, both, CodeWrongType, rule)
	if len(t.errs) > before {
		return anyType, anyType
	}
	_, a := left.Kinds()
	_, b := right.Kinds()
	numbers, texts := left.kinds&KindNumber != 0 && right.kinds&KindNumber != 0, left.kinds&right.kinds&KindString != 0
	if numbers && a&KindString == 0 && b&KindString == 0 || texts && a&KindNumber == 0 && b&KindNumber == 0 {
		return left, right
	}
	help := "write number(x) or string(x) for one of them"
	if n.op == "+" {
		help = `to build text write "…${x}…" or string(x), to count number(x)`
	}
	t.bad(n, CodeWrongType, "%s, not %s and %s: %s", rule, left.kinds&both, right.kinds&both, help)
	return anyType, anyType
}

func (t *typer) call(n *callNode) *Type {
	args := make([]*Type, len(n.args))
	for i, arg := range n.args {
		p := n.fn.param(i, len(n.args))
		args[i] = t.need(arg, p.kinds, p.errorCode(), p.rule(n.name, i))
		if p.items == 0 || args[i].kinds&KindList == 0 {
			continue
		}
		items := args[i].items
		_, sure := items.Kinds()
		switch {
		case !items.fits(p.items):
			t.bad(arg, p.errorCode(), "%s takes a list of which each item is %s, and one of these may be %s", n.name, p.items.phrase(), (items.kinds &^ p.items))
		case p.alike && sure&KindNumber != 0 && sure&KindString != 0:
			t.bad(arg, p.errorCode(), "%s takes a list of numbers or a list of strings, and this one may hold both", n.name)
		}
	}
	if n.fn.gives == nil {
		return anyType
	}
	return n.fn.gives(args)
}

func (t *typer) predicate(n *predicateNode) *Type {
	list := t.need(n.list, KindList, CodeWrongType, n.name+": argument 1 must be a list")
	t.elems = append(t.elems, list.items)
	var body *Type
	if n.fn.value {
		body = t.of(n.body)
	} else {
		t.condition(n.body, "the condition of "+n.name+"()")
	}
	t.elems = t.elems[:len(t.elems)-1]
	return n.fn.gives(list, body)
}
