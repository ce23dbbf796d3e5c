// Package repeat is the step kind that runs a list of steps until a condition is true.
package repeat

import (
	"encoding/json"
	"fmt"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// MaxIterations is the largest allowed `max`.
const MaxIterations = 10_000

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "repeat",
		Output: dsl.Made,
		Value: json.RawMessage(fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["max"],
			"properties": {"until": {"$ref": "#/$defs/condition"}, "max": {"type": "integer", "minimum": 1, "maximum": %d}}}`, MaxIterations)),
		Keys: []dsl.Key{
			{Name: "steps", Schema: json.RawMessage(`{"$ref": "#/$defs/steps"}`)},
			{Name: "output", Schema: json.RawMessage(`true`)},
		},
		Doc: "Runs `steps` again and again: until `until` holds, which is evaluated after each iteration and sees its steps, or `max` times. Templates inside see `index`, from 0, and `history`, the list of the " +
			"outputs of the iterations so far. `output` is what an iteration gives, by default the output of its last step; the step's output is the list of these. " +
			"If `until` does not hold after `max` iterations, the step fails with `max_reached`; without `until` it ends well.",
		Decode: decode,
	}
}

// Body is a repeat step: its shape is [saga.Block].
type Body struct{ loop saga.Loop }

var _ saga.Block = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	b := &Body{saga.Loop{History: true}}
	in := d.Loop(map[string]*expr.Type{"history": expr.Exactly(expr.KindList)})
	if n := d.Get("steps"); n != nil {
		b.loop.Steps = in.Body(n)
	} else {
		d.Fail(own, "missing_key", "repeat needs steps: what is done again and again")
	}
	if n := d.Get("output"); n != nil {
		b.loop.Output = in.Template(n, dsl.Plain)
		d.Gives(expr.Items(b.loop.Output.Type()))
	} else {
		d.Gives(expr.Items(d.OutputOf(b.loop.Steps)))
	}
	if whole := d.Known(own, "repeat", "until", "max"); own.Form != dsl.Map || !whole {
		return b
	}
	if n := own.Get("until"); n != nil {
		b.loop.Until = in.Condition(n, dsl.Plain)
	}
	if n := own.Get("max"); n != nil {
		count, _ := d.Int(n, 1, MaxIterations)
		b.loop.Count = int(count)
	} else {
		d.Fail(own, "missing_key", "repeat needs max: how often its steps may run")
	}
	return b
}

// Fails implements dsl.Fallible: `max` may be reached before `until` is true.
func (b *Body) Fails() dsl.Failing {
	if b.loop.Until == nil {
		return dsl.Computes
	}
	return dsl.ByAccident
}

// Enter implements saga.Block: there is nothing to decide in advance.
func (b *Body) Enter(expr.Env) (saga.Entered, error) { return saga.Entered{}, nil }

// Layout implements saga.Block.
func (b *Body) Layout(saga.Entered) (saga.Layout, error) {
	return saga.Layout{Loop: &b.loop, Limit: 1}, nil
}

// Lists implements saga.Block.
func (b *Body) Lists() [][]*saga.Step { return [][]*saga.Step{b.loop.Steps} }

// Loops implements saga.Block.
func (b *Body) Loops() bool { return true }
