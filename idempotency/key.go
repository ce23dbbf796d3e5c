// Package idempotency makes the keys that go out with requests, and compares the
// requests that come in with one.
package idempotency

import (
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Key derives a step's idempotency key: UUIDv5 (RFC 9562, section 5.5) in the
// namespace of the saga's id, over the name "<path>:<do|undo>:<generation>".
// Every attempt of a step has the same key, its compensation another, and
// anyone who knows the saga's id can compute both.
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

// Placement is where a request carries its key, and under which name.
type Placement struct {
	In   In
	Name string
}

// DefaultPlacement is the header of the IETF httpapi draft, which the common payment APIs take.
var DefaultPlacement = Placement{In: Header, Name: "Idempotency-Key"}

// DefaultWindow is how long the other side is taken to remember a key.
const DefaultWindow = 24 * time.Hour

// Expired reports whether a resend at now is past the window that began when the
// key was first sent, so that the other side may have forgotten it.
func Expired(first, now time.Time, window time.Duration) bool {
	return !first.IsZero() && now.Sub(first) >= window
}
