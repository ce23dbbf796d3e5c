package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Index is the reader's side of a store: rows, lists and counts. What it
// returns is derived and may lag a running saga by a step; the journal is the
// truth.
type Index interface {
	// Saga returns one saga's head, or ErrNotFound.
	Saga(ctx context.Context, id uuid.UUID) (Head, error)
	// SagaByKey returns the saga that was started with this idempotency key, or
	// ErrNotFound.
	SagaByKey(ctx context.Context, key string) (Head, error)
	// Sagas lists heads, newest first: in the falling order of their ids.
	Sagas(ctx context.Context, f Filter) (Listed, error)
	// Costs lists what sagas have cost, newest first: less of each than Sagas, for whoever goes
	// through many.
	Costs(ctx context.Context, f CostFilter) ([]Cost, error)
	// Inbox lists what waits for people, oldest first.
	Inbox(ctx context.Context, f InboxFilter) ([]Entry, error)
	// Delete removes a saga that has ended, with its journal. ErrNotFound if there
	// is none, ErrLive if it has not ended, ErrParentLive if its parent has not.
	//
	// A saga whose parent's row is there and has no EndedAt is never removed. So if a parent that
	// has not ended does not find its child, that child is not committed.
	Delete(ctx context.Context, id uuid.UUID) error
	// DeleteExpired removes, as Delete does, up to limit sagas that have ended and whose DeleteAt
	// has passed by the store's clock, and says how many. It passes over those whose parent has
	// not ended.
	DeleteExpired(ctx context.Context, limit int) (int, error)
	// Stats counts. A store of so many sagas that this takes long may answer with what it counted
	// before, see Stats.CountedAt.
	Stats(ctx context.Context) (Stats, error)
	// Nodes lists the leases there are, for operators.
	Nodes(ctx context.Context) ([]NodeInfo, error)
	// Orphans lists up to limit sagas that have records and no row, by id: there are none, unless
	// somebody has tampered with the database or restored half of it. It may read the whole
	// journal.
	Orphans(ctx context.Context, limit int) ([]uuid.UUID, error)
}

// Head is a saga as lists show it. Its Row's Inbox is nil: Index.Inbox has the entries. Its Row's
// Text is empty: it is there to be searched.
type Head struct {
	ID uuid.UUID
	Start
	Row
	Owner  string // the node that runs it, "" for none
	Claims int    // since it last made progress
}

// Quarantined reports whether the saga was given up on: its status is StatusStuck for that.
func (h Head) Quarantined() bool {
	return h.Claims >= QuarantineAfter && h.Status == StatusStuck && h.EndedAt.IsZero()
}

// Filter selects sagas; zero fields select all.
type Filter struct {
	Definition string
	Status     []string
	Labels     map[string]string // all of them equal
	Text       string            // found in Row.Text, as SearchText makes it: whatever its case
	From       uuid.UUID         // ids from this one on; see Started and Named
	Before     uuid.UUID         // ids before this one: the cursor, too. Nil: from the newest
	Limit      int               // 0: all
	// Look is how many sagas are looked at, unless an index has just what the filter selects: a
	// definition, a label, statuses, or all. 0: as many as it takes.
	MaxScanned int
}

// Listed is what a list has found.
type Listed struct {
	Heads []Head
	// Until is the oldest saga that was looked at, when Filter.Look has ended the list before it
	// was full, and older ones may be found: the list goes on Before it. Nil: there are no others,
	// or the list is full.
	ScannedTo uuid.UUID
}

// Entry is something that waits for a person.
type Entry struct {
	ID         uuid.UUID // made from saga, path, way and the seq it waits since, so the same at every derivation
	Saga       uuid.UUID
	Definition string
	Kind       string // approval, in_doubt, stuck, held, budget
	Path       string
	Since      time.Time
	Data       json.RawMessage // the rest of what the inbox shows
}

// InboxFilter selects entries.
type InboxFilter struct {
	Kind  string
	Saga  uuid.UUID
	After Entry // the cursor: entries after this one by (Since, ID). Zero: from the oldest
	Limit int
}

// Stats are counts over all sagas.
type Stats struct {
	ByStatus     map[string]int64
	ByDefinition map[string]int64 // live ones
	Inbox        map[string]int64 // by kind
	OldestInbox  time.Time        // zero: none
	OldestDue    time.Time        // of those claimable now; zero: none
	// Oldest is when the row was written of the live saga that has been longest in a status, by
	// status.
	Oldest      map[string]time.Time
	Quarantined int64 // see Head.Quarantined
	// OldestInboxByKind is since when the oldest inbox entry of a kind has waited.
	OldestInboxByKind map[string]time.Time
	Stalled           map[string]int64 // what Stalls.ListStalls lists, by kind
	CountedAt         time.Time        // when all but OldestInbox, OldestDue and Stalled was counted, by the store's clock
}

// NodeInfo is a node's lease as the store sees it.
type NodeInfo struct {
	Node      string
	ExpiresAt time.Time
	Sagas     int64
}
