package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const headColumns = `id, definition, version, sha256, coalesce(start_key, ''), start_hash, coalesce(unique_value, ''), parent, retry_of, forked_from,
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, delete_at, coalesce(owner, ''), claims`

func scanHead(scan func(...any) error) (journal.Head, error) {
	var h journal.Head
	var created, wake, updated, ended, expires sql.NullInt64
	var l string
	var summary []byte
	err := scan(idInto{&h.ID}, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, idInto{&h.Parent}, idInto{&h.RetryOf},
		idInto{&h.ForkedFrom}, &created, &h.Status, &h.Reason, &l, &wake, &summary, &h.Seq, &updated, &ended, &expires, &h.Owner, &h.Claims)
	if err != nil {
		return h, err
	}
	h.CreatedAt, h.WakeAt, h.UpdatedAt, h.EndedAt = fromMillis(created), fromMillis(wake), fromMillis(updated), fromMillis(ended)
	h.DeleteAt, h.Summary = fromMillis(expires), summary
	h.Labels, err = fromLabels(l)
	return h, err
}

// Saga implements journal.Index.
func (s *Store) Saga(ctx context.Context, saga uuid.UUID) (journal.Head, error) {
	h, err := s.head(ctx, head+`id = ?`, saga.Bytes())
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga %s: %w", saga, err)
	}
	return h, nil
}

// SagaByKey implements journal.Index.
func (s *Store) SagaByKey(ctx context.Context, key string) (journal.Head, error) {
	h, err := s.head(ctx, head+`start_key = ?`, key)
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga by key: %w", err)
	}
	return h, nil
}

const head = `SELECT ` + headColumns + ` FROM sagas WHERE `

func (s *Store) head(ctx context.Context, query string, arg any) (journal.Head, error) {
	h, err := scanHead(s.row(ctx, query, arg))
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return h, err
}

// conditions collects what a list is filtered by.
type conditions struct {
	where []string
	args  []any
}

func (c *conditions) and(where string, args ...any) {
	c.where = append(c.where, where)
	c.args = append(c.args, args...)
}

func (c *conditions) String() string {
	if len(c.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.where, " AND ")
}

// all is SQLite's limit for no limit.
func all(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}

// Sagas implements journal.Index.
func (s *Store) Sagas(ctx context.Context, f journal.Filter) ([]journal.Head, error) {
	query, args, err := list(&f)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	var out []journal.Head
	err = walk(rows, func(scan func(...any) error) error {
		h, err := scanHead(scan)
		out = append(out, h)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sagas: %w", err)
	}
	return out, nil
}

// list is the query for a list and its arguments.
func list(f *journal.Filter) (string, []any, error) {
	if f.Definition != "" && len(f.Status) == 1 && len(f.Labels) == 0 && f.StartedAfter.IsZero() && f.Text == "" {
		query, args := both(f)
		return query, args, nil
	}
	c := &conditions{}
	if f.Definition != "" {
		c.and(`definition = ?`, f.Definition)
	}
	if len(f.Status) > 0 {
		marks := strings.Repeat(", ?", len(f.Status))[2:]
		args := make([]any, len(f.Status))
		for i, st := range f.Status {
			args[i] = st
		}
		c.and(`status IN (`+marks+`)`, args...)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		l, err := labels(map[string]string{k: f.Labels[k]})
		if err != nil {
			return "", nil, err
		}
		// The first is quick, and may find it within another key that has quotes.
		c.and(`instr(labels, ?) AND EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.key = ? AND l.value = ?)`, l[1:len(l)-1], k, f.Labels[k])
	}
	if !f.StartedAfter.IsZero() {
		c.and(`created_at > ?`, f.StartedAfter.UnixMilli())
	}
	c.before(f)
	if f.Text != "" {
		c.text(f.Text)
	}
	return `SELECT ` + headColumns + ` FROM sagas` + c.String() + ` ORDER BY id DESC LIMIT ?`, append(c.args, all(f.Limit)), nil
}

// both lists the sagas of a status and a definition: two indexes are gone through side by side, so that
// sagas that are only one of the two are not looked at.
func both(f *journal.Filter) (string, []any) {
	defined, standing := &conditions{}, &conditions{}
	defined.and(`definition = ?`, f.Definition)
	defined.before(f)
	standing.and(`status = ?`, f.Status[0])
	standing.before(f)
	return `SELECT ` + headColumns + ` FROM sagas WHERE id IN (SELECT id FROM sagas` + defined.String() + ` INTERSECT SELECT id FROM sagas` + standing.String() +
		` ORDER BY id DESC LIMIT ?) ORDER BY id DESC`, append(append(defined.args, standing.args...), all(f.Limit))
}

func (c *conditions) before(f *journal.Filter) {
	if !f.Before.IsNil() {
		c.and(`id < ?`, f.Before.Bytes())
	}
}

// text looks at each saga, so it is to be quick with those that have nothing of it.
func (c *conditions) text(text string) {
	like := "%" + literal.Replace(text) + "%"
	where, args := `definition LIKE ? ESCAPE '\' OR reason LIKE ? ESCAPE '\' OR `, []any{like, like}
	if lo, hi, ok := journal.IDRange(text); ok {
		where, args = where+`id BETWEEN ? AND ? OR `, append(args, lo.Bytes(), hi.Bytes())
	}
	if journal.Plain(text) {
		where, args = where+`labels LIKE ? ESCAPE '\' AND `, append(args, like)
	}
	c.and(`(`+where+`EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.value LIKE ? ESCAPE '\'))`, append(args, like)...)
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
		c.and(`i.saga_id = ?`, f.Saga.Bytes())
	}
	if !f.After.ID.IsNil() {
		c.and(`(i.since, i.id) > (?, ?)`, f.After.Since.UnixMilli(), f.After.ID.Bytes())
	}
	rows, err := s.r.QueryContext(ctx, `SELECT i.id, i.saga_id, s.definition, i.kind, i.path, i.since, i.data
		FROM inbox i JOIN sagas s ON s.id = i.saga_id`+c.String()+` ORDER BY i.since, i.id LIMIT ?`, append(c.args, all(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	var out []journal.Entry
	err = walk(rows, func(scan func(...any) error) error {
		var e journal.Entry
		var since int64
		var data []byte
		err := scan(idInto{&e.ID}, idInto{&e.Saga}, &e.Definition, &e.Kind, &e.Path, &since, &data)
		e.Since, e.Data = toTime(since), data
		out = append(out, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return out, nil
}

// Delete implements journal.Index.
func (s *Store) Delete(ctx context.Context, saga uuid.UUID) error {
	err := s.w.do(ctx, func(t *tx) error {
		var live bool
		err := t.row(`SELECT ended_at IS NULL FROM sagas WHERE id = ?`, []any{saga.Bytes()}, &live)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return journal.ErrNotFound
		case err != nil:
			return err
		case live:
			return journal.ErrLive
		}
		return t.remove(saga)
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", saga, err)
	}
	return nil
}

const expired = `SELECT id FROM sagas WHERE delete_at <= ? AND ended_at IS NOT NULL ORDER BY delete_at LIMIT +?`

// DeleteExpired implements journal.Index.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (int, error) {
	var gone []uuid.UUID
	err := s.w.do(ctx, func(t *tx) error {
		err := t.query(expired, []any{s.clock(), max(limit, 0)}, func(scan func(...any) error) error {
			var saga uuid.UUID
			err := scan(idInto{&saga})
			gone = append(gone, saga)
			return err
		})
		for _, saga := range gone {
			if err == nil {
				err = t.remove(saga)
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete expired: %w", err)
	}
	return len(gone), nil
}

// remove deletes a saga with all that is its own.
func (t *tx) remove(saga uuid.UUID) error {
	for _, q := range []string{`DELETE FROM journal WHERE saga_id = ?`, `DELETE FROM mail WHERE saga_id = ?`,
		`DELETE FROM inbox WHERE saga_id = ?`, `DELETE FROM tasks WHERE saga_id = ?`, `DELETE FROM stalls WHERE saga_id = ?`, `DELETE FROM sagas WHERE id = ?`} {
		if _, err := t.exec(q, saga.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	var out journal.Stats
	var err error
	if out.ByStatus, err = s.counts(ctx, `SELECT status, count(*) FROM sagas GROUP BY status`); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	if out.ByDefinition, out.Oldest, err = s.live(ctx); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	if out.Inbox, err = s.counts(ctx, `SELECT kind, count(*) FROM inbox GROUP BY kind`); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	if out.Stalled, err = s.counts(ctx, stalled, s.clock()); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	var since, due, suspected sql.NullInt64
	first := `(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= ?1 AND `
	err = s.r.QueryRowContext(ctx, `SELECT (SELECT min(since) FROM inbox), `+first+unsuspected+`), `+first+suspect+`), (SELECT count(*) FROM sagas WHERE `+quarantined+`)`,
		s.clock()).Scan(&since, &due, &suspected, &out.Quarantined)
	if err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	out.OldestInbox, out.OldestDue = fromMillis(since), fromMillis(due)
	if at := fromMillis(suspected); out.OldestDue.IsZero() || !at.IsZero() && at.Before(out.OldestDue) {
		out.OldestDue = at
	}
	return out, nil
}

// live is all in one index.
const live = `SELECT status, definition, count(*), min(updated_at) FROM sagas WHERE ended_at IS NULL GROUP BY status, definition`

// live counts the live sagas by definition, and finds the oldest by status.
func (s *Store) live(ctx context.Context) (byDefinition map[string]int64, oldest map[string]time.Time, err error) {
	rows, err := s.r.QueryContext(ctx, live)
	if err != nil {
		return nil, nil, err
	}
	byDefinition, oldest = map[string]int64{}, map[string]time.Time{}
	err = walk(rows, func(scan func(...any) error) error {
		var status, definition string
		var n int64
		var first sql.NullInt64
		err := scan(&status, &definition, &n, &first)
		byDefinition[definition] += n
		if at, had := oldest[status]; first.Valid && (!had || toTime(first.Int64).Before(at)) {
			oldest[status] = toTime(first.Int64)
		}
		return err
	})
	return byDefinition, oldest, err
}

func (s *Store) counts(ctx context.Context, query string, args ...any) (map[string]int64, error) {
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	err = walk(rows, func(scan func(...any) error) error {
		var k string
		var n int64
		err := scan(&k, &n)
		out[k] = n
		return err
	})
	return out, err
}
