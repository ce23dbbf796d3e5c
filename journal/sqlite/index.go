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
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, coalesce(owner, ''), claims`

func scanHead(scan func(...any) error) (journal.Head, error) {
	var h journal.Head
	var created, wake, updated, ended sql.NullInt64
	var l string
	var summary []byte
	err := scan(idInto{&h.ID}, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, idInto{&h.Parent}, idInto{&h.RetryOf},
		idInto{&h.ForkedFrom}, &created, &h.Status, &h.Reason, &l, &wake, &summary, &h.Seq, &updated, &ended, &h.Owner, &h.Claims)
	if err != nil {
		return h, err
	}
	h.CreatedAt, h.WakeAt, h.UpdatedAt, h.EndedAt = fromMillis(created), fromMillis(wake), fromMillis(updated), fromMillis(ended)
	h.Summary = summary
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
	c := filter(&f)
	rows, err := s.r.QueryContext(ctx, `SELECT `+headColumns+` FROM sagas`+c.String()+` ORDER BY id DESC LIMIT ?`, append(c.args, all(f.Limit))...)
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

func filter(f *journal.Filter) *conditions {
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
		c.and(`EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.key = ? AND l.value = ?)`, k, f.Labels[k])
	}
	if !f.StartedAfter.IsZero() {
		c.and(`created_at > ?`, f.StartedAfter.UnixMilli())
	}
	if !f.Before.IsNil() {
		c.and(`id < ?`, f.Before.Bytes())
	}
	if f.Text != "" {
		like := literal.Replace(f.Text)
		// The id is kept as bytes: its text is made here.
		c.and(`(definition LIKE ? ESCAPE '\' OR reason LIKE ? ESCAPE '\'
			OR lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) LIKE ? ESCAPE '\'
			OR EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.value LIKE ? ESCAPE '\'))`,
			"%"+like+"%", "%"+like+"%", like+"%", "%"+like+"%")
	}
	return c
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
		for _, q := range []string{`DELETE FROM journal WHERE saga_id = ?`, `DELETE FROM mail WHERE saga_id = ?`,
			`DELETE FROM inbox WHERE saga_id = ?`, `DELETE FROM sagas WHERE id = ?`} {
			if _, err := t.exec(q, saga.Bytes()); err != nil {
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
	var out journal.Stats
	var err error
	if out.ByStatus, err = s.counts(ctx, `SELECT status, count(*) FROM sagas GROUP BY status`); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	if out.ByDefinition, err = s.counts(ctx, `SELECT definition, count(*) FROM sagas WHERE ended_at IS NULL GROUP BY definition`); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	if out.Inbox, err = s.counts(ctx, `SELECT kind, count(*) FROM inbox GROUP BY kind`); err != nil {
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
	if out.Oldest, err = s.oldest(ctx, out.ByStatus); err != nil {
		return out, fmt.Errorf("stats: %w", err)
	}
	return out, nil
}

// oldest looks into an index once for each status.
func (s *Store) oldest(ctx context.Context, statuses map[string]int64) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for status := range statuses {
		var at sql.NullInt64
		if err := s.r.QueryRowContext(ctx, `SELECT min(updated_at) FROM sagas WHERE status = ? AND ended_at IS NULL`, status).Scan(&at); err != nil {
			return nil, err
		}
		if at.Valid {
			out[status] = toTime(at.Int64)
		}
	}
	return out, nil
}

func (s *Store) counts(ctx context.Context, query string) (map[string]int64, error) {
	rows, err := s.r.QueryContext(ctx, query)
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
