package sqlite

import (
	"context"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Begins implements journal.Log.
func (s *Store) Begins(ctx context.Context, sagas []uuid.UUID, limit int) (map[uuid.UUID][]journal.Record, error) {
	return journal.BeginsOf(ctx, s, sagas, limit)
}
