// Package journal holds the append-only record of every saga and the ports to
// whatever keeps it.
//
// A saga is its journal: a dense sequence of records, chained by hash, starting
// with `started` and ending with at most one `finished`. Everything else that a
// store holds about a saga (its row, its inbox entries) is derived from the
// journal and can be made again from it.
//
// The ports are small and split by reader: [Log] is what the engine writes
// through, [Index] what lists and lookups read, [Catalog] the published
// definitions, [Requests] the replies kept for clients' idempotency keys, [Keys] the
// API keys, [Tasks] what outside workers do, [Outbox] what others are to be told, and
// [Schedules] when cron triggers have fired. [Store] is all of them; journaltest is
// the suite that every store passes.
package journal

import (
	"encoding/json"
	"time"
)

// Kind says what a record records.
type Kind string

// The kinds of record. The names are part of the public contract.
const (
	Started      Kind = "started"      // the saga exists: definition, input, vars
	Intent       Kind = "intent"       // a request is about to leave, or a wait begins
	Outcome      Kind = "outcome"      // what an attempt ended as
	Skipped      Kind = "skipped"      // a step's `when` was false
	Decided      Kind = "decided"      // a branch was chosen
	Woke         Kind = "woke"         // a due time was reached
	Signalled    Kind = "signalled"    // a signal arrived
	Compensating Kind = "compensating" // undoing begins; its data is the frozen plan
	Operator     Kind = "operator"     // a person changed something
	Paused       Kind = "paused"
	Resumed      Kind = "resumed"
	Cancelled    Kind = "cancelled"
	Finished     Kind = "finished" // terminal: once, last
)

// Way tells forward work from its undoing.
type Way string

// The two ways.
const (
	Do   Way = "do"
	Undo Way = "undo"
)

// Class is what an attempt ended as.
type Class string

// The classes of outcome.
const (
	Succeeded Class = "succeeded"
	Refused   Class = "refused"   // surely no effect, and no use in retrying
	Transient Class = "transient" // surely no effect, worth a retry
	InDoubt   Class = "in_doubt"  // an effect may exist
	Held      Class = "held"      // credentials were refused; a person must mend them
)

// Record is one entry of a saga's journal. A record never changes once it is
// committed.
type Record struct {
	Seq        int64           // 1, 2, 3 … without gaps
	At         time.Time       // UTC, whole milliseconds, never before the record ahead of it
	Kind       Kind            //
	Path       string          // the step, or "" for the saga itself
	Way        Way             // set where Path is a step
	Attempt    int             // 1, 2 … on intents and their outcomes
	Generation int             // rises only by an operator's retry-as-new
	Key        string          // the idempotency key sent, on intents
	Class      Class           // on outcomes
	Node       string          // who wrote it: the node's id
	Data       json.RawMessage // compact JSON, or nil
	Hash       []byte          // SHA-256 chain, see Seal
}
