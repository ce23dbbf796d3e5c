package expr

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

func itoa(i int) string { return strconv.Itoa(i) }

// stop says why a path ended early.
type stop int

const (
	none    stop = iota // it did not
	cut                 // at a ?. that met null or no such field: the chain is null
	missing             // no such field, or a field of null: err has the details
)

// pathNode is a node of a path. ?? handles only values that are missing along a path, not errors of
// a computed base or index.
type pathNode interface {
	node
	path(s *state) (any, stop, error)
	describe() string
}

type rootNode struct {
	name string // as written
	key  string // in the environment
}

func (n *rootNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	return s.root(n.key)
}

func (n *rootNode) describe() string { return n.name }

func (n *rootNode) path(s *state) (any, stop, error) {
	v, err := n.eval(s)
	return v, none, err
}

// memberNode is obj.name, obj["name"] or obj[index].
type memberNode struct {
	obj      node
	name     string
	index    node // nil: by name
	optional bool
}

func (n *memberNode) describe() string {
	switch {
	case n.index != nil:
		return describe(n.obj) + "[…]"
	default:
		return describe(n.obj) + "." + n.name
	}
}

// describe names a node in an error, without any data.
func describe(n node) string {
	switch n := n.(type) {
	case pathNode:
		return n.describe()
	case *varNode:
		return n.name
	case *elemNode:
		return "#"
	case *callNode:
		return n.name + "(…)"
	}
	return "(…)"
}

func (n *memberNode) eval(s *state) (any, error) {
	v, _, err := n.path(s)
	return v, err
}

// base evaluates the start of a path.
func base(s *state, n node) (any, stop, error) {
	if p, ok := n.(pathNode); ok {
		return p.path(s)
	}
	v, err := n.eval(s)
	return v, none, err
}

func (n *memberNode) path(s *state) (any, stop, error) {
	if err := s.burn(1); err != nil {
		return nil, none, err
	}
	obj, st, err := base(s, n.obj)
	if err != nil || st != none {
		return nil, st, err
	}
	if obj, err = normalize(obj); err != nil {
		return nil, none, err
	}
	var key any = n.name
	if n.index != nil {
		if key, err = evalOpen(s, n.index); err != nil {
			return nil, none, err
		}
		if name, ok := key.(string); ok {
			if err := s.burn(len(name) / unitScanned); err != nil {
				return nil, none, err
			}
		}
	}
	if s.partial {
		if text, ok := unknown(obj); ok {
			v, err := child(text, key)
			return v, none, err
		}
	}
	v, found, err := s.member(obj, key, n)
	switch {
	case err != nil:
		return nil, none, err
	case found:
		return v, none, nil
	case n.optional:
		return nil, cut, nil
	}
	err = s.missingError(obj, n)
	if e, ok := errors.AsType[*EvalError](err); !ok || e.Code != CodeMissingField {
		return nil, none, err
	}
	return nil, missing, err
}

// member looks up key in obj. found is false if obj is null or has no such field. A type that has
// no fields is an error.
func (s *state) member(obj, key any, n *memberNode) (any, bool, error) {
	if raw, ok := obj.(Raw); ok {
		if name, ok := key.(string); ok && rawKind(raw) == "object" {
			return s.rawField(raw, name)
		}
		var err error
		if obj, err = s.open(raw); err != nil {
			return nil, false, err
		}
	}
	switch o := obj.(type) {
	case nil:
		return nil, false, nil
	case map[string]any:
		if name, ok := key.(string); ok {
			v, ok := o[name]
			return v, ok, nil
		}
		return nil, false, fail(CodeWrongType, "%s: a field is named by a string, not %s", n.describe(), kind(key))
	case Object:
		if name, ok := key.(string); ok {
			v, ok := o.Field(name)
			if !ok {
				return nil, false, nil
			}
			v, err := normalize(v)
			return v, true, err
		}
		return nil, false, fail(CodeWrongType, "%s: a field is named by a string, not %s", n.describe(), kind(key))
	case []any:
		if _, ok := key.(json.Number); !ok {
			return nil, false, fail(CodeWrongType, "%s: a list has no fields; use [0], or map(list, .field)", n.describe())
		}
		i, ok, err := listIndex(key, len(o))
		if err != nil || !ok {
			return nil, false, err
		}
		return o[i], true, nil
	}
	return nil, false, fail(CodeWrongType, "%s: %s is a %s and has no fields", n.describe(), describe(n.obj), kind(obj))
}

// rawField finds one field of an undecoded object. If a name occurs twice, the last one counts, as
// in encoding/json.
func (s *state) rawField(raw Raw, name string) (any, bool, error) {
	if err := s.burn(1 + len(raw)/unitScanned); err != nil {
		return nil, false, err
	}
	var found Raw
	err := eachRaw(raw, func(key string, v Raw) {
		if key == name {
			found = v
		}
	})
	if err != nil {
		return nil, false, notJSON(err)
	}
	return found, found != nil, nil
}

// listIndex converts an index to a position in a list of n elements. A negative one counts from the
// end. ok is false if it is out of range.
func listIndex(key any, n int) (i int, ok bool, err error) {
	i, err = smallInt(key, "an index")
	if err != nil {
		return 0, false, err
	}
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n, nil
}

// smallInt reads an integer used as an index, a size or a count. Values beyond 32 bits are clamped,
// because no list is that long.
func smallInt(v any, what string) (int, error) {
	const bound = 1 << 31
	num, ok := v.(json.Number)
	if !ok {
		return 0, fail(CodeWrongType, "%s must be an integer, not %s", what, kind(v))
	}
	if i, err := strconv.ParseInt(string(num), 10, 64); err == nil && isLiteral(string(num)) {
		return int(max(-bound, min(bound, i))), nil
	}
	d, err := decimalOf(num)
	if err != nil {
		return 0, err
	}
	i, ok, err := integerOf(d)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fail(CodeWrongType, "%s must be an integer; use int()", what)
	}
	if !i.IsInt64() {
		return bound * i.Sign(), nil
	}
	return int(max(-bound, min(bound, i.Int64()))), nil
}

// missingError says what is missing, and what exists.
func (s *state) missingError(obj any, n *memberNode) error {
	obj, err := s.open(obj)
	if err != nil {
		return err
	}
	switch o := obj.(type) {
	case nil:
		return fail(CodeMissingField, "%s: %s is null; use ?. or ??", n.describe(), describe(n.obj))
	case []any:
		return fail(CodeMissingField, "%s: the index is outside the list of %d; use ?? for a default", n.describe(), len(o))
	case Object:
		return missingName(n, o.Names())
	case map[string]any:
		return missingName(n, sortedKeys(o))
	}
	return fail(CodeMissingField, "%s: no such field", n.describe())
}

func missingName(n *memberNode, names []string) error {
	var b strings.Builder
	b.WriteString(n.describe() + ": no ")
	if n.index == nil {
		b.WriteString("field " + strconv.Quote(clip(n.name)))
		if near := nearest(n.name, names); near != "" {
			b.WriteString("; did you mean " + strconv.Quote(clip(near)) + "?")
		}
	} else { // the key is data, and a similar name would show most of it
		b.WriteString("such field")
	}
	b.WriteString(" (" + listNames(names) + "; use ?. or ?? if it may be absent)")
	return &EvalError{Code: CodeMissingField, Detail: b.String()}
}
