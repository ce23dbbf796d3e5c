// Package idempotency derives the keys of outgoing requests, and compares incoming requests that
// have the same key.
package idempotency

import (
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Key derives a step's idempotency key: UUIDv5 (RFC 9562, section 5.5) in the namespace of the
// saga's id, for the name "<path>:<do|undo>:<generation>". All attempts of a step have the same
// key, and its compensation has another. Anyone who knows the saga's id can compute both.
func Key(saga uuid.UUID, path string, way journal.Way, generation int) string {
	return uuid.NewV5(saga, path+":"+string(way)+":"+strconv.Itoa(generation)).String()
}

// In says where a request carries its key.
type In string

// The places.
const (
	Header In = "header"
	Body   In = "body"  // a top-level field of a JSON object
	Query  In = "query" // a parameter of the URL
	None   In = "none"  // nowhere
)

// Placement says where a request carries its key, and under which name.
type Placement struct {
	In   In
	Name string
}

// DefaultPlacement is the header of the IETF httpapi draft, which the common payment APIs accept.
var DefaultPlacement = Placement{In: Header, Name: "Idempotency-Key"}

// DefaultWindow is how long a remote service is assumed to remember a key.
const DefaultWindow = 24 * time.Hour

// Expired reports whether now is after the window that began when the key was first sent. The
// remote service may then have forgotten the key.
func Expired(first, now time.Time, window time.Duration) bool {
	return !first.IsZero() && now.Sub(first) >= window
}
