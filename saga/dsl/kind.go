package dsl

import (
	"encoding/json"
	"time"

	"recourse/saga"
	"recourse/saga/expr"
)

// Kind is a kind of step. Its package under saga/kinds provides it.
type Kind struct {
	// Name is the key that selects the kind: http.
	Name string
	// Keys are the kind's other keys. A kind may redefine output, which it then decodes itself, or
	// a key that otherwise only requests have, such as timeout.
	Keys []Key
	// OneOf says that at most one of the step's lists of steps runs.
	OneOf bool
	// Value is the JSON Schema of the value of the key Name, for editors.
	Value json.RawMessage
	// Doc is one paragraph for the reference and for editors.
	Doc string
	// Timeout is the default of `timeout` for one attempt; 0: none.
	Timeout time.Duration
	// Sends says that a step of this kind may send a request. Actions, compensations and status
	// checks must.
	Sends bool
	// Fails says how a step of this kind may fail, for the warnings.
	Fails Failing
	// Output says who determines the step's output, for the warnings.
	Output Origin
	// Decode compiles a step's own keys into its body. It reports errors through the decoder and
	// may then return nil.
	Decode func(d *Decoder) saga.Body
	// Ask is the step that a session's request to a language model becomes; nil for most kinds.
	Ask *saga.Step
}

// Key is one key of a kind.
type Key struct {
	Name   string
	Schema json.RawMessage // JSON Schema, for editors
}

// Failing says how a step may fail.
type Failing int

// The values of Failing.
const (
	Computes   Failing = iota // only by a mistake in its expressions
	ByAccident                // the remote service, for example, may refuse
	ByDecision                // it exists to fail
)

// Undoes is implemented by bodies that provide the compensation of their steps, unless the author
// writes one.
type Undoes interface{ Undo() *saga.Compensation }

// Resulting is implemented by bodies whose templates read `result` in another form than {status,
// headers, body}.
type Resulting interface {
	saga.Resulting
	// ResultType returns the type of `result`. schema is the type that `expect.schema` declares;
	// nil if there is none.
	ResultType(schema *expr.Type) *expr.Type
}

// KeyCarrier is implemented by bodies that restrict the place of the idempotency key.
type KeyCarrier interface {
	// CarriesKey returns why the request cannot carry the key in this place, or nil.
	CarriesKey(in, name string) error
}

// Paid is implemented by calls whose price is part of the server's configuration: llm.
type Paid interface {
	// Currency returns the currency of the prices; "" if there are none.
	Currency() string
	// Unpriced lists constant names that the step uses and whose price is not known.
	Unpriced() []string
}

// Asking is implemented by blocks with a step of their own that has the keys of the author's step:
// llm with tools. The keys that say something about a request are those of that step.
type Asking interface {
	saga.Block
	// Asks sets the keys of the block's own step to those of the author's.
	Asks(step *saga.Step)
}

// has reports whether the kind lists a key.
func (k Kind) has(name string) bool {
	for _, key := range k.Keys {
		if key.Name == name {
			return true
		}
	}
	return false
}
