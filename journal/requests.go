package journal

import (
	"context"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Requests keeps the replies to clients' POSTs by their idempotency key, other
// than starts (a start's key is its saga's). The semantics are those of the
// IETF httpapi draft "The Idempotency-Key HTTP Header Field".
type Requests interface {
	// Begin reserves key for fingerprint until ttl has passed. If the key is taken it
	// returns what is there with fresh=false: Done tells whether Reply holds, and
	// the caller compares Fingerprint. A reservation that was neither finished nor
	// abandoned lapses after ttl.
	Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (r Reply, fresh bool, err error)
	// Finish stores the reply, to be kept for keep. It does nothing if the reservation lapsed
	// and a request with another fingerprint has the key.
	Finish(ctx context.Context, key string, r Reply, keep time.Duration) error
	// Abandon gives the key back: the request was not valid, or did nothing.
	Abandon(ctx context.Context, key string) error
	// Sweep deletes what is past its time, up to limit, and says how many.
	Sweep(ctx context.Context, limit int) (int, error)
}

// Reply is what a request was answered.
type Reply struct {
	Fingerprint string
	Done        bool
	Status      int
	Header      map[string]string
	Body        []byte
}

// Keys keeps API keys; only their hashes.
type Keys interface {
	// AddKey stores a key's hash, with what it is bound to. The id is unique.
	AddKey(ctx context.Context, k APIKey) error
	// Key returns the key with this hash, or ErrNotFound.
	Key(ctx context.Context, hash string) (APIKey, error)
	// ListKeys lists them, oldest first.
	ListKeys(ctx context.Context) ([]APIKey, error)
	// RevokeKey deletes a key. ErrNotFound.
	RevokeKey(ctx context.Context, id uuid.UUID) error
}

// APIKey is a key without its secret.
type APIKey struct {
	ID        uuid.UUID
	Name      string
	Role      string
	Hash      string // hex SHA-256 of the whole key
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	Binding   KeyBinding
}

// KeyBinding narrows a key to some of what its role may do: one with a binding does nothing else.
type KeyBinding struct {
	Sources []string `json:"sources,omitempty"` // it posts events of these CloudEvents sources
	Signals []string `json:"signals,omitempty"` // it sends signals that these patterns match, each a definition, a slash and a signal
}

// Narrows reports whether there is a binding at all.
func (b KeyBinding) Narrows() bool { return len(b.Sources)+len(b.Signals) > 0 }

// Store is everything.
type Store interface {
	Log
	Index
	Catalog
	Requests
	Keys
	Tasks
	Outbox
	Schedules
	Stalls
	// Ping says whether the store answers and takes writes.
	Ping(ctx context.Context) error
	// Hints returns a channel that gets a value when mail, claimable sagas or tasks may have
	// come in for this process; only a hint over a poll. The channel is never closed.
	Hints() <-chan struct{}
	// Close gives up connections and locks. Calls under way fail.
	Close() error
}
