package dsl

import (
	"encoding/json"
	"time"

	"recourse/saga"
)

// Kind is a kind of step: what its directory under saga/kinds contributes.
type Kind struct {
	// Name is the key that selects the kind: http.
	Name string
	// Keys are the kind's other keys. One that all steps have, too, is output, which the kind then
	// decodes itself, or one that otherwise only requests have: timeout.
	Keys []Key
	// OneOf says that of the step's lists of steps at most one runs.
	OneOf bool
	// Value is the JSON Schema of what stands beside Name, for editors.
	Value json.RawMessage
	// Doc is one paragraph for the reference and for editors.
	Doc string
	// Timeout is the default of `timeout`, of one attempt; 0: none.
	Timeout time.Duration
	// Sends says that a step of this kind may send a request, as actions, compensations and status
	// queries do.
	Sends bool
	// Fails says how a step of this kind may fail, which the warnings go by.
	Fails Failing
	// Output says whose words the step's output is, which the warnings go by, too.
	Output Origin
	// Decode compiles a step's own keys into its body. It reports what is wrong
	// through the decoder and may then return nil.
	Decode func(d *Decoder) saga.Body
}

// Key is one key of a kind.
type Key struct {
	Name   string
	Schema json.RawMessage // JSON Schema, for editors
}

// Failing is how a step may fail.
type Failing int

// The ways.
const (
	Computes   Failing = iota // only by a mistake in its expressions
	ByAccident                // the world may refuse
	ByDecision                // failing is what it is for
)

// Undoes is implemented by bodies that bring the compensation of their steps, unless the author
// writes one.
type Undoes interface{ Undo() *saga.Compensation }

// KeyCarrier is implemented by bodies that care where the idempotency key goes.
type KeyCarrier interface {
	// CarriesKey returns why the request cannot carry the key in this place, or nil.
	CarriesKey(in, name string) error
}

// Paid is implemented by calls whose price stands in the server's configuration: llm.
type Paid interface {
	// Currency is that of the prices; "" when there are none.
	Currency() string
	// Unpriced lists the constant names of what the step uses whose price is not known.
	Unpriced() []string
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
