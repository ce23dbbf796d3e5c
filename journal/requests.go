package journal

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Requests stores the responses to clients' POST requests by idempotency key. It does not store
// those of starts, whose key is in Start.Key. The semantics are those of the IETF httpapi draft
// "The Idempotency-Key HTTP Header Field".
type Requests interface {
	// Begin reserves a key for a request with this fingerprint, for ttl, and returns fresh=true. If
	// the key is taken, it returns the stored reply and fresh=false; the caller compares
	// Fingerprint and checks Done. A reservation expires after ttl unless it is finished or
	// abandoned before. Errors: ErrUnknown.
	Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (r Reply, fresh bool, err error)
	// Finish stores the reply for the duration of keep. It does nothing if the reservation has
	// expired and a request with another fingerprint has the key. Errors: ErrUnknown.
	Finish(ctx context.Context, key string, r Reply, keep time.Duration) error
	// Abandon frees the key, because the request was invalid or had no effect. Errors: ErrUnknown.
	Abandon(ctx context.Context, key string) error
	// Sweep deletes up to limit expired replies and reservations, and returns how many. Errors:
	// ErrUnknown.
	Sweep(ctx context.Context, limit int) (int, error)
}

// Reply is the response to a request, or a reservation for it.
type Reply struct {
	Fingerprint string
	Done        bool // the fields below are set; false: the request is in progress
	Status      int
	Header      map[string]string
	Body        []byte
}

// Keys stores API keys. It has only hashes of their secrets.
type Keys interface {
	// AddKey stores a key. Its id must be new. Errors: ErrUnknown.
	AddKey(ctx context.Context, k APIKey) error
	// Key returns the key with this hash. Errors: ErrNotFound.
	Key(ctx context.Context, hash string) (APIKey, error)
	// ListKeys lists all keys, the oldest first.
	ListKeys(ctx context.Context) ([]APIKey, error)
	// RevokeKey deletes a key. Errors: ErrNotFound, ErrUnknown.
	RevokeKey(ctx context.Context, id uuid.UUID) error
}

// APIKey is a key without its secret.
type APIKey struct {
	ID        uuid.UUID
	Name      string
	Role      string
	Hash      string // SHA-256 of the whole key, in hex
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	Binding   KeyBinding
}

// KeyBinding limits a key to some of the permissions of its role. The zero value does not limit it.
type KeyBinding struct {
	Sources []string `json:"sources,omitempty"` // the key may send events of these CloudEvents sources
	// Signals are patterns of the signals that the key may send: each is a definition, a slash and
	// a signal.
	Signals []string `json:"signals,omitempty"`
	// Agent is the grant of a key of the role agent; nil: it has no limits of its own.
	Agent *AgentGrant `json:"agent,omitempty"`
}

// AgentGrant limits the sessions that a key opens. An empty list allows all.
type AgentGrant struct {
	Actions  []string `json:"actions,omitempty"`  // refund, or refund@3 for one version
	Sessions []string `json:"sessions,omitempty"` // patterns of names, as path.Match has them
	Models   []string `json:"models,omitempty"`   // patterns of models, as path.Match has them
	Budget   string   `json:"budget,omitempty"`   // the most that a session may spend, such as "5.00 USD"; "": no limit
}

// Names reports whether the grant allows sessions with this name.
func (g *AgentGrant) Names(name string) bool {
	return len(g.Sessions) == 0 || MatchesAny(g.Sessions, name)
}

// MatchesAny reports whether one of the patterns, which are those of path.Match, matches a name.
func MatchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// Asks reports whether the grant allows a model, or all that a pattern of models matches. It allows
// a pattern only if it has the same one, because a pattern may match more than one of the grant's.
func (g *AgentGrant) Asks(model string) bool {
	if len(g.Models) == 0 || slices.Contains(g.Models, model) {
		return true
	}
	return !strings.ContainsAny(model, `*?[\`) && MatchesAny(g.Models, model)
}

// Calls reports whether the grant allows a version of an action.
func (g *AgentGrant) Calls(action string, version int) bool {
	return len(g.Actions) == 0 || slices.Contains(g.Actions, action) || slices.Contains(g.Actions, action+"@"+strconv.Itoa(version))
}

// Version returns the newest version of an action that the grant names; 0 if it allows every
// version or none.
func (g *AgentGrant) Version(action string) (newest int) {
	for _, ref := range g.Actions {
		name, version, versioned := strings.Cut(ref, "@")
		switch {
		case name != action:
		case !versioned:
			return 0
		default:
			n, _ := strconv.Atoi(version) // it was checked when the key was made
			newest = max(newest, n)
		}
	}
	return newest
}

// Narrows reports whether the binding limits its key.
func (b KeyBinding) Narrows() bool { return len(b.Sources)+len(b.Signals) > 0 }

// Store has all ports.
type Store interface { //nolint:interfacebloat // it combines the ports, each of which is small
	Log
	Local
	Blobs
	Index
	Retention
	Catalog
	Requests
	Keys
	Tasks
	Outbox
	Schedules
	Stalls
	// Ping returns nil if the store responds and accepts writes.
	Ping(ctx context.Context) error
	// Hints returns a channel that receives a value when there may be new messages, claimable sagas
	// or tasks for this process. A hint may be lost, so callers must also poll. The channel is
	// never closed.
	Hints() <-chan struct{}
	// Close releases connections and locks. Calls in flight fail.
	Close() error
}
