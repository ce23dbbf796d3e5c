package expr

import (
	"errors"
	"slices"
	"strings"
)

// fact says that the value at a path (see typer.key) has one of the kinds.
type fact struct {
	key  string
	keep Kinds
}

// Fact is what the result of a condition says about a path of a root.
type Fact struct {
	Path string // see [RootOf]
	Keep Kinds
}

// RootOf returns the root of a [Fact]'s path.
func RootOf(path string) string {
	root, _, _ := strings.Cut(path, separator)
	return root
}

// PathOf returns a [Fact]'s path of the names of a root.
func PathOf(root string, names []string) string {
	return strings.Join(append([]string{root}, names...), separator)
}

// under runs f with the facts of a condition that is true, or false.
func (t *typer) under(cond node, holds bool, f func()) {
	before := len(t.facts)
	t.facts = append(t.facts, t.implied(cond, holds)...)
	f()
	t.facts = t.facts[:before]
}

// implied returns the facts of a condition that is true, or false.
func (t *typer) implied(cond node, holds bool) []fact {
	switch n := cond.(type) {
	case *notNode:
		return t.implied(n.x, !holds)
	case *logicNode:
		if n.and == holds { // both operands have this value
			return append(t.implied(n.left, holds), t.implied(n.right, holds)...)
		}
		return nil
	case *callNode:
		if object, name := hasField(n); object != nil && holds {
			return t.there(object, name)
		}
	case *binaryNode:
		if n.op == "in" && holds {
			if c, ok := n.left.(*constNode); ok && kind(c.value) == "string" {
				return append(t.there(n.right, c.value.(string)), t.notNothing(n, holds)...)
			}
		}
		if at, kinds := t.typeIs(n); at != "" && (n.op == "==") == holds {
			return append(t.notNothing(n, holds), fact{at, kinds})
		} else if at != "" {
			return append(t.notNothing(n, holds), fact{at, ^kinds})
		}
	}
	return t.notNothing(cond, holds)
}

// hasField splits has(object, "name").
func hasField(n *callNode) (object node, name string) {
	if n.name != "has" {
		return nil, ""
	}
	c, ok := n.args[1].(*constNode)
	if !ok {
		return nil, ""
	}
	if name, ok = c.value.(string); !ok {
		return nil, ""
	}
	return n.args[0], name
}

// there returns the fact that an object has a field.
func (t *typer) there(object node, name string) []fact {
	key := t.key(object)
	if key == "" {
		return nil
	}
	return append(something(key, ^(KindNull|KindAbsent)), fact{key + separator + name, ^KindAbsent})
}

// something returns the facts that the value at a path has one of the kinds, and that every object
// on the path exists.
func something(key string, keep Kinds) []fact {
	facts := []fact{{key, keep}}
	for i := strings.LastIndex(key, separator); i > 0; i = strings.LastIndex(key[:i], separator) {
		facts = append(facts, fact{key[:i], ^(KindNull | KindAbsent)})
	}
	return facts
}

// typeIs splits type(x) == "string", and !=.
func (t *typer) typeIs(n *binaryNode) (key string, kinds Kinds) {
	if n.op != "==" && n.op != "!=" {
		return "", 0
	}
	call, okCall := n.left.(*callNode)
	name, okName := n.right.(*constNode)
	if !okCall || !okName {
		call, okCall = n.right.(*callNode)
		name, okName = n.left.(*constNode)
	}
	if !okCall || !okName || call.name != "type" {
		return "", 0
	}
	for _, one := range kindNames {
		if one.name == name.value {
			return t.key(call.args[0]), one.kinds
		}
	}
	return "", 0
}

// Limits of trial evaluations, in units of fuel. A condition that costs more has no facts.
const (
	probeFuel  = 2000   // of one
	probesFuel = 20_000 // of all of them for one expression
)

// probe is a condition and its value.
type probe struct {
	cond  node
	holds bool
}

// notNothing finds by trial evaluation what a condition says about the only path that it reads. If
// it cannot be true when a value on the path is null or missing, then a true condition says that
// the value exists. A condition that fails ends the step, so nothing after it is reached in that
// case either. The facts are kept, because every operand of a chain of && asks for those of all
// operands before it.
func (t *typer) notNothing(cond node, holds bool) []fact {
	at := probe{cond, holds}
	facts, known := t.probed[at]
	if !known {
		facts = slices.Clip(t.tryNothing(cond, holds))
		if t.probed == nil {
			t.probed = map[probe][]fact{}
		}
		t.probed[at] = facts
	}
	return facts
}

func (t *typer) tryNothing(cond node, holds bool) []fact {
	r := &reader{typer: t}
	r.read(cond, len(t.elems))
	if r.several || r.path == nil {
		return nil
	}
	var facts []fact
	names := strings.Split(t.key(r.path), separator)
	for i := range names {
		var wrong Kinds
		if !t.canHold(cond, holds, r.path, names[1:i+1], nil) {
			wrong |= KindNull
		}
		if i > 0 && !t.canHold(cond, holds, r.path, names[1:i], map[string]any{}) {
			wrong |= KindAbsent
		}
		if wrong != 0 {
			facts = append(facts, fact{strings.Join(names[:i+1], separator), ^wrong})
		}
	}
	return facts
}

// canHold evaluates a condition for a path with exactly these names and the given value at its end.
// The answer is yes if the evaluation takes too long. In a trial, matches costs more, because the
// path holds no text: only the author's own text is searched.
func (t *typer) canHold(cond node, holds bool, path node, names []string, value any) bool {
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	s := newState(nil)
	fuel := min(probeFuel, probesFuel-t.spent)
	s.fuel, s.trial = fuel, true
	s.lets, s.elems = make([]any, len(t.lets)), make([]element, len(t.elems))
	switch root := rootOf(path).(type) {
	case *rootNode:
		s.env = MapEnv{root.key: value}
	case *varNode:
		s.lets[root.slot] = value
	case *elemNode:
		s.elems[len(s.elems)-1].value = value
	}
	v, err := cond.eval(s)
	t.spent += fuel - s.fuel
	if err == nil {
		return kind(v) != "bool" || v == holds
	}
	e, ok := errors.AsType[*EvalError](err)
	return !ok || !slices.Contains(refusals, e.Code)
}

// refusals are the codes of evaluations that fail because of their values, independently of the
// environment.
var refusals = []string{CodeMissingField, CodeWrongType, CodeNotABool, CodeNotText, CodeBadValue}

// rootOf returns the root of a path.
func rootOf(n node) node {
	for {
		switch at := n.(type) {
		case *memberNode:
			n = at.obj
		case *chainNode:
			n = at.inner
		default:
			return n
		}
	}
}

// reader finds the one path that a condition reads.
type reader struct {
	*typer
	path    node
	several bool
}

// read walks a node; depth is the number of predicates around it.
func (r *reader) read(n node, depth int) {
	if r.several || n == nil {
		return
	}
	switch n := n.(type) {
	case *memberNode:
		if r.key(n) != "" {
			r.take(n, depth)
			return
		}
		r.read(n.obj, depth)
		r.read(n.index, depth)
	case *rootNode, *varNode:
		r.take(n, depth)
	case *elemNode:
		if n.index && depth == len(r.elems) {
			r.several = true // it may be any number
		} else if !n.index {
			r.take(n, depth)
		}
	default:
		for _, child := range children(n) {
			in := depth
			if p, ok := n.(*predicateNode); ok && child == p.body {
				in++
			}
			r.read(child, in)
		}
	}
}

func (r *reader) take(n node, depth int) {
	root := rootOf(n)
	switch at := root.(type) {
	case *elemNode:
		if depth != len(r.elems) {
			return // it is of a list that is read here
		}
	case *varNode:
		if at.slot >= len(r.lets) {
			return // likewise
		}
	}
	r.several = r.several || r.path != nil && r.key(r.path) != r.key(n)
	r.path = n
}

// children returns the parts of a node that is not a path.
func children(n node) []node {
	switch n := n.(type) {
	case *listNode:
		return n.items
	case *mapNode:
		var out []node
		for _, e := range n.entries {
			out = append(out, e.key, e.value)
		}
		return out
	case *condNode:
		return []node{n.cond, n.yes, n.no}
	case *letNode:
		return []node{n.value, n.body}
	case *callNode:
		return n.args
	case *notNode:
		return []node{n.x}
	case *signNode:
		return []node{n.x}
	case *logicNode:
		return []node{n.left, n.right}
	case *binaryNode:
		return []node{n.left, n.right}
	case *chainNode:
		return []node{n.inner}
	case *coalesceNode:
		return []node{n.left, n.right}
	case *sliceNode:
		return []node{n.obj, n.from, n.to}
	case *predicateNode:
		return []node{n.list, n.body}
	}
	return nil
}

// exported returns the facts about roots, which are valid wherever the condition is known to be
// true.
func exported(facts []fact) []Fact {
	var out []Fact
	for _, f := range facts {
		if f.key[0] > '\x02' {
			out = append(out, Fact{Path: f.key, Keep: f.keep})
		}
	}
	return out
}
