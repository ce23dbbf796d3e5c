package expr

import (
	"encoding/json"
	"errors"
	"strings"
)

type notNode struct{ x node }

func (n *notNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	b, err := evalBool(s, n.x, "what ! negates")
	return !b, err
}

// signNode is unary minus or plus.
type signNode struct {
	x     node
	minus bool
}

func (n *signNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	v, err := evalOpen(s, n.x)
	if err != nil {
		return nil, err
	}
	num, ok := v.(json.Number)
	if !ok {
		return nil, fail(CodeWrongType, "a sign goes before a number, not %s", kind(v))
	}
	if !n.minus {
		return num, nil
	}
	return s.negate(num)
}

// negate changes the literal, so it has no limits. Zero has no sign.
func (s *state) negate(n json.Number) (json.Number, error) {
	l, err := s.literal(n)
	text := strings.TrimPrefix(string(n), "-")
	if l.sign() <= 0 {
		return json.Number(text), err
	}
	return json.Number("-" + text), err
}

// logicNode is && or ||, which evaluate the right operand only if necessary.
type logicNode struct {
	op          string
	and         bool
	left, right node
}

func (n *logicNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	left, err := evalBool(s, n.left, "the left of "+n.op)
	if s.partial && errors.Is(err, ErrUnknown) {
		return n.besidesUnknown(s)
	}
	if err != nil || left != n.and {
		return left, err
	}
	return evalBool(s, n.right, "the right of "+n.op)
}

// besidesUnknown returns the value if the left operand is unknown: the right operand alone may
// decide.
func (n *logicNode) besidesUnknown(s *state) (any, error) {
	if right, err := evalBool(s, n.right, "the right of "+n.op); err == nil && right != n.and {
		return right, nil
	}
	return nil, ErrUnknown
}

// binaryNode is every other operator with two operands.
type binaryNode struct {
	op          string
	left, right node
	pattern     *pattern // of matches, when constant
}

func (n *binaryNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	a, err := evalOpen(s, n.left)
	if err != nil {
		return nil, err
	}
	b, err := evalOpen(s, n.right)
	if err != nil {
		return nil, err
	}
	switch n.op {
	case "==", "!=":
		same, err := s.equal(a, b)
		return same == (n.op == "=="), err
	case "<", "<=", ">", ">=":
		c, err := s.order(n.op, a, b)
		return holds(n.op, c), err
	case "in":
		return s.in(a, b)
	case "contains", "startsWith", "endsWith", "matches":
		return n.text(s, a, b)
	case "..":
		return s.numberRange(a, b)
	}
	return s.arithmetic(n.op, a, b)
}

func holds(op string, c int) bool {
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (s *state) arithmetic(op string, a, b any) (any, error) {
	x, okX := a.(json.Number)
	y, okY := b.(json.Number)
	if okX && okY {
		return arithmetic(op, x, y)
	}
	if op != "+" {
		return nil, fail(CodeWrongType, "%s takes two numbers, not %s and %s", op, kind(a), kind(b))
	}
	t, okT := a.(string)
	u, okU := b.(string)
	if okT && okU {
		return t + u, s.burnBytes(len(t) + len(u))
	}
	hint := ""
	switch {
	case okT || okU:
		hint = "; to build text use \"…${x}…\" or string(x)"
	case kind(a) == "list" && kind(b) == "list":
		hint = "; use concat(a, b)"
	case kind(a) == "object" && kind(b) == "object":
		hint = "; use merge(a, b)"
	}
	return nil, fail(CodeWrongType, "+ takes two numbers or two strings, not %s and %s%s", kind(a), kind(b), hint)
}

// in looks for a in a list, or for a key in an object.
func (s *state) in(a, b any) (bool, error) {
	switch b := b.(type) {
	case []any:
		for _, item := range b {
			if same, err := s.equal(a, item); err != nil || same {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		key, ok := a.(string)
		_, has := b[key]
		return ok && has, s.burn(len(key) / unitScanned)
	case Object:
		key, ok := a.(string)
		if !ok {
			return false, nil
		}
		_, has := b.Field(key)
		return has, s.burn(len(key) / unitScanned)
	}
	return false, fail(CodeWrongType, "in takes a list or an object on its right, not %s; for text use contains", kind(b))
}

func (n *binaryNode) text(s *state, a, b any) (bool, error) {
	x, okX := a.(string)
	y, okY := b.(string)
	if !okX || !okY {
		return false, fail(CodeWrongType, "%s takes two strings, not %s and %s%s", n.op, kind(a), kind(b), listHint(a))
	}
	if err := s.burn((len(x) + len(y)) / unitScanned); err != nil {
		return false, err
	}
	switch n.op {
	case "contains":
		return strings.Contains(x, y), nil
	case "startsWith":
		return strings.HasPrefix(x, y), nil
	case "endsWith":
		return strings.HasSuffix(x, y), nil
	}
	p := n.pattern
	if p == nil {
		var err error
		if p, err = s.compilePattern(y); err != nil {
			return false, err
		}
	}
	cost := len(x) * p.size // it fits, because a size is at most maxPatternSize
	if !s.trial {
		cost /= unitScanned
	}
	if err := s.burn(cost); err != nil {
		return false, err
	}
	return p.re.MatchString(x), nil
}

func listHint(v any) string {
	if kind(v) == "list" {
		return "; for a list use x in list"
	}
	return ""
}

// numberRange is a..b, both ends in it; empty when b < a.
func (s *state) numberRange(a, b any) (any, error) {
	from, err := smallInt(a, "the start of a range")
	if err != nil {
		return nil, err
	}
	to, err := smallInt(b, "the end of a range")
	if err != nil {
		return nil, err
	}
	n := max(0, to-from+1)
	if err := s.burn(n); err != nil {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		list[i] = intNumber(from + i)
	}
	return list, nil
}
