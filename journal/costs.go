package journal

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Cost is what a saga's row keeps of what it has cost, and what that can be grouped by.
type Cost struct {
	ID         uuid.UUID
	Definition string
	Labels     map[string]string
	Summary    json.RawMessage // Row's; nil for none
	CreatedAt  time.Time
	EndedAt    time.Time // zero while live
}

// CostFilter selects costs; zero fields select all.
type CostFilter struct {
	Definition string
	From       uuid.UUID // ids from this one on, see FirstID
	Before     uuid.UUID // the cursor, and the end of the range: ids before this one. Nil: from the newest
	Limit      int
}

// FirstID returns the least id that a saga can have that was started at a moment, or later: ids are UUIDv7 (RFC 9562), so they begin
// with the time in milliseconds. It is the nil UUID for times before 1970.
func FirstID(at time.Time) (id uuid.UUID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(at.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	return id
}
