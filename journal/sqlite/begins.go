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

// beginsRows is how many sagas one statement asks for: see snapshotRows.
const beginsRows = 32

// Records are numbered from 1 on, so the first ones are known by their seq.
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
			return nil, fmt.Errorf("first records: %w", err)
		}
	}
	return out, nil
}

// errEnough ends the reading of first records when they are as many bytes as may be.
var errEnough = errors.New("enough")

func (s *Store) begins(ctx context.Context, sagas []uuid.UUID, limit int, bytes *int, out map[uuid.UUID][]journal.Record) error {
	args := make([]any, beginsRows+1) // a place that is not taken stays NULL, which no id is
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
