// Package sleep is the step kind that waits for a time.
package sleep

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "sleep",
		Value:  json.RawMessage(`{"type": "string", "minLength": 1}`),
		Doc:    "Waits for a duration (`5m`, counted from the record before it in the journal) or until a timestamp (RFC 3339). The saga uses no memory meanwhile. The output is null.",
		Decode: decode,
	}
}

// Body is a sleep step: its shape is [saga.Wait].
type Body struct{ until *expr.Template }

var _ saga.Wait = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	n := d.Own()
	until := d.Text(n, 0, dsl.Plain)
	if until == nil {
		return nil
	}
	if until.IsConst() && !strings.Contains(n.Text(), "${") {
		if _, err := due(n.Text(), time.Time{}); err != nil {
			d.Fail(n, "bad_duration", "%s", err)
		}
	}
	if kinds, _ := until.Type().Kinds(); kinds&expr.KindString == 0 && !d.Stored() {
		d.Fail(n, expr.CodeWrongType, "sleep takes text such as 5m, or a timestamp, not %s: write the unit after it, as in ${…}s", kinds)
	}
	d.Gives(expr.Exactly(expr.KindNull))
	return &Body{until: until}
}

// Due returns when the wait ends. A timestamp in the past is due at once.
func (b *Body) Due(env expr.Env, from time.Time) (time.Time, error) {
	text, err := b.until.Text(env)
	if err != nil {
		return time.Time{}, err
	}
	if expr.IsPartial(env) && expr.HasPlaceholder(text) {
		return time.Time{}, expr.ErrUnknown
	}
	at, err := due(text, from)
	if err != nil {
		return time.Time{}, &saga.Failure{Code: "bad_duration", Title: "the time to sleep cannot be read", Detail: err.Error()}
	}
	return at, nil
}

func due(text string, from time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		limit := from.Add(dsl.MaxDuration)
		if !from.IsZero() && at.After(limit) {
			return time.Time{}, fmt.Errorf("the timestamp is more than ten years ahead: write a nearer one")
		}
		if at.UTC().Year() < 0 { // only an offset can cause this, and the value is not parsed again
			return from, nil
		}
		return at, nil
	}
	d, err := dsl.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w; or a timestamp such as 2030-01-31T09:00:00Z", err)
	}
	return from.Add(d), nil
}
