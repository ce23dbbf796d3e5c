// Package fail is the step kind that fails a saga on purpose.
package fail

import (
	"encoding/json"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "fail",
		Value:  json.RawMessage(`{"type": ["string", "number", "boolean"]}`),
		Doc:    "Fails with a message, which becomes the title of the reason; the code is `failed`. It stands in a switch, or has a `when`.",
		Fails:  dsl.ByDecision,
		Decode: decode,
	}
}

// Code is the error code of the failure.
const Code = "failed"

// maxTitle limits the message, which is shown in lists.
const maxTitle = 500

// Body is a fail step: its shape is [saga.Value], and it always returns a *saga.Failure.
type Body struct{ message *expr.Template }

var _ saga.Value = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	d.Gives(expr.Never())
	return &Body{message: d.Text(d.Own(), 0, dsl.Plain)}
}

// Eval returns the failure. If the message cannot be rendered, that error fails the step instead.
func (b *Body) Eval(env expr.Env) (json.RawMessage, error) {
	text, err := b.message.Text(env)
	if err != nil {
		return nil, err
	}
	if runes := []rune(text); len(runes) > maxTitle {
		text = string(runes[:maxTitle]) + "…"
	}
	return nil, &saga.Failure{Code: Code, Title: text}
}
