package journal

import (
	"context"
	"errors"

	"github.com/gofrs/uuid/v5"
)

// BeginsOf is Log.Begins for a store to which a call of Records costs no round trip.
func BeginsOf(ctx context.Context, l interface {
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]Record, error)
}, sagas []uuid.UUID, limit int) (map[uuid.UUID][]Record, error) {
	out := make(map[uuid.UUID][]Record, len(sagas))
	for _, id := range sagas {
		records, err := l.Records(ctx, id, 0, limit)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if len(records) > 0 {
			out[id] = records
		}
	}
	return out, nil
}
