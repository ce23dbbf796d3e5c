package expr

import (
	"encoding/json"
)

// node is a compiled part of an expression. eval may return Raw and Object values; a caller that
// reads their contents opens them.
type node interface {
	eval(s *state) (any, error)
}

// constNode is a literal: nil, bool, string or json.Number.
type constNode struct{ value any }

func (n *constNode) eval(s *state) (any, error) { return n.value, s.burn(1) }

type listNode struct{ items []node }

func (n *listNode) eval(s *state) (any, error) {
	if err := s.burn(1 + len(n.items)); err != nil {
		return nil, err
	}
	list := make([]any, len(n.items))
	for i, item := range n.items {
		v, err := s.part(item)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

type mapEntry struct{ key, value node }

type mapNode struct{ entries []mapEntry }

func (n *mapNode) eval(s *state) (any, error) {
	if err := s.burn(1 + len(n.entries)); err != nil {
		return nil, err
	}
	m := make(map[string]any, len(n.entries))
	for _, e := range n.entries {
		k, err := evalOpen(s, e.key)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, fail(CodeWrongType, "a key must be a string, not %s; use string()", kind(k))
		}
		if m[key], err = s.part(e.value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// evalOpen evaluates n and parses the first level of the result.
func evalOpen(s *state, n node) (any, error) {
	v, err := n.eval(s)
	if err != nil {
		return nil, err
	}
	return s.open(v)
}

// evalBool evaluates n, which must be a bool; where is the name of the place.
func evalBool(s *state, n node, where string) (bool, error) {
	v, err := evalOpen(s, n)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fail(CodeNotABool, "%s must be true or false, not %s; compare it, as in x == 1", where, kind(v))
	}
	return b, nil
}

type condNode struct{ cond, yes, no node }

func (n *condNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	ok, err := evalBool(s, n.cond, "the condition before ?")
	if err != nil {
		return nil, err
	}
	if ok {
		return n.yes.eval(s)
	}
	return n.no.eval(s)
}

// letNode is "let name = value; body". The variable's place on the stack is
// known when it is compiled.
type letNode struct{ value, body node }

func (n *letNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	v, err := s.part(n.value)
	if err != nil {
		return nil, err
	}
	s.lets = append(s.lets, v)
	out, err := n.body.eval(s)
	s.lets = s.lets[:len(s.lets)-1]
	return out, err
}

type varNode struct {
	name string
	slot int
}

func (n *varNode) eval(s *state) (any, error) { return s.lets[n.slot], s.burn(1) }

// elemNode is # (the element) or #index inside a predicate.
type elemNode struct{ index bool }

func (n *elemNode) eval(s *state) (any, error) {
	e := s.elems[len(s.elems)-1]
	if n.index {
		return intNumber(e.index), s.burn(1)
	}
	return e.value, s.burn(1)
}

type callNode struct {
	name string
	fn   *function
	args []node
}

func (n *callNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	vals := make([]any, len(n.args))
	for i, arg := range n.args {
		v, err := arg.eval(s)
		if err != nil {
			return nil, err
		}
		if _, raw := v.(Raw); !raw {
			if v, err = normalize(v); err != nil {
				return nil, err
			}
		}
		vals[i] = v
	}
	c := &call{state: s, name: n.name, fn: n.fn, args: vals}
	if err := c.check(); err != nil {
		return nil, err
	}
	return n.fn.call(c)
}

// secretNode is secrets.<name>. It is only compiled as the whole of a ${…}.
type secretNode struct{ name string }

func (n *secretNode) eval(s *state) (any, error) { return Secret{Name: n.name}, s.burn(1) }

func intNumber(i int) json.Number { return json.Number(itoa(i)) }
