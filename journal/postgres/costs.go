package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// Costs implements journal.Index.
func (s *Store) Costs(ctx context.Context, f journal.CostFilter) ([]journal.Cost, error) {
	c := &conditions{}
	rows, err := s.pool.Query(ctx, costs(c, &f), c.args...)
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (journal.Cost, error) {
		var k journal.Cost
		var u pgtype.UUID
		var l, summary []byte
		var created, ended *int64
		err := row.Scan(&u, &k.Definition, &l, &summary, &created, &ended)
		if err != nil {
			return k, err
		}
		k.ID, k.Summary, k.CreatedAt, k.EndedAt = u.Bytes, summary, fromMillis(created), fromMillis(ended)
		k.Labels, err = fromLabels(l)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	return out, nil
}

const costColumns = `SELECT id, definition, labels, summary, created_at, ended_at FROM `

// costs uses the primary key, or the definition's index, and therefore sorts by the columns of that
// index. To the sagas of a definition that no node owns it adds those that one owns.
func costs(c *conditions, f *journal.CostFilter) string {
	if f.Definition == "" {
		c.within(f)
		return costColumns + `sagas` + c.String() + ` ORDER BY id DESC` + c.limit(f.Limit)
	}
	c.and(`owner IS NULL AND definition BETWEEN ? AND ?`, f.Definition, f.Definition)
	if !f.From.IsNil() {
		c.and(`(definition, id) >= (?, ?)`, f.Definition, id(f.From))
	}
	if !f.Before.IsNil() {
		c.and(`(definition, id) < (?, ?)`, f.Definition, id(f.Before))
	}
	limit := c.limit(f.Limit)
	owned := &conditions{args: c.args}
	owned.and(`definition = ?`, f.Definition)
	owned.within(f)
	c.args = owned.args
	return `SELECT * FROM ((` + costColumns + `sagas` + c.String() + ` ORDER BY definition DESC, id DESC` + limit + `) UNION ALL (` +
		costColumns + ownedSagas + owned.String() + ` ORDER BY id DESC` + limit + `)) s ORDER BY id DESC` + limit
}

// within adds the filter's range of ids.
func (c *conditions) within(f *journal.CostFilter) {
	if !f.From.IsNil() {
		c.and(`id >= ?`, id(f.From))
	}
	if !f.Before.IsNil() {
		c.and(`id < ?`, id(f.Before))
	}
}
