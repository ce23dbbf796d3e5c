package journal

import (
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
