package machine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// outline is what a plan knows in addition to its records. Unknown values are placeholders (see
// [expr.Partial]). It is nil for a real saga.
type outline struct {
	when  map[string]string // by path: the `when` of a step that may be true
	vague map[string]string // by path: a text about which steps of a block run, or how often
}

// codeUnknown is the failure of a planned step that needs an unknown value.
const codeUnknown = "unknown"

// maybe reports whether a planned step may not run.
func (o *outline) maybe(n *node) bool { return o != nil && len(o.conditions(n)) > 0 }

// conditions lists the conditions of a step whose results are unknown, the outermost first.
func (o *outline) conditions(n *node) []string {
	var list []string
	if owner := n.in.owner; owner != nil {
		list = o.conditions(owner)
		if choice, ok := owner.step.Body.(saga.Chooser); ok && o.vague[owner.path] != "" {
			var branch int
			if json.Unmarshal(owner.block.Items[n.in.index], &branch) == nil {
				list = append(list, choice.Condition(branch))
			}
		}
	}
	if when := o.when[n.path]; when != "" {
		list = append(list, when)
	}
	return list
}

// BeginPlan is [Begin] for a plan. Required fields that the input does not have, and unknown vars,
// are placeholders. Findings report values that are present and wrong.
func BeginPlan(def *saga.Definition, o StartOptions) (saga.StartedData, []saga.Finding) {
	input, wrong := outlineInput(def, o.Input)
	o.Vars = maps.Clone(o.Vars)
	if o.Vars == nil {
		o.Vars = make(map[string]json.RawMessage)
	}
	for _, name := range def.VarsUsed {
		own := slices.ContainsFunc(def.Vars, func(v saga.Var) bool { return v.Name == name })
		if _, ok := o.Vars[name]; !ok && !own {
			o.Vars[name] = placeholder("vars." + name)
		}
	}
	d, more := begun(def, o, input)
	return d, append(wrong, more...)
}

// outlineInput returns the input of a plan, with a placeholder for each missing required field.
func outlineInput(def *saga.Definition, input json.RawMessage) (json.RawMessage, []saga.Finding) {
	if def.Input == nil {
		if len(input) == 0 {
			return placeholder("input"), nil
		}
		return input, nil
	}
	filled, wrong := applyInput(def, input)
	if len(wrong) == 0 {
		return filled, nil
	}
	v, err := expr.Decode(input)
	if err != nil && len(input) > 0 {
		return nil, wrong
	}
	if v == nil {
		v = map[string]any{}
	}
	if f, ok := def.Input.(saga.Filler); ok {
		filled, ok := f.Fill(v)
		if !ok {
			return placeholder("input"), wrong // that says so, or names a number that must be fixed first
		}
		v, _ = expr.Decode(saga.Encode(filled)) // a copy: placeholders must not get into the schema's defaults
	}
	var left []saga.Finding
	for _, f := range wrong {
		if f.Code != codeRequired || !put(v, strings.Split(strings.TrimPrefix(f.Pointer, "/input/"), "/"), "input") {
			left = append(left, f)
		}
	}
	return saga.Encode(v), left
}

// codeRequired is the code of a finding about a missing field.
const codeRequired = "required"

// put sets a placeholder at a JSON pointer's tokens; `at` is the name of v. It returns false if the
// place does not exist.
func put(v any, tokens []string, at string) bool {
	name := expr.TokenName(tokens[0])
	switch v := v.(type) {
	case map[string]any:
		if at += "." + name; len(tokens) == 1 {
			v[name] = expr.Placeholder(at)
			return true
		}
		return put(v[name], tokens[1:], at)
	case []any:
		for i, item := range v {
			if strconv.Itoa(i) == name && len(tokens) > 1 {
				return put(item, tokens[1:], at+"["+name+"]")
			}
		}
	}
	return false
}

// placeholder returns a placeholder as JSON.
func placeholder(name string) json.RawMessage { return saga.Encode(expr.Placeholder(name)) }
