package journal

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Cost has the cost of one saga and the fields by which costs are grouped.
type Cost struct {
	ID         uuid.UUID
	Definition string
	Labels     map[string]string
	Summary    json.RawMessage // Row.Summary; nil for none
	CreatedAt  time.Time
	EndedAt    time.Time // zero while live
}

// CostFilter selects costs. A zero field does not narrow the selection.
type CostFilter struct {
	Definition string
	From       uuid.UUID // least id, see FirstID
	Before     uuid.UUID // ids less than this one: the end of the range, and the cursor. Nil: from the newest
	Limit      int
}
