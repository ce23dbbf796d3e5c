package expr

import (
	"encoding/json"
	"strings"
)

// kind returns the name of v's JSON type, as type() does.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string, encoded:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "list"
	case map[string]any, Object:
		return "object"
	case int, int64:
		return "number"
	case Raw:
		return rawKind(v)
	case json.RawMessage:
		return rawKind(Raw(v))
	case Secret:
		return "secret"
	}
	return "value"
}

func rawKind(raw Raw) string {
	i := skipSpace(raw, 0)
	if i == len(raw) {
		return "value"
	}
	switch raw[i] {
	case '{':
		return "object"
	case '[':
		return "list"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

// equal is deep equality: numbers by value, maps in any order. Values
// of different types are not equal.
func (s *state) equal(a, b any) (bool, error) {
	if err := s.burn(1); err != nil {
		return false, err
	}
	a, err := s.whole(a)
	if err != nil {
		return false, err
	}
	if b, err = s.whole(b); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case bool:
		y, ok := b.(bool)
		return ok && a == y, nil
	case string:
		y, ok := b.(string)
		return ok && a == y, s.burn(len(a) / unitScanned)
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false, nil
		}
		c, err := s.compareNumbers(a, y)
		return c == 0, err
	case []any:
		y, ok := b.([]any)
		return s.equalLists(a, y, ok)
	case map[string]any:
		y, ok := b.(map[string]any)
		return s.equalMaps(a, y, ok)
	}
	return false, fail(CodeWrongType, "a %s cannot be compared", kind(a))
}

// whole is open, with an Object written out completely.
func (s *state) whole(v any) (any, error) {
	v, err := s.open(v)
	if err != nil {
		return nil, err
	}
	if o, ok := v.(Object); ok {
		raw, err := objectJSON(o)
		if err != nil {
			return nil, err
		}
		return s.open(raw)
	}
	return v, nil
}

func (s *state) equalLists(a, b []any, ok bool) (bool, error) {
	if !ok || len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := s.equal(a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (s *state) equalMaps(a, b map[string]any, ok bool) (bool, error) {
	if !ok || len(a) != len(b) {
		return false, nil
	}
	for _, key := range sortedKeys(a) {
		other, ok := b[key]
		if !ok {
			return false, nil
		}
		if same, err := s.equal(a[key], other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// order compares two numbers or two strings (by code point): -1, 0 or 1.
func (s *state) order(op string, a, b any) (int, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), s.burn(min(len(x), len(y)) / unitScanned)
		}
	}
	if x, ok := a.(json.Number); ok {
		if y, ok := b.(json.Number); ok {
			return s.compareNumbers(x, y)
		}
	}
	return 0, fail(CodeWrongType, "%s takes two numbers or two strings, not %s and %s", op, kind(a), kind(b))
}

// identity appends text that is the same for equal values and only for those:
// JSON with sorted keys and numbers brought to one form.
func (s *state) identity(buf []byte, v any) ([]byte, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	v, err := s.whole(v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case json.Number:
		if err := s.burn(len(v) / unitProduced); err != nil {
			return nil, err
		}
		l, err := parseLiteral(v)
		return append(buf, l.key()...), err
	case []any:
		buf = append(buf, '[')
		for _, item := range v {
			if buf, err = s.identity(buf, item); err != nil {
				return nil, err
			}
			buf = append(buf, ',')
		}
		return append(buf, ']'), nil
	case map[string]any:
		buf = append(buf, '{')
		for _, key := range sortedKeys(v) {
			if buf, err = s.encodeString(buf, key); err != nil {
				return nil, err
			}
			if buf, err = s.identity(append(buf, ':'), v[key]); err != nil {
				return nil, err
			}
			buf = append(buf, ',')
		}
		return append(buf, '}'), nil
	}
	return s.encode(buf, v)
}
