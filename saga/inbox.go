package saga

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// The kinds of inbox entries.
const (
	InboxApproval  = "approval"
	InboxInDoubt   = "in_doubt"
	InboxStuck     = "stuck"
	InboxHeld      = "held"
	InboxBudget    = "budget"
	InboxExhausted = "exhausted" // a step with on_error: hold has used up its attempts, or its budget
	InboxSession   = "session"   // of a session: no process of its agent came back
	InboxRepeat    = "repeat"    // of a session: a call may repeat one of an earlier life
)

// InboxKinds lists them.
var InboxKinds = []string{InboxApproval, InboxInDoubt, InboxStuck, InboxHeld, InboxBudget, InboxExhausted, InboxSession, InboxRepeat}

// Entry is an inbox entry: an item that needs a person.
type Entry struct {
	ID      uuid.UUID   `json:"-"` // derived from saga, path, way and the seq since which it waits
	Kind    string      `json:"-"`
	Path    string      `json:"-"`
	Since   time.Time   `json:"-"`
	Way     journal.Way `json:"way"`
	Title   string      `json:"title"`
	Detail  string      `json:"detail,omitempty"`
	Request *Request    `json:"request,omitempty"` // the last request that was sent
	Key     string      `json:"key,omitempty"`
	SentAt  *Time       `json:"sent_at,omitempty"`
	Actions []string    `json:"actions"`
	// For an approval: what to decide, who may decide, until when, and the schema of the data that
	// comes with the decision.
	Shown     json.RawMessage `json:"shown,omitempty"`
	Covers    []Covered       `json:"covers,omitempty"`
	Stale     *Stale          `json:"stale,omitempty"`
	ShownHash string          `json:"shown_hash,omitempty"`
	Approvers []string        `json:"approvers,omitempty"`
	Form      json.RawMessage `json:"form,omitempty"`
	ExpiresAt *Time           `json:"expires_at,omitempty"` // nil: no limit
	ETag      string          `json:"etag"`
}

// Data returns the part of the entry that stores keep as bytes.
func (e Entry) Data() json.RawMessage { return Encode(e) }
