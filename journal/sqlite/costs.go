package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const (
	costs    = `SELECT id, definition, labels, summary, created_at, ended_at FROM `
	allCosts = costs + `sagas WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT +?3`
	ownCosts = `SELECT * FROM (
			SELECT * FROM (` + costs + `sagas WHERE owner IS NULL AND definition = ?4 AND id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT +?3)
			UNION ALL SELECT * FROM (` + costs + ownedSagas + ` WHERE definition = ?4 AND +id >= ?1 AND +id < ?2 ORDER BY id DESC LIMIT +?3)
		) ORDER BY id DESC LIMIT +?3`
	lastID = "ffffffff-ffff-ffff-ffff-ffffffffffff" // no saga has this id
)

// Costs implements journal.Index.
func (s *Store) Costs(ctx context.Context, f journal.CostFilter) ([]journal.Cost, error) {
	if f.Before.IsNil() {
		f.Before = uuid.FromStringOrNil(lastID)
	}
	query, args := allCosts, []any{f.From.Bytes(), f.Before.Bytes(), all(f.Limit)}
	if f.Definition != "" {
		query, args = ownCosts, append(args, f.Definition)
	}
	rows, err := s.read(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	var out []journal.Cost
	err = walk(rows, func(scan func(...any) error) error {
		var c journal.Cost
		var l string
		var summary []byte
		var created, ended sql.NullInt64
		err := scan(idInto{&c.ID}, &c.Definition, &l, &summary, &created, &ended)
		if err != nil {
			return err
		}
		c.Summary, c.CreatedAt, c.EndedAt = summary, fromMillis(created), fromMillis(ended)
		c.Labels, err = fromLabels(l)
		out = append(out, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	return out, nil
}
