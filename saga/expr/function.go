package expr

import (
	"encoding/json"
	"maps"
	"slices"
)

// function is one entry of the language's library.
type function struct {
	min, max int    // number of arguments; max < 0 is any
	usage    string // how it is called, for errors
	call     func(c *call) (any, error)
}

// predicate is a function whose second argument is a condition or expression
// over each element, # (or .field), with #index its place.
type predicate struct {
	usage string
	run   func(s *state, list []any, at func(i int) (any, error)) (any, error)
	value bool // the body gives a value, not a condition
}

// functions is the whole library, besides the predicates and those that are journaled.
var functions = map[string]function{
	"abs":        {1, 1, "abs(x)", fnAbs},
	"base64":     {1, 1, "base64(text)", fnBase64},
	"bool":       {1, 1, "bool(x)", fnBool},
	"ceil":       {1, 1, "ceil(x)", fnCeil},
	"concat":     {1, -1, "concat(list, list, …)", fnConcat},
	"decimal":    {1, 1, "decimal(text)", fnNumber},
	"first":      {1, 1, "first(list)", fnFirst},
	"flatten":    {1, 1, "flatten(list)", fnFlatten},
	"floor":      {1, 1, "floor(x)", fnFloor},
	"has":        {2, 2, `has(object, "field")`, fnHas},
	"int":        {1, 1, "int(x)", fnInt},
	"join":       {2, 2, "join(list, separator)", fnJoin},
	"json":       {1, 1, "json(x)", fnJSON},
	"keys":       {1, 1, "keys(object)", fnKeys},
	"last":       {1, 1, "last(list)", fnLast},
	"len":        {1, 1, "len(x)", fnLen},
	"lower":      {1, 1, "lower(text)", fnLower},
	"max":        {1, -1, "max(x, y, …) or max(list)", fnMax},
	"merge":      {2, 2, "merge(object, object)", fnMerge},
	"min":        {1, -1, "min(x, y, …) or min(list)", fnMin},
	"number":     {1, 1, "number(x)", fnNumber},
	"parse_json": {1, 1, "parse_json(text)", fnParseJSON},
	"path":       {1, 1, "path(x)", fnPath},
	"replace":    {3, 3, "replace(text, old, new)", fnReplace},
	"reverse":    {1, 1, "reverse(list)", fnReverse},
	"round":      {1, 2, "round(x, places)", fnRound},
	"sha256":     {1, 1, "sha256(text)", fnSHA256},
	"sort":       {1, 1, "sort(list)", fnSort},
	"split":      {2, 2, "split(text, separator)", fnSplit},
	"string":     {1, 1, "string(x)", fnString},
	"sum":        {1, 1, "sum(list)", fnSum},
	"take":       {2, 2, "take(list, n)", fnTake},
	"trim":       {1, 1, "trim(text)", fnTrim},
	"type":       {1, 1, "type(x)", fnType},
	"unbase64":   {1, 1, "unbase64(text)", fnUnbase64},
	"uniq":       {1, 1, "uniq(list)", fnUniq},
	"upper":      {1, 1, "upper(text)", fnUpper},
	"urlencode":  {1, 1, "urlencode(x)", fnURLEncode},
	"values":     {1, 1, "values(object)", fnValues},
}

// renamed points from names other languages use to ours.
var renamed = map[string]string{
	"toJSON": "json(x)", "to_json": "json(x)", "fromJSON": "parse_json(text)", "from_json": "parse_json(text)",
	"toBase64": "base64(text)", "fromBase64": "unbase64(text)", "float": "number(x)", "size": "len(x)",
	"length": "len(x)", "count_if": "count(list, condition)", "exists": "any(list, condition)",
	"hasPrefix": "x startsWith y", "hasSuffix": "x endsWith y", "default": "x ?? default", "coalesce": "x ?? y",
	"get": "x?.field", "if": "condition ? a : b", "str": "string(x)",
	"rand": "random(n)", "uuid4": "uuid()", "uuid7": "uuid()", "date": "now(), in a set step; a time is text", "timestamp": "now(), in a set step; a time is text",
}

// functionNames lists every name that can be called, sorted.
func functionNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(functions)), maps.Keys(predicates))
	names = slices.AppendSeq(names, maps.Keys(journaled))
	slices.Sort(names)
	return names
}

// call is one call of a function: its arguments, evaluated, maybe Raw.
type call struct {
	*state
	name string
	args []any
}

func (c *call) wrong(i int, want string, got any) *EvalError {
	return fail(CodeWrongType, "%s: argument %d must be %s, not %s", c.name, i+1, want, kind(got))
}

func (c *call) text(i int) (string, error) {
	v, err := c.open(c.args[i])
	if err != nil {
		return "", err
	}
	t, ok := v.(string)
	if !ok {
		return "", c.wrong(i, "a string", v)
	}
	return t, nil
}

func (c *call) list(i int) ([]any, error) {
	v, err := c.open(c.args[i])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, c.wrong(i, "a list", v)
	}
	return list, nil
}

func (c *call) object(i int) (map[string]any, error) {
	v, err := c.whole(c.args[i])
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, c.wrong(i, "an object", v)
	}
	return m, nil
}

func (c *call) number(i int) (json.Number, error) {
	v, err := c.open(c.args[i])
	if err != nil {
		return "", err
	}
	n, ok := v.(json.Number)
	if !ok {
		return "", c.wrong(i, "a number", v)
	}
	return n, nil
}

// opened parses the first level of every element of list.
func (s *state) opened(list []any) ([]any, error) {
	out := make([]any, len(list))
	for i, item := range list {
		v, err := s.open(item)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, s.burn(len(out))
}
