// Package switchkind is the step kind that runs one of several lists of steps: switch.
package switchkind

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "switch",
		Output: dsl.Made,
		Value: json.RawMessage(`{"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": false, "required": ["steps"],
			"properties": {"when": {"$ref": "#/$defs/condition"}, "steps": {"$ref": "#/$defs/steps"}}}}`),
		Doc:    "Runs the first branch whose `when` holds; the last branch may omit `when`. The output is that of the branch's last step, null when no branch is taken.",
		OneOf:  true,
		Decode: decode,
	}
}

// Body is a switch step: its shape is [saga.Block].
type Body struct{ branches []branch }

type branch struct {
	when  *expr.Program // nil: always
	steps []*saga.Step
}

var _ saga.Block = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	if own.Form != dsl.List || len(own.Items) == 0 {
		d.Expect(own, "a list of branches {when, steps}")
		return &Body{}
	}
	b, gives := &Body{}, expr.Exactly(expr.KindNull)
	d = d.Inside()
	ends := true // true as long as every branch ends
	for i, item := range own.Items {
		if whole := d.Known(item, "a branch", "when", "steps"); item.Form != dsl.Map || !whole && item.Get("steps") == nil {
			continue
		}
		var one branch
		if n := item.Get("when"); n != nil {
			one.when = d.Condition(n, dsl.Plain)
		} else if i < len(own.Items)-1 {
			d.Fail(item, "missing_key", "only the last branch may omit when: those after it would never run")
		}
		if n := item.Get("steps"); n != nil {
			one.steps = d.Given(one.when).Steps(n)
			output := d.OutputOf(one.steps)
			gives = expr.Union(gives, output, true)
			if ends = ends && output == expr.Never(); ends {
				d.Ends(one.when)
			}
		} else {
			d.Fail(item, "missing_key", "a branch needs steps")
		}
		d.Exclude(one.when)
		b.branches = append(b.branches, one)
	}
	d.Gives(gives)
	return b
}

// Enter implements saga.Block: it chooses the first branch whose condition is true, -1 for none. In
// a plan the choice may be unknown. Items then lists the indexes of all possible branches, in
// order.
func (b *Body) Enter(env expr.Env) (saga.Entered, error) {
	at := -1
	var may []json.RawMessage
	for i, one := range b.branches {
		ok := one.when == nil
		if !ok {
			var err error
			if ok, err = one.when.Bool(env); expr.IsPartial(env) && errors.Is(err, expr.ErrUnknown) {
				may = append(may, json.RawMessage(strconv.Itoa(i)))
				continue
			}
			if err != nil {
				return saga.Entered{}, err
			}
		}
		if ok {
			at = i
			break
		}
	}
	if may == nil {
		return saga.Entered{Branch: &at}, nil
	}
	if at >= 0 {
		may = append(may, json.RawMessage(strconv.Itoa(at)))
	}
	return saga.Entered{Items: may, Vague: "one of these branches at most"}, nil
}

// Condition implements saga.Chooser.
func (b *Body) Condition(branch int) string {
	if when := b.branches[branch].when; when != nil {
		return strings.TrimSpace(when.Source())
	}
	return "none of the branches before"
}

// Layout implements saga.Block.
func (b *Body) Layout(e saga.Entered) (saga.Layout, error) {
	if e.Branch == nil && len(e.Items) > 0 {
		return b.candidates(e.Items)
	}
	switch {
	case e.Branch == nil || *e.Branch < -1 || *e.Branch >= len(b.branches):
		return saga.Layout{}, errors.New("the switch has no such branch")
	case *e.Branch == -1:
		return saga.Layout{}, nil
	}
	return saga.Layout{Groups: [][]*saga.Step{b.branches[*e.Branch].steps}}, nil
}

// candidates returns the possible branches of a plan, one after another.
func (b *Body) candidates(places []json.RawMessage) (saga.Layout, error) {
	layout := saga.Layout{Limit: 1}
	for _, place := range places {
		i, err := strconv.Atoi(string(place))
		if err != nil || i < 0 || i >= len(b.branches) {
			return saga.Layout{}, errors.New("the switch has no such branch")
		}
		layout.Groups = append(layout.Groups, b.branches[i].steps)
	}
	return layout, nil
}

// Lists implements saga.Block.
func (b *Body) Lists() [][]*saga.Step {
	out := make([][]*saga.Step, len(b.branches))
	for i, one := range b.branches {
		out[i] = one.steps
	}
	return out
}

// Loops implements saga.Block.
func (b *Body) Loops() bool { return false }
