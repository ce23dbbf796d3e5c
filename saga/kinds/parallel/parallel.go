// Package parallel is the step kind that runs several steps in parallel.
package parallel

import (
	"encoding/json"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "parallel",
		Output: dsl.Made,
		Value:  json.RawMessage(`{"$ref": "#/$defs/steps"}`),
		Doc: "Runs its steps in parallel. They cannot read each other's outputs. When one fails, the others' attempts in flight end, nothing new begins, " +
			"and the step fails. The output is a map of the steps' outputs by id.",
		Decode: decode,
	}
}

// Body is a parallel step: its shape is [saga.Block].
type Body struct{ steps [][]*saga.Step }

var _ saga.Block = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	if own.Form != dsl.List || len(own.Items) == 0 {
		d.Expect(own, "a list of at least one step")
		return nil
	}
	b, outputs := &Body{}, map[string]*expr.Type{}
	for _, item := range own.Items {
		if one := d.Parallel(item); one != nil {
			b.steps = append(b.steps, one)
			outputs[one[0].ID] = d.OutputOf(one)
		}
	}
	d.Gives(expr.Fields(outputs, nil))
	return b
}

// Enter implements saga.Block: there is nothing to decide.
func (b *Body) Enter(expr.Env) (saga.Entered, error) { return saga.Entered{}, nil }

// Layout implements saga.Block.
func (b *Body) Layout(saga.Entered) (saga.Layout, error) {
	return saga.Layout{Groups: b.steps, Named: true}, nil
}

// Lists implements saga.Block.
func (b *Body) Lists() [][]*saga.Step { return b.steps }

// Loops implements saga.Block.
func (b *Body) Loops() bool { return false }
