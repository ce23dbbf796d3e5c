package journal

import (
	"encoding/json"
	"time"
)

// Kind is the kind of a record.
type Kind string

// The kinds of record. The names are part of the public contract.
const (
	Started      Kind = "started"      // the saga exists: definition, input, vars
	Intent       Kind = "intent"       // a request is about to be sent, or a wait begins
	Outcome      Kind = "outcome"      // how an attempt ended
	Skipped      Kind = "skipped"      // a step's `when` was false
	Decided      Kind = "decided"      // a branch was chosen
	Woke         Kind = "woke"         // a due time was reached
	Signalled    Kind = "signalled"    // a signal arrived
	Compensating Kind = "compensating" // compensation begins; its data is the plan
	Operator     Kind = "operator"     // a command that no other kind covers
	Paused       Kind = "paused"
	Resumed      Kind = "resumed"
	Cancelled    Kind = "cancelled"
	Attached     Kind = "attached"  // of a session: its agent's process begins a life
	Called       Kind = "called"    // of a session: its agent asks for an action, which adds a step
	Committed    Kind = "committed" // of a session: its agent has ended its work
	Finished     Kind = "finished"  // the saga has ended: at most once, last
)

// Way tells forward attempts from compensations.
type Way string

// The two ways.
const (
	Do   Way = "do"
	Undo Way = "undo"
)

// Class says how an attempt ended.
type Class string

// The classes of outcome.
const (
	Succeeded Class = "succeeded"
	Refused   Class = "refused"   // surely no effect; a retry cannot succeed
	Transient Class = "transient" // surely no effect; a retry may succeed
	InDoubt   Class = "in_doubt"  // the effect may exist
	Held      Class = "held"      // credentials were refused; a person must fix them
)

// Record is one entry of a saga's journal. It never changes once it is committed.
type Record struct {
	Seq        int64     // 1, 2, 3 … without gaps
	At         time.Time // UTC, whole milliseconds, never earlier than the previous record's
	Kind       Kind
	Path       string          // the step, or "" for the saga itself
	Way        Way             // "" if Path is
	Attempt    int             // on intents and their outcomes: 1, 2 …
	Generation int             // rises only when a person asks for a retry with a new key
	Key        string          // on intents: the idempotency key of the request
	Class      Class           // on outcomes
	Node       string          // id of the node that wrote it
	Data       json.RawMessage // compact JSON, or nil
	Hash       []byte          // of the SHA-256 chain, see Seal

	Decoded *Decoded // see Remember; else nil
}
