package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/packed"
)

// beginsRows is how many sagas one statement reads: see snapshotRows.
const beginsRows = 32

// The seqs of the first records are known, because they start at 1.
var beginsQuery = `SELECT saga_id, ` + rowColumns + ` FROM journal WHERE saga_id IN (?` + strings.Repeat(`, ?`, beginsRows-1) + `) AND seq <= ? ORDER BY saga_id, seq`

// Begins implements journal.Log.
func (s *Store) Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]journal.Record, error) {
	out := make(map[uuid.UUID][]journal.Record, len(sagas))
	limit = min(max(limit, 0), math.MaxInt32)
	for some := range slices.Chunk(sagas, beginsRows) {
		rows, err := s.begins(ctx, some, limit, bytes)
		if err == nil {
			bytes, err = rows.Begins(out, limit, bytes, s.find(ctx))
		}
		if err != nil {
			return nil, fmt.Errorf("begins: %w", err)
		}
		if bytes < 0 {
			break
		}
	}
	return out, nil
}

func (s *Store) begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (*packed.Collection, error) {
	args := make([]any, beginsRows+1) // unused arguments stay NULL, which equals no id
	for i, id := range sagas {
		args[i] = id.Bytes()
	}
	args[beginsRows] = limit
	rows, err := s.read(ctx, beginsQuery, args...)
	if err != nil {
		return nil, err
	}
	out := packed.NewCollection(bytes)
	err = walk(rows, func(scan func(...any) error) error {
		var saga uuid.UUID
		r, err := scanRow(scan, idInto{&saga})
		if err == nil && !out.Add(saga, r) {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return out, err
}

// errEnough ends the query when the rows have as many bytes as allowed.
var errEnough = errors.New("enough")
