package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// function is one function of the language. Its argument types are checked when it is compiled and
// when it runs.
type function struct {
	usage    string // how to call it, for errors
	takes    []param
	optional int    // the number of last arguments that may be left out
	rest     bool   // the last may be repeated
	alone    *param // the requirement for an argument that is the only one; nil: takes
	gives    func(args []*Type) *Type
	call     func(c *call) (any, error)
}

// param is the requirement for an argument.
type param struct {
	kinds Kinds
	items Kinds // of a list's items; 0: anything
	alike bool  // the items are all numbers or all strings
	code  string
}

// errorCode returns the code of the error for a wrong argument.
func (p param) errorCode() string {
	if p.code == "" {
		return CodeWrongType
	}
	return p.code
}

// param returns the requirement for argument i of n.
func (f *function) param(i, n int) param {
	if n == 1 && f.alone != nil {
		return *f.alone
	}
	return f.takes[min(i, len(f.takes)-1)]
}

// arity returns the allowed numbers of arguments; most < 0 means any number.
func (f *function) arity() (least, most int) {
	if f.rest {
		return len(f.takes), -1
	}
	return len(f.takes) - f.optional, len(f.takes)
}

// predicate is a function whose second argument is a condition or expression over each element. #
// is the element (or .field its field), #index its index.
type predicate struct {
	usage string
	run   func(s *state, list []any, at func(i int) (any, error)) (any, error)
	value bool                         // the body returns a value, not a condition
	gives func(list, body *Type) *Type // body is nil for a condition
}

// Requirements for arguments.
var (
	aNumber   = param{kinds: KindNumber}
	aCount    = param{kinds: KindInteger}
	aText     = param{kinds: KindString}
	aList     = param{kinds: KindList}
	anObject  = param{kinds: KindObject}
	aScalar   = param{kinds: KindScalar, code: CodeNotText}
	numeral   = param{kinds: KindNumber | KindString} // a number, or text that is a number
	numbers   = param{kinds: KindList, items: KindNumber}
	scalars   = param{kinds: KindList, items: KindScalar, code: CodeNotText}
	sortables = param{kinds: KindList, items: KindNumber | KindString, alike: true}
	anything  = param{kinds: KindAny}
)

func one(p param) []param { return []param{p} }

// functions contains all functions except the predicates and the journaled ones.
var functions = map[string]function{
	"abs":        {usage: "abs(x)", takes: one(aNumber), gives: givesNumber, call: fnAbs},
	"base64":     {usage: "base64(text)", takes: one(aText), gives: gives(KindString), call: fnBase64},
	"bool":       {usage: "bool(x)", takes: one(param{kinds: KindBool | KindString}), gives: gives(KindBool), call: fnBool},
	"ceil":       {usage: "ceil(x)", takes: one(aNumber), gives: gives(KindInteger), call: fnCeil},
	"concat":     {usage: "concat(list, list, …)", takes: one(aList), rest: true, gives: givesAllItems, call: fnConcat},
	"decimal":    {usage: "decimal(text)", takes: one(numeral), gives: givesNumber, call: fnNumber},
	"first":      {usage: "first(list)", takes: one(aList), gives: givesItem, call: fnFirst},
	"flatten":    {usage: "flatten(list)", takes: one(aList), gives: givesFlat, call: fnFlatten},
	"floor":      {usage: "floor(x)", takes: one(aNumber), gives: gives(KindInteger), call: fnFloor},
	"has":        {usage: `has(object, "field")`, takes: []param{{kinds: KindObject | KindNull}, aText}, gives: gives(KindBool), call: fnHas},
	"int":        {usage: "int(x)", takes: one(numeral), gives: gives(KindInteger), call: fnInt},
	"join":       {usage: "join(list, separator)", takes: []param{scalars, aText}, gives: gives(KindString), call: fnJoin},
	"json":       {usage: "json(x)", takes: one(anything), gives: gives(KindString), call: fnJSON},
	"keys":       {usage: "keys(object)", takes: one(anObject), gives: givesTexts, call: fnKeys},
	"last":       {usage: "last(list)", takes: one(aList), gives: givesItem, call: fnLast},
	"len":        {usage: "len(x)", takes: one(param{kinds: KindString | KindList | KindObject}), gives: gives(KindInteger), call: fnLen},
	"lower":      {usage: "lower(text)", takes: one(aText), gives: gives(KindString), call: fnLower},
	"max":        {usage: "max(x, y, …) or max(list)", takes: one(aNumber), rest: true, alone: orNumbers(), gives: givesNumber, call: fnMax},
	"merge":      {usage: "merge(object, object)", takes: []param{anObject, anObject}, gives: givesMerged, call: fnMerge},
	"min":        {usage: "min(x, y, …) or min(list)", takes: one(aNumber), rest: true, alone: orNumbers(), gives: givesNumber, call: fnMin},
	"number":     {usage: "number(x)", takes: one(numeral), gives: givesNumber, call: fnNumber},
	"parse_json": {usage: "parse_json(text)", takes: one(aText), call: fnParseJSON},
	"path":       {usage: "path(x)", takes: one(aScalar), gives: gives(KindString), call: fnPath},
	"replace":    {usage: "replace(text, old, new)", takes: []param{aText, aText, aText}, gives: gives(KindString), call: fnReplace},
	"reverse":    {usage: "reverse(list)", takes: one(aList), gives: givesList, call: fnReverse},
	"round":      {usage: "round(x, places)", takes: []param{aNumber, aCount}, optional: 1, gives: givesRounded, call: fnRound},
	"sha256":     {usage: "sha256(text)", takes: one(aText), gives: gives(KindString), call: fnSHA256},
	"sort":       {usage: "sort(list)", takes: one(sortables), gives: givesList, call: fnSort},
	"split":      {usage: "split(text, separator)", takes: []param{aText, aText}, gives: givesTexts, call: fnSplit},
	"string":     {usage: "string(x)", takes: one(aScalar), gives: gives(KindString), call: fnString},
	"sum":        {usage: "sum(list)", takes: one(numbers), gives: givesNumber, call: fnSum},
	"take":       {usage: "take(list, n)", takes: []param{aList, aCount}, gives: givesList, call: fnTake},
	"trim":       {usage: "trim(text)", takes: one(aText), gives: gives(KindString), call: fnTrim},
	"type":       {usage: "type(x)", takes: one(anything), gives: gives(KindString), call: fnType},
	"unbase64":   {usage: "unbase64(text)", takes: one(aText), gives: gives(KindString), call: fnUnbase64},
	"uniq":       {usage: "uniq(list)", takes: one(aList), gives: givesList, call: fnUniq},
	"upper":      {usage: "upper(text)", takes: one(aText), gives: gives(KindString), call: fnUpper},
	"urlencode":  {usage: "urlencode(x)", takes: one(aScalar), gives: gives(KindString), call: fnURLEncode},
	"values":     {usage: "values(object)", takes: one(anObject), gives: gives(KindList), call: fnValues},
}

// orNumbers is the requirement for the only argument of min() and max(): a number, or a list of
// numbers.
func orNumbers() *param { return &param{kinds: KindNumber | KindList, items: KindNumber} }

// renamed maps names of functions in other languages to ours.
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

// call is one call of a function. Its arguments are evaluated, may be Raw, and have the required
// kinds.
type call struct {
	*state
	name string
	fn   *function
	args []any
}

// rule says what argument i must be.
func (p param) rule(name string, i int) string {
	return fmt.Sprintf("%s: argument %d must be %s", name, i+1, p.kinds.phrase())
}

// check checks the arguments by the function's requirements.
func (c *call) check() error {
	for i, v := range c.args {
		if c.look(v) != nil {
			continue // the function handles it
		}
		if p := c.fn.param(i, len(c.args)); kindOf(v)&p.kinds == 0 {
			return fail(p.errorCode(), "%s, not %s", p.rule(c.name, i), kind(v))
		}
	}
	return nil
}

func (c *call) text(i int) (string, error) {
	v, err := c.open(c.args[i])
	t, _ := v.(string)
	return t, err
}

func (c *call) list(i int) ([]any, error) {
	v, err := c.open(c.args[i])
	list, _ := v.([]any)
	return list, err
}

func (c *call) object(i int) (map[string]any, error) {
	v, err := c.whole(c.args[i])
	m, _ := v.(map[string]any)
	return m, err
}

func (c *call) number(i int) (json.Number, error) {
	v, err := c.open(c.args[i])
	if err != nil {
		return "", err
	}
	n, _ := v.(json.Number)
	return n, c.burn(len(n) / unitScanned)
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
