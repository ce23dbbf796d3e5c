// Package use is the step kind that performs a registered action.
package use

import (
	"encoding/json"

	"recourse/saga"
	"recourse/saga/dsl"
)

// Kind describes the kind. Its steps get the kind, and the body, of the action that they use.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:  "use",
		Keys:  []dsl.Key{{Name: "with", Schema: json.RawMessage(`true`)}},
		Value: json.RawMessage(`{"type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}(@[1-9][0-9]{0,8})?$"}`),
		Doc: "Performs a registered action: its request, and the keys that it sets, with what `with` gives as its input. " +
			"Without a version (`refund@3`) it is the newest one when the definition is published, and stays that one.",
		Sends:  true,
		Decode: decode,
	}
}

func decode(d *dsl.Decoder) saga.Body { return d.Use(d.Own(), d.Get("with")) }
