package expr

import (
	"encoding/json"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// fnLen counts the characters of a string, the elements of a list, the fields
// of an object.
func fnLen(c *call) (any, error) {
	v, err := c.open(c.args[0])
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string:
		return intNumber(utf8.RuneCountInString(v)), c.burn(len(v) / unitScanned)
	case []any:
		return intNumber(len(v)), nil
	case map[string]any:
		return intNumber(len(v)), nil
	case Object:
		return intNumber(len(v.Names())), nil
	}
	return nil, nil // no other kind gets here
}

func fnTake(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	v, err := c.open(c.args[1])
	if err != nil {
		return nil, err
	}
	n, err := smallInt(v, "take: how many")
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fail(CodeBadValue, "take: how many must not be negative")
	}
	n = min(n, len(list))
	return slices.Clone(list[:n]), c.burn(n)
}

// fnUniq keeps the first of equal elements.
func fnUniq(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(list))
	out := []any{}
	for _, item := range list {
		id, err := c.identity(nil, item)
		if err != nil {
			return nil, err
		}
		if !seen[string(id)] {
			seen[string(id)] = true
			out = append(out, item)
		}
	}
	return out, c.burn(len(out))
}

// fnFlatten replaces lists among the elements by their own elements, one level deep.
func fnFlatten(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, item := range list {
		v, err := c.open(item)
		if err != nil {
			return nil, err
		}
		inner, ok := v.([]any)
		if !ok {
			inner = []any{item}
		}
		if err := c.burn(1 + len(inner)); err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

func fnConcat(c *call) (any, error) {
	out := []any{}
	for i := range c.args {
		list, err := c.list(i)
		if err != nil {
			return nil, err
		}
		if err := c.burn(len(list)); err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// fnFirst returns null for an empty list, so that ?? can follow.
func fnFirst(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func fnLast(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[len(list)-1], nil
}

func fnReverse(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	if err := c.burn(len(list)); err != nil {
		return nil, err
	}
	out := slices.Clone(list)
	slices.Reverse(out)
	return out, nil
}

// fnSort orders numbers by value or strings by code point; equal ones keep
// their order.
func fnSort(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	if err := c.burn(len(list) * bits.Len(uint(len(list)))); err != nil {
		return nil, err
	}
	out, err := c.opened(list)
	if err != nil || len(out) == 0 {
		return []any{}, err
	}
	if _, ok := out[0].(string); ok {
		return sortStrings(out)
	}
	return c.sortNumbers(out)
}

func sortStrings(list []any) (any, error) {
	for _, v := range list {
		if _, ok := v.(string); !ok {
			return nil, errMixedSort(v)
		}
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return list, nil
}

func (s *state) sortNumbers(list []any) (any, error) {
	type keyed struct {
		lit literal
		val any
	}
	keys := make([]keyed, len(list))
	for i, v := range list {
		n, ok := v.(json.Number)
		if !ok {
			return nil, errMixedSort(v)
		}
		lit, err := s.literal(n)
		if err != nil {
			return nil, err
		}
		keys[i] = keyed{lit, v}
	}
	slices.SortStableFunc(keys, func(a, b keyed) int { return compareLiterals(a.lit, b.lit) })
	for i, k := range keys {
		list[i] = k.val
	}
	return list, nil
}

func errMixedSort(v any) *EvalError {
	return fail(CodeWrongType, "sort takes a list of numbers or a list of strings; there is %s among them", kind(v))
}

func fnKeys(c *call) (any, error) {
	v, err := c.open(c.args[0])
	if err != nil {
		return nil, err
	}
	var names []string
	switch v := v.(type) {
	case map[string]any:
		names = sortedKeys(v)
	case Object:
		names = slices.Sorted(slices.Values(v.Names()))
	}
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list, c.burn(len(list))
}

// fnValues gives the values in the order of their keys.
func fnValues(c *call) (any, error) {
	m, err := c.object(0)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, len(m))
	for _, key := range sortedKeys(m) {
		list = append(list, m[key])
	}
	return list, c.burn(len(list))
}

// fnHas reports whether the object has the field, even if it is null. null has none.
func fnHas(c *call) (any, error) {
	v, err := c.open(c.args[0])
	if err != nil {
		return nil, err
	}
	name, err := c.text(1)
	if err != nil {
		return nil, err
	}
	found := false
	switch v := v.(type) {
	case map[string]any:
		_, found = v[name]
	case Object:
		_, found = v.Field(name)
	}
	return found, nil
}

// fnMerge overwrites the fields of the first object with those of the second, one level deep.
func fnMerge(c *call) (any, error) {
	a, err := c.object(0)
	if err != nil {
		return nil, err
	}
	b, err := c.object(1)
	if err != nil {
		return nil, err
	}
	if err := c.burn(len(a) + len(b)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(a)+len(b))
	for _, key := range sortedKeys(a) {
		out[key] = a[key]
	}
	for _, key := range sortedKeys(b) {
		out[key] = b[key]
	}
	return out, nil
}
