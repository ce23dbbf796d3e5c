package dsl

import (
	"encoding/json"
	"errors"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"recourse/saga"
)

// MaxSchemaSteps is the most steps that one validation may take. A step is roughly the validation
// of one small value by one small schema: a microsecond.
const MaxSchemaSteps = 200_000

// perValue is the number of additional steps for each value of the data. Large data may be
// validated as long as the work grows with the data, and not with the number of ways through the
// schema.
const perValue = 2

// schemaCost computes the cost of validating values by one schema. It is immutable.
//
// A recursive schema with two alternatives takes 2^depth validations, and the validator can neither
// count nor stop. So the work is counted before it begins, by the same walk over schema and value,
// without validating, and along every alternative. The count is an upper limit. It depends only on
// schema and value, so a replay counts the same.
type schemaCost struct {
	constants map[*jsonschema.Schema]int      // the weights of `enum` and `const`
	patterns  map[jsonschema.Regexp]int       // the numbers of their instructions
	anchors   map[string][]*jsonschema.Schema // the possible targets of a $dynamicRef
	count     int                             // the number of schemas
}

// newSchemaCost walks all schemas that the roots refer to. The roots are a compiled schema and its
// $dynamicAnchors, which the compiler does not expose otherwise. The error says which part has
// another draft.
func newSchemaCost(roots []*jsonschema.Schema) (*schemaCost, error) {
	c := &schemaCost{
		constants: make(map[*jsonschema.Schema]int),
		patterns:  make(map[jsonschema.Regexp]int),
		anchors:   make(map[string][]*jsonschema.Schema),
	}
	seen := make(map[*jsonschema.Schema]bool)
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if s == nil || seen[s] {
			continue
		}
		if s.DraftVersion != 2020 {
			return nil, errors.New("$schema is another draft in a part of it: " + onlyDraft)
		}
		seen[s] = true
		c.learn(s)
		queue = append(queue, parts(s)...)
	}
	c.count = len(seen)
	return c, nil
}

// learn records the cost of a schema by itself.
func (c *schemaCost) learn(s *jsonschema.Schema) {
	if s.DynamicAnchor != "" {
		c.anchors[s.DynamicAnchor] = append(c.anchors[s.DynamicAnchor], s)
	}
	if s.Const != nil {
		c.constants[s] = weight(*s.Const)
	}
	if s.Enum != nil {
		c.constants[s] += weight(s.Enum.Values)
	}
	if s.Pattern != nil {
		c.patterns[s.Pattern] = instructions(s.Pattern.String())
	}
	for p := range s.PatternProperties { // any order
		c.patterns[p] = instructions(p.String())
	}
}

// parts returns the schemas that another schema refers to, first those that validate the same
// value.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	list := same(s)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, name := range sortedKeys(m) {
			list = append(list, m[name])
		}
	}
	for _, p := range s.PatternProperties { // any order
		list = append(list, p)
	}
	if rest, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		list = append(list, rest)
	}
	list = append(list, s.PrefixItems...)
	return append(list, s.PropertyNames, s.UnevaluatedProperties, s.Items2020, s.Contains, s.UnevaluatedItems, s.ContentSchema)
}

// same returns the schemas that validate the same value as s does, except those of a $dynamicRef
// that leads elsewhere, and of dependentSchemas. Some may be nil.
func same(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	list = append(list, s.AllOf...)
	list = append(list, s.AnyOf...)
	return append(list, s.OneOf...)
}

// budget returns the steps that the validation of v may take.
func (c *schemaCost) budget(v any) *budget {
	most := MaxSchemaSteps + perValue*extent(v)
	return &budget{cost: c, most: most, left: most}
}

// budget is the number of remaining steps for one validation. It is below zero when they are used
// up.
type budget struct {
	cost *schemaCost
	most int
	left int
}

// large reports whether more steps were taken than small data may take.
func (b *budget) large() bool { return b.most-b.left > MaxSchemaSteps }

// visit pays for the validation of v by s. chain is the number of schemas that have passed v on by
// reference before.
func (b *budget) visit(s *jsonschema.Schema, v any, chain int) {
	b.left -= 1 + chain/8 + b.size(v)
	if s == nil || s.Bool != nil || b.left < 0 || chain > b.cost.count { // the validator itself finds a cycle
		return
	}
	if s.Types != nil && !s.Types.IsEmpty() && !allows(s.Types, v) {
		return
	}
	if constants, ok := b.cost.constants[s]; ok {
		b.left -= constants
		if s.Enum != nil {
			b.left -= len(s.Enum.Values) * (weight(v) - 1)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		b.object(s, v)
	case []any:
		b.array(s, v)
	case string:
		if s.Pattern != nil {
			b.match(s.Pattern, v)
		}
	}
	for _, part := range same(s) {
		if part != nil {
			b.visit(part, v, chain+1)
		}
	}
	if s.DynamicRef != nil {
		for _, other := range b.cost.anchors[s.DynamicRef.Anchor] {
			if other != s.DynamicRef.Ref {
				b.visit(other, v, chain+1)
			}
		}
	}
	if obj, ok := v.(map[string]any); ok {
		for name, part := range s.DependentSchemas { // any order
			if _, ok := obj[name]; ok {
				b.visit(part, v, chain+1)
			}
		}
	}
}

func (b *budget) object(s *jsonschema.Schema, obj map[string]any) {
	rest, _ := s.AdditionalProperties.(*jsonschema.Schema)
	b.left -= len(s.Required)/8 + len(s.DependentRequired)
	for name, value := range obj { // any order
		if b.left < 0 {
			return
		}
		known := false
		if part, ok := s.Properties[name]; ok {
			known = true
			b.visit(part, value, 0)
		}
		for p, part := range s.PatternProperties { // any order
			b.match(p, name)
			if b.left >= 0 && p.MatchString(name) {
				known = true
				b.visit(part, value, 0)
			}
		}
		if rest != nil && !known {
			b.visit(rest, value, 0)
		}
		if s.PropertyNames != nil {
			b.visit(s.PropertyNames, name, 0)
		}
		if s.UnevaluatedProperties != nil {
			b.visit(s.UnevaluatedProperties, value, 0)
		}
	}
}

func (b *budget) array(s *jsonschema.Schema, list []any) {
	if s.UniqueItems {
		times := min(len(list), 20) // short lists are compared by pairs, long lists by their hashes
		for _, item := range list {
			b.left -= times * weight(item)
		}
	}
	for i, item := range list {
		if b.left < 0 {
			return
		}
		switch {
		case i < len(s.PrefixItems):
			b.visit(s.PrefixItems[i], item, 0)
		case s.Items2020 != nil:
			b.visit(s.Items2020, item, 0)
		}
		if s.Contains != nil {
			b.visit(s.Contains, item, 0)
		}
		if s.UnevaluatedItems != nil {
			b.visit(s.UnevaluatedItems, item, 0)
		}
	}
}

// match pays for matching a regular expression with a text.
func (b *budget) match(p jsonschema.Regexp, text string) {
	b.left -= len(text) * (b.cost.patterns[p] + 8) / 64
}

// fill returns v with the defaults of `doc`, or false if the budget is too small for them.
func (b *budget) fill(doc, v any) (any, bool) {
	if b.defaults(doc, v); b.left < 0 {
		return nil, false
	}
	return fill(doc, v), true
}

// defaults pays for the defaults that `fill` looks for and adds, each of which JSON will contain
// once for each place.
func (b *budget) defaults(doc, v any) {
	rules, _ := doc.(map[string]any)
	switch value := v.(type) {
	case map[string]any:
		properties, _ := rules["properties"].(map[string]any)
		b.left -= len(properties) / 64
		for name, rule := range properties { // any order
			inner, _ := rule.(map[string]any)
			if have, ok := value[name]; ok {
				b.defaults(inner, have)
			} else if def, ok := inner["default"]; ok && b.left >= 0 {
				b.left -= weight(def)
				b.defaults(inner, def)
			}
		}
	case []any:
		for _, item := range value {
			if rules["items"] == nil || b.left < 0 {
				return
			}
			b.defaults(rules["items"], item)
		}
	}
}

// size returns the cost of a value itself, in addition to one step.
func (b *budget) size(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v) / 4
	case []any:
		return len(v) / 16
	default:
		return weight(v) - 1
	}
}

// weight returns the cost of reading all of a value: comparing, hashing or writing it.
func weight(v any) int {
	switch v := v.(type) {
	case map[string]any:
		n := 1
		for name, value := range v { // any order
			n += 1 + len(name)/64 + weight(value)
		}
		return n
	case []any:
		n := 1
		for _, value := range v {
			n += weight(value)
		}
		return n
	case string:
		return 1 + len(v)/64
	case json.Number: // it becomes a fraction of whole numbers: 1e9999 has ten thousand digits
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(exponent)
		if err != nil {
			e = 0
		}
		return 1 + (len(digits)+max(e, -e))/8
	}
	return 1
}

// extent counts the values in v, including v itself. Eight bytes of text count as one value.
func extent(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v { // any order
			n += extent(value)
		}
	case []any:
		for _, value := range v {
			n += extent(value)
		}
	case string:
		n += len(v) / 8
	}
	return n
}

// allows reports whether the validator checks more than the type.
func allows(types *jsonschema.Types, v any) bool {
	switch v.(type) {
	case nil:
		return *types&nullType != 0
	case bool:
		return *types&booleanType != 0
	case json.Number:
		return *types&numberType != 0
	case string:
		return *types&textType != 0
	case []any:
		return *types&arrayType != 0
	case map[string]any:
		return *types&objectType != 0
	}
	return false
}

var nullType, booleanType, numberType, textType, arrayType, objectType = typeOf("null"), typeOf("boolean"), typeOf("number", "integer"), typeOf("string"), typeOf("array"), typeOf("object")

func typeOf(names ...string) (t jsonschema.Types) {
	for _, name := range names {
		t.Add(name)
	}
	return t
}

// instructions returns the size of a pattern after compilation.
func instructions(pattern string) int {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return len(pattern)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return len(pattern)
	}
	return len(program.Inst)
}

// tooCostly is the finding about a value whose validation would take too many steps.
var tooCostly = saga.Finding{Code: saga.CodeTooCostly, Detail: "checking this value by its schema takes too many steps: the alternatives (anyOf, oneOf) of a recursive schema multiply with each level, as do defaults of the items of defaults; " +
	"send smaller or flatter data, or give alternatives that hold each other different types"}

// tooLarge is the finding about a value that breaks its schema and is so large that the list of its
// errors would fill the memory.
var tooLarge = saga.Finding{Code: "schema", Detail: "the value breaks its schema, and is too large to say where"}
