package memory

import (
	"context"
	"errors"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Begins implements journal.Log. It calls Records for each saga, which costs no round trip here.
func (s *Store) Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]journal.Record, error) {
	out := make(map[uuid.UUID][]journal.Record, len(sagas))
	for _, id := range sagas {
		records, err := s.Records(ctx, id, 0, limit)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		for _, r := range records {
			bytes -= len(r.Data)
		}
		if bytes < 0 {
			break
		}
		if len(records) > 0 {
			out[id] = records
		}
	}
	return out, nil
}
