// Package set is the step kind that computes a value.
package set

import (
	"encoding/json"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "set",
		Output: dsl.Made,
		Value:  json.RawMessage(`true`),
		Doc:    "Computes a value from a template. Nothing is sent; the value is the step's output. It may call now(), uuid() and random(n).",
		Decode: decode,
	}
}

// Body is a set step: its shape is [saga.Value].
type Body struct{ value *expr.Template }

var _ saga.Value = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	b := &Body{value: d.Template(d.Own(), dsl.Journaled)}
	d.Gives(b.value.Type())
	return b
}

// Eval renders the value.
func (b *Body) Eval(env expr.Env) (json.RawMessage, error) { return b.value.JSON(env) }
