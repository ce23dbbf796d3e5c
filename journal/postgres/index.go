package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

const headColumns = `SELECT id, definition, version, sha256, coalesce(start_key, ''), start_hash, coalesce(unique_value, ''), parent, retry_of, forked_from,
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, delete_at, coalesce(owner, ''), claims FROM sagas`

func scanHead(row pgx.CollectableRow) (journal.Head, error) {
	var h journal.Head
	var u, parent, retryOf, forkedFrom pgtype.UUID
	var created, wake, updated, ended, expires *int64
	var l, summary []byte
	err := row.Scan(&u, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, &parent, &retryOf, &forkedFrom,
		&created, &h.Status, &h.Reason, &l, &wake, &summary, &h.Seq, &updated, &ended, &expires, &h.Owner, &h.Claims)
	if err != nil {
		return h, err
	}
	h.ID, h.Parent, h.RetryOf, h.ForkedFrom = u.Bytes, parent.Bytes, retryOf.Bytes, forkedFrom.Bytes
	h.CreatedAt, h.WakeAt, h.UpdatedAt, h.EndedAt = fromMillis(created), fromMillis(wake), fromMillis(updated), fromMillis(ended)
	h.DeleteAt, h.Summary = fromMillis(expires), summary
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
		where = strings.Replace(where, "?", c.arg(arg), 1)
	}
	c.where = append(c.where, where)
}

// arg adds an argument and returns its place holder.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

// with is a WHERE of these conditions and others.
func (c *conditions) with(others ...string) string {
	if all := append(others, c.where...); len(all) > 0 {
		return " WHERE " + strings.Join(all, " AND ")
	}
	return ""
}

func (c *conditions) String() string { return c.with() }

// limit adds an argument.
func (c *conditions) limit(n int) string { return " LIMIT " + c.arg(limited(n)) }

// Sagas implements journal.Index.
func (s *Store) Sagas(ctx context.Context, f journal.Filter) ([]journal.Head, error) {
	f.Status = slices.Compact(slices.Sorted(slices.Values(f.Status)))
	if len(f.Labels) == 0 && (f.Definition == "" || len(f.Status) == 0) {
		return s.sagas(ctx, ordered, &f)
	}
	if f.Limit > 0 {
		out, err := s.sagas(ctx, recent, &f)
		if err != nil || len(out) == f.Limit {
			return out, err
		}
	}
	return s.sagas(ctx, found, &f)
}

func (s *Store) sagas(ctx context.Context, list func(*conditions, *journal.Filter) string, f *journal.Filter) ([]journal.Head, error) {
	c, err := narrowed(f)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	rows, err := s.pool.Query(ctx, list(c, f), c.args...)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	out, err := collect(rows, scanHead)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	return out, nil
}

// narrowed are the conditions that all lists are narrowed by in the same way.
func narrowed(f *journal.Filter) (*conditions, error) {
	c := &conditions{}
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
	if f.Text != "" {
		c.text(clean(f.Text))
	}
	return c, nil
}

// ordered lists by the index that has the order and the statuses or the definition. The planner takes what it looks for to be spread
// evenly, and would look through all sagas by their ids for what only old ones have: so the order is by the other column, too.
func ordered(c *conditions, f *journal.Filter) string {
	column, values := "status", f.Status
	switch {
	case f.Definition != "":
		column, values = "definition", []string{f.Definition}
	case len(f.Status) == 0:
		c.before(f)
		return headColumns + c.String() + ` ORDER BY id DESC` + c.limit(f.Limit)
	}
	limit := c.limit(f.Limit)
	walks := make([]string, len(values))
	for i, value := range values {
		v := c.arg(value)
		from := column + ` BETWEEN ` + v + ` AND ` + v
		if !f.Before.IsNil() {
			from = column + ` >= ` + v + ` AND (` + column + `, id) < (` + v + `, ` + c.arg(id(f.Before)) + `)`
		}
		walks[i] = headColumns + c.with(from) + ` ORDER BY ` + column + ` DESC, id DESC` + limit
	}
	if len(walks) == 1 {
		return walks[0]
	}
	return `SELECT * FROM ((` + strings.Join(walks, `) UNION ALL (`) + `)) s ORDER BY id DESC` + limit
}

// near is how many sagas recent looks at.
const near = 10_000

// recent lists what there is among the next sagas of all: a full page, if what is looked for is common and must not all be sorted.
func recent(c *conditions, f *journal.Filter) string {
	c.equal(f)
	before := ""
	if !f.Before.IsNil() {
		before = ` WHERE id < ` + c.arg(id(f.Before))
	}
	return `WITH sagas AS (SELECT * FROM sagas` + before + ` ORDER BY id DESC LIMIT ` + strconv.Itoa(near) + `) ` +
		headColumns + c.String() + ` ORDER BY id DESC` + c.limit(f.Limit)
}

// found lists after all ids are found, whatever indexes they are found by.
func found(c *conditions, f *journal.Filter) string {
	c.equal(f)
	c.before(f)
	return `WITH found AS MATERIALIZED (SELECT id FROM sagas` + c.String() + `) ` +
		headColumns + ` WHERE id IN (SELECT id FROM found ORDER BY id DESC` + c.limit(f.Limit) + `) ORDER BY id DESC`
}

func (c *conditions) equal(f *journal.Filter) {
	if f.Definition != "" {
		c.and(`definition = ?`, f.Definition)
	}
	if len(f.Status) > 0 {
		c.and(`status = ANY(?)`, f.Status)
	}
}

func (c *conditions) before(f *journal.Filter) {
	if !f.Before.IsNil() {
		c.and(`id < ?`, id(f.Before))
	}
}

// text looks at each saga, so it is to be quick with those that have nothing of it.
func (c *conditions) text(text string) {
	like := literal.Replace(text)
	part := c.arg("%" + like + "%")
	where := `definition ILIKE ` + part + ` OR reason ILIKE ` + part
	if lo, hi, ok := journal.IDRange(text); ok {
		where += ` OR id BETWEEN ` + c.arg(id(lo)) + ` AND ` + c.arg(id(hi))
	}
	where += ` OR `
	if journal.Plain(text) {
		where += `labels::text ILIKE ` + part + ` AND `
	}
	c.where = append(c.where, `(`+where+`EXISTS (SELECT 1 FROM jsonb_each_text(labels) l WHERE l.value ILIKE `+part+`))`)
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
		return remove(ctx, t, []pgtype.UUID{id(saga)})
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", saga, err)
	}
	return nil
}

var expired = sql(`SELECT id FROM sagas WHERE delete_at <= {now} AND ended_at IS NOT NULL ORDER BY delete_at LIMIT $1 FOR UPDATE SKIP LOCKED`)

// DeleteExpired implements journal.Index.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (n int, err error) {
	err = s.tx(ctx, func(t pgx.Tx) error {
		rows, err := t.Query(ctx, expired, max(limit, 0))
		if err != nil {
			return err
		}
		sagas, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
		if n = len(sagas); err != nil || n == 0 {
			return err
		}
		return remove(ctx, t, sagas)
	})
	if err != nil {
		return 0, fmt.Errorf("delete expired: %w", err)
	}
	return n, nil
}

// remove deletes sagas, whose rows are locked, with all that is their own.
func remove(ctx context.Context, t pgx.Tx, sagas []pgtype.UUID) error {
	b := &pgx.Batch{}
	for _, q := range []string{`DELETE FROM journal WHERE saga_id = ANY($1)`, `DELETE FROM mail WHERE saga_id = ANY($1)`,
		`DELETE FROM inbox WHERE saga_id = ANY($1)`, `DELETE FROM tasks WHERE saga_id = ANY($1)`, `DELETE FROM stalls WHERE saga_id = ANY($1)`, `DELETE FROM sagas WHERE id = ANY($1)`} {
		b.Queue(q, sagas)
	}
	return t.SendBatch(ctx, b).Close()
}

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	out := journal.Stats{ByStatus: map[string]int64{}, ByDefinition: map[string]int64{}, Inbox: map[string]int64{}, Oldest: map[string]time.Time{}, Stalled: map[string]int64{}}
	b := &pgx.Batch{}
	b.Queue(`SELECT status, count(*) FROM sagas GROUP BY status`).Query(counts(out.ByStatus))
	b.Queue(live).Query(func(rows pgx.Rows) error {
		var status, definition string
		var n, at *int64
		_, err := pgx.ForEachRow(rows, []any{&status, &definition, &n, &at}, func() error {
			out.ByDefinition[definition] += *n
			if first, had := out.Oldest[status]; at != nil && (!had || toTime(*at).Before(first)) {
				out.Oldest[status] = toTime(*at)
			}
			return nil
		})
		return err
	})
	b.Queue(`SELECT kind, count(*) FROM inbox GROUP BY kind`).Query(counts(out.Inbox))
	b.Queue(stalled).Query(counts(out.Stalled))
	var since, due *int64
	first := `(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND `
	b.Queue(sql(`SELECT (SELECT min(since) FROM inbox), LEAST(` + first + unsuspected + `), ` + first + suspected + `)), (SELECT count(*) FROM sagas WHERE ` + quarantined + `)`)).
		QueryRow(func(r pgx.Row) error { return r.Scan(&since, &due, &out.Quarantined) })
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", gone(err))
	}
	out.OldestInbox, out.OldestDue = fromMillis(since), fromMillis(due)
	return out, nil
}

// live is all in one index.
const live = `SELECT status, definition, count(*), min(updated_at) FROM sagas WHERE ended_at IS NULL GROUP BY status, definition`

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
