package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Index is the readers' port: rows, lists and counts. Its results are derived from the journals; a
// row may be one step behind its running saga, because it is written when the status changes.
type Index interface {
	// Saga returns one saga's head. Errors: ErrNotFound.
	Saga(ctx context.Context, id uuid.UUID) (Head, error)
	// SagaByKey returns the saga that was started with this idempotency key. Errors: ErrNotFound.
	SagaByKey(ctx context.Context, key string) (Head, error)
	// Sagas lists heads in descending order of their ids: the newest first.
	Sagas(ctx context.Context, f Filter) (Listed, error)
	// Opened counts the live sagas with this Start.Opener, which is not empty, up to limit.
	Opened(ctx context.Context, opener string, limit int) (int, error)
	// Costs lists the costs of sagas in descending order of their ids. It reads less of each saga
	// than Sagas does, so that a caller can sum up many.
	Costs(ctx context.Context, f CostFilter) ([]Cost, error)
	// Inbox lists the items that need a person, the oldest first.
	Inbox(ctx context.Context, f InboxFilter) ([]Entry, error)
	// Delete removes an ended saga, its journal, and everything else that belongs to it except its
	// events. Errors: ErrNotFound, ErrLive, ErrParentLive, ErrUnknown.
	//
	// A saga is never removed while its parent's row exists and has no EndedAt. Therefore, if a
	// live parent does not find its child, the child was not committed.
	Delete(ctx context.Context, id uuid.UUID) error
	// DeleteExpired removes, as Delete does, up to limit ended sagas whose DeleteAt has passed by
	// the store's clock, and returns how many. It skips sagas whose parent has not ended, and a
	// saga that goes on from a step of one that exists: without it, that one could be retried from
	// a step a second time. It uses several transactions if one would take long. If one fails, it
	// returns its error, and how many the transactions before it have removed. Errors: ErrUnknown.
	DeleteExpired(ctx context.Context, limit int) (int, error)
	// Stats counts sagas and inbox entries. If counting takes long, a store may return earlier
	// counts: see Stats.CountedAt.
	Stats(ctx context.Context) (Stats, error)
	// Nodes lists the registered nodes with their leases.
	Nodes(ctx context.Context) ([]NodeInfo, error)
	// Orphans lists up to limit sagas that have records but no row, in the order of their ids.
	// There are none unless the database was tampered with or partly restored: deleted
	// sagas whose journals wait for Reclaim do not count. Orphans may read all
	// journals.
	Orphans(ctx context.Context, limit int) ([]uuid.UUID, error)
}

// Head is a saga as lists show it. The Inbox of its Row is nil, because Index.Inbox returns the
// entries, and the Text is empty, because it is only searched.
type Head struct {
	ID uuid.UUID
	Start
	Row
	Owner  string // the node that runs it; "" for none
	Claims int    // claims since it last made progress
}

// Quarantined reports whether the saga is in quarantine. A status of StatusStuck alone does not
// mean that: a saga also has it when a step needs a person.
func (h Head) Quarantined() bool {
	return h.Claims >= QuarantineAfter && h.Status == StatusStuck && h.EndedAt.IsZero()
}

// Filter selects sagas. A zero field does not narrow the selection.
type Filter struct {
	Definition string
	Status     []string
	Labels     map[string]string // the saga has all of them
	Text       string            // occurs in Row.Text, regardless of case: see SearchText
	From       uuid.UUID         // least id; see Started and Named
	Before     uuid.UUID         // ids less than this one; also the cursor. Nil: from the newest
	Limit      int               // 0: all
	// MaxScanned limits how many sagas the store examines, unless the filter is Indexed. 0: no
	// limit.
	MaxScanned int
}

// Listed is the result of Index.Sagas.
type Listed struct {
	Heads []Head
	// ScannedTo is the oldest saga that was examined, if Filter.MaxScanned ended the list before it
	// was full. To continue the list, set Filter.Before to it. Nil: the list is full, or there are
	// no further sagas.
	ScannedTo uuid.UUID
}

// Entry is an inbox entry: an item that needs a person.
type Entry struct {
	ID         uuid.UUID // derived from the saga, path, way and the seq since which it waits, so it is always the same
	Saga       uuid.UUID
	Definition string
	Kind       string // approval, in_doubt, stuck, held, budget
	Path       string
	Since      time.Time
	Data       json.RawMessage // the other fields that the inbox shows
}

// InboxFilter selects entries. A zero field does not narrow the selection.
type InboxFilter struct {
	Kind  string
	Saga  uuid.UUID
	After Entry // the cursor: entries after this one by (Since, ID). Zero: from the oldest
	Limit int
}

// Stats are counts of all sagas.
type Stats struct {
	ByStatus     map[string]int64
	ByDefinition map[string]int64 // live sagas
	Inbox        map[string]int64 // by kind
	OldestInbox  time.Time        // Since of the oldest entry; zero: none
	OldestDue    time.Time        // the earliest WakeAt of the sagas that can be claimed now; zero: none
	// Oldest is, by status, the UpdatedAt of the live saga whose row is the oldest.
	Oldest      map[string]time.Time
	Quarantined int64 // see Head.Quarantined
	// OldestInboxByKind is, by kind, the Since of the oldest inbox entry.
	OldestInboxByKind map[string]time.Time
	Stalled           map[string]int64 // the stalls that Stalls.ListStalls lists, by kind
	// CountedAt is when everything except OldestInbox, OldestDue and Stalled was counted, by the
	// store's clock.
	CountedAt time.Time
}

// NodeInfo is a registered node.
type NodeInfo struct {
	Node      string
	ExpiresAt time.Time
	Sagas     int64
}
