package expr

import "slices"

// chainNode is the whole path around a ?.: if the path stops at the ?., all of it is null.
type chainNode struct{ inner pathNode }

func (n *chainNode) eval(s *state) (any, error) {
	v, _, err := n.path(s)
	return v, err
}

func (n *chainNode) describe() string { return n.inner.describe() }

func (n *chainNode) path(s *state) (any, stop, error) {
	v, st, err := n.inner.path(s)
	if st == cut {
		return nil, none, err
	}
	return v, st, err
}

// sliceNode is obj[from:to]; a missing bound is the start or the end of the list.
type sliceNode struct{ obj, from, to node }

func (n *sliceNode) eval(s *state) (any, error) {
	v, _, err := n.path(s)
	return v, err
}

func (n *sliceNode) describe() string { return describe(n.obj) + "[…:…]" }

func (n *sliceNode) path(s *state) (any, stop, error) {
	if err := s.burn(1); err != nil {
		return nil, none, err
	}
	v, st, err := base(s, n.obj)
	if err != nil || st != none {
		return nil, st, err
	}
	if v, err = s.open(v); err != nil {
		return nil, none, err
	}
	if v == nil {
		return nil, missing, fail(CodeMissingField, "%s: %s is null; use ??", n.describe(), describe(n.obj))
	}
	list, ok := v.([]any)
	if !ok {
		return nil, none, fail(CodeWrongType, "%s: only a list has slices, not %s", n.describe(), kind(v))
	}
	from, err := s.bound(n.from, 0, len(list))
	if err != nil {
		return nil, none, err
	}
	to, err := s.bound(n.to, len(list), len(list))
	if err != nil {
		return nil, none, err
	}
	return slices.Clone(list[from:max(from, to)]), none, s.burn(max(0, to-from))
}

// bound returns a slice bound between 0 and size. A negative one counts from the end.
func (s *state) bound(n node, absent, size int) (int, error) {
	if n == nil {
		return absent, nil
	}
	v, err := evalOpen(s, n)
	if err != nil {
		return 0, err
	}
	i, err := smallInt(v, "a slice bound")
	if err != nil {
		return 0, err
	}
	if i < 0 {
		i += size
	}
	return max(0, min(size, i)), nil
}

// coalesceNode is left ?? right. It is itself a path, so that in a ?? b ?? c a missing b is
// allowed, too.
type coalesceNode struct{ left, right node }

func (n *coalesceNode) eval(s *state) (any, error) {
	v, _, err := n.path(s)
	return v, err
}

func (n *coalesceNode) describe() string { return "(…)" }

func (n *coalesceNode) path(s *state) (any, stop, error) {
	if err := s.burn(1); err != nil {
		return nil, none, err
	}
	v, st, err := base(s, n.left)
	switch {
	case st == missing:
		return base(s, n.right)
	case err != nil:
		return nil, none, err
	case kind(v) == "null":
		return base(s, n.right)
	}
	return v, none, nil
}
