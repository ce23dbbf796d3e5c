package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

const headColumns = `SELECT id, definition, version, sha256, coalesce(start_key, ''), start_hash, coalesce(unique_value, ''), parent, retry_of, forked_from,
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, coalesce(owner, ''), claims FROM sagas`

func scanHead(row pgx.CollectableRow) (journal.Head, error) {
	var h journal.Head
	var u, parent, retryOf, forkedFrom pgtype.UUID
	var created, wake, updated, ended *int64
	var l, summary []byte
	err := row.Scan(&u, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, &parent, &retryOf, &forkedFrom,
		&created, &h.Status, &h.Reason, &l, &wake, &summary, &h.Seq, &updated, &ended, &h.Owner, &h.Claims)
	if err != nil {
		return h, err
	}
	h.ID, h.Parent, h.RetryOf, h.ForkedFrom = u.Bytes, parent.Bytes, retryOf.Bytes, forkedFrom.Bytes
	h.CreatedAt, h.WakeAt, h.UpdatedAt, h.EndedAt = fromMillis(created), fromMillis(wake), fromMillis(updated), fromMillis(ended)
	h.Summary = summary
	h.Labels, err = fromLabels(l)
	return h, err
}

// Saga implements journal.Index.
func (s *Store) Saga(ctx context.Context, saga uuid.UUID) (journal.Head, error) {
	h, err := s.head(ctx, `id = $1`, id(saga))
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga %s: %w", saga, err)
	}
	return h, nil
}

// SagaByKey implements journal.Index.
func (s *Store) SagaByKey(ctx context.Context, key string) (journal.Head, error) {
	h, err := s.head(ctx, `start_key = $1`, clean(key))
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga by key: %w", err)
	}
	return h, nil
}

func (s *Store) head(ctx context.Context, where string, arg any) (journal.Head, error) {
	rows, err := s.pool.Query(ctx, headColumns+` WHERE `+where, arg)
	if err != nil {
		return journal.Head{}, err
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return h, err
}

// conditions collects what a list is filtered by. A ? stands for the next argument.
type conditions struct {
	where []string
	args  []any
}

func (c *conditions) and(where string, args ...any) {
	for _, arg := range args {
		c.args = append(c.args, arg)
		where = strings.Replace(where, "?", fmt.Sprintf("$%d", len(c.args)), 1)
	}
	c.where = append(c.where, where)
}

func (c *conditions) String() string {
	if len(c.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.where, " AND ")
}

// limit adds the last argument.
func (c *conditions) limit(n int) string {
	c.args = append(c.args, limited(n))
	return fmt.Sprintf(" LIMIT $%d", len(c.args))
}

// Sagas implements journal.Index.
func (s *Store) Sagas(ctx context.Context, f journal.Filter) ([]journal.Head, error) {
	c, err := filter(&f)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	query := headColumns + c.String() + ` ORDER BY id DESC` + c.limit(f.Limit)
	rows, err := s.pool.Query(ctx, query, c.args...)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	out, err := collect(rows, scanHead)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	return out, nil
}

func filter(f *journal.Filter) (*conditions, error) {
	c := &conditions{}
	if f.Definition != "" {
		c.and(`definition = ?`, f.Definition)
	}
	if len(f.Status) > 0 {
		c.and(`status = ANY(?)`, f.Status)
	}
	if len(f.Labels) > 0 {
		l, err := labels(f.Labels)
		if err != nil {
			return nil, err
		}
		c.and(`labels <> '{}' AND labels @> ?::text::jsonb`, l) // the first for the index, which has no others
	}
	if !f.StartedAfter.IsZero() {
		c.and(`created_at > ?`, f.StartedAfter.UnixMilli())
	}
	if !f.Before.IsNil() {
		c.and(`id < ?`, id(f.Before))
	}
	if f.Text != "" {
		like := literal.Replace(clean(f.Text))
		c.and(`(definition ILIKE ? OR reason ILIKE ? OR id::text ILIKE ?
			OR EXISTS (SELECT 1 FROM jsonb_each_text(labels) l WHERE l.value ILIKE ?))`, "%"+like+"%", "%"+like+"%", like+"%", "%"+like+"%")
	}
	return c, nil
}

// literal makes LIKE take a text as it is.
var literal = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Inbox implements journal.Index.
func (s *Store) Inbox(ctx context.Context, f journal.InboxFilter) ([]journal.Entry, error) {
	c := &conditions{}
	if f.Kind != "" {
		c.and(`i.kind = ?`, f.Kind)
	}
	if !f.Saga.IsNil() {
		c.and(`i.saga_id = ?`, id(f.Saga))
	}
	if !f.After.ID.IsNil() {
		c.and(`(i.since, i.id) > (?, ?)`, f.After.Since.UnixMilli(), id(f.After.ID))
	}
	query := `SELECT i.id, i.saga_id, s.definition, i.kind, i.path, i.since, i.data FROM inbox i JOIN sagas s ON s.id = i.saga_id` +
		c.String() + ` ORDER BY i.since, i.id` + c.limit(f.Limit)
	rows, err := s.pool.Query(ctx, query, c.args...)
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (journal.Entry, error) {
		var e journal.Entry
		var u, saga pgtype.UUID
		var since int64
		var data []byte
		err := row.Scan(&u, &saga, &e.Definition, &e.Kind, &e.Path, &since, &data)
		e.ID, e.Saga, e.Since, e.Data = u.Bytes, saga.Bytes, toTime(since), data
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return out, nil
}

// Delete implements journal.Index.
func (s *Store) Delete(ctx context.Context, saga uuid.UUID) error {
	err := s.tx(ctx, func(t pgx.Tx) error {
		var live bool
		err := t.QueryRow(ctx, `SELECT ended_at IS NULL FROM sagas WHERE id = $1 FOR UPDATE`, id(saga)).Scan(&live)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return journal.ErrNotFound
		case err != nil:
			return err
		case live:
			return journal.ErrLive
		}
		for _, q := range []string{`DELETE FROM journal WHERE saga_id = $1`, `DELETE FROM mail WHERE saga_id = $1`,
			`DELETE FROM inbox WHERE saga_id = $1`, `DELETE FROM sagas WHERE id = $1`} {
			if _, err := t.Exec(ctx, q, id(saga)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", saga, err)
	}
	return nil
}

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	out := journal.Stats{ByStatus: map[string]int64{}, ByDefinition: map[string]int64{}, Inbox: map[string]int64{}, Oldest: map[string]time.Time{}}
	b := &pgx.Batch{}
	b.Queue(`SELECT status, count(*) FROM sagas GROUP BY status`).Query(counts(out.ByStatus))
	b.Queue(`SELECT definition, count(*) FROM sagas WHERE ended_at IS NULL GROUP BY definition`).Query(counts(out.ByDefinition))
	b.Queue(`SELECT kind, count(*) FROM inbox GROUP BY kind`).Query(counts(out.Inbox))
	var since, due *int64
	first := `(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND `
	b.Queue(sql(`SELECT (SELECT min(since) FROM inbox), LEAST(` + first + unsuspected + `), ` + first + suspected + `)), (SELECT count(*) FROM sagas WHERE ` + quarantined + `)`)).
		QueryRow(func(r pgx.Row) error { return r.Scan(&since, &due, &out.Quarantined) })
	b.Queue(oldest).Query(func(rows pgx.Rows) error {
		var status string
		var at int64
		_, err := pgx.ForEachRow(rows, []any{&status, &at}, func() error {
			out.Oldest[status] = toTime(at)
			return nil
		})
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", gone(err))
	}
	out.OldestInbox, out.OldestDue = fromMillis(since), fromMillis(due)
	return out, nil
}

// oldest steps through an index from one status to the next, instead of reading all sagas.
const oldest = `WITH RECURSIVE live (status) AS (
		SELECT min(status) FROM sagas WHERE ended_at IS NULL
		UNION ALL
		SELECT (SELECT min(s.status) FROM sagas s WHERE s.ended_at IS NULL AND s.status > live.status) FROM live WHERE live.status IS NOT NULL
	), first AS (
		SELECT status, (SELECT min(s.updated_at) FROM sagas s WHERE s.ended_at IS NULL AND s.status = live.status) AS at FROM live
	) SELECT status, at FROM first WHERE at IS NOT NULL`

func counts(into map[string]int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var k string
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&k, &n}, func() error {
			into[k] = n
			return nil
		})
		return err
	}
}
