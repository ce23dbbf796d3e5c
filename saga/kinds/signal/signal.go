// Package signal is the step kind that waits for a message from outside.
package signal

import (
	"encoding/json"
	"regexp"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Name is the pattern of signals' names.
var Name = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,127}$`)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:  "signal",
		Value: json.RawMessage(`{"type": "string", "pattern": "` + Name.String() + `"}`),
		Keys:  []dsl.Key{{Name: "timeout", Schema: json.RawMessage(`{"$ref": "#/$defs/duration"}`)}},
		Doc: "Waits until the saga is sent a signal of this name; the output is the signal's payload. A signal that came before the step is kept for it, and each is used once, the oldest first. " +
			"Without `timeout` it waits forever; after it, the step fails with `signal_timeout`.",
		Fails:  dsl.ByAccident,
		Decode: decode,
	}
}

// Body is a signal step: its shapes are [saga.Await] and [saga.Receiver].
type Body struct{ name string }

var (
	_ saga.Await    = (*Body)(nil)
	_ saga.Receiver = (*Body)(nil)
)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	name, ok := d.Str(own, "the signal's name")
	if !ok {
		return nil
	}
	if !Name.MatchString(name) {
		d.Fail(own, "bad_name", "a signal's name is a small letter, then up to 127 small letters, digits, _, . or -; it is not a template")
		return nil
	}
	return &Body{name}
}

// Signal implements saga.Receiver.
func (b *Body) Signal() string { return b.name }

// Await implements saga.Await.
func (b *Body) Await(expr.Env) (saga.Awaited, error) { return saga.Awaited{Signal: b.name}, nil }

// Expired implements saga.Await.
func (b *Body) Expired(saga.Awaited, time.Time) (json.RawMessage, *saga.Failure) {
	return nil, &saga.Failure{Code: "signal_timeout", Title: "no signal " + b.name + " has come in time"}
}
