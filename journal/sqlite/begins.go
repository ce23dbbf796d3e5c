package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// beginsRows is how many sagas one statement reads: see snapshotRows.
const beginsRows = 32

// The seqs of the first records are known, because they start at 1.
var beginsQuery = `SELECT saga_id, ` + recordColumns + ` FROM journal WHERE saga_id IN (?` + strings.Repeat(`, ?`, beginsRows-1) + `) AND seq <= ? ORDER BY saga_id, seq`

// Begins implements journal.Log.
func (s *Store) Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]journal.Record, error) {
	out := make(map[uuid.UUID][]journal.Record, len(sagas))
	for some := range slices.Chunk(sagas, beginsRows) {
		err := s.begins(ctx, some, limit, &bytes, out)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("begins: %w", err)
		}
	}
	return out, nil
}

// errEnough ends the query when the records have as many bytes as allowed.
var errEnough = errors.New("enough")

func (s *Store) begins(ctx context.Context, sagas []uuid.UUID, limit int, bytes *int, out map[uuid.UUID][]journal.Record) error {
	args := make([]any, beginsRows+1) // unused arguments stay NULL, which equals no id
	for i, id := range sagas {
		args[i] = id.Bytes()
	}
	args[beginsRows] = max(limit, 0)
	rows, err := s.read(ctx, beginsQuery, args...)
	if err != nil {
		return err
	}
	var saga uuid.UUID
	var row recordRow
	dest := append([]any{idInto{&saga}}, row.dest()...)
	return walk(rows, func(scan func(...any) error) error {
		if err := scan(dest...); err != nil {
			return err
		}
		r := row.record()
		out[saga] = append(out[saga], r)
		if *bytes -= len(r.Data); *bytes < 0 {
			delete(out, saga)
			return errEnough
		}
		return nil
	})
}
