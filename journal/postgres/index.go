package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

const headColumns = `SELECT id, definition, version, encode(sha256, 'hex'), coalesce(start_key, ''), start_hash, coalesce(unique_value, ''), coalesce(opener, ''), local IS NOT NULL, parent, retry_of, forked_from,
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, delete_at, coalesce(owner, ''), claims`

func scanHead(row pgx.CollectableRow) (journal.Head, error) {
	var h journal.Head
	var u, parent, retryOf, forkedFrom pgtype.UUID
	var created, wake, updated, ended, expires *int64
	var l, summary []byte
	err := row.Scan(&u, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, &h.Opener, &h.Local, &parent, &retryOf, &forkedFrom,
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

// Opened implements journal.Index.
func (s *Store) Opened(ctx context.Context, opener string, limit int) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM sagas WHERE opener = $1 AND ended_at IS NULL LIMIT $2) AS live`, clean(opener), limit).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the sagas of an opener: %w", err)
	}
	return n, nil
}

func (s *Store) head(ctx context.Context, where string, arg any) (journal.Head, error) {
	rows, err := s.pool.Query(ctx, headColumns+` FROM sagas WHERE `+where, arg)
	if err != nil {
		return journal.Head{}, err
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return h, err
}

// conditions collects the conditions of a list. A ? stands for the next argument.
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

// arg adds an argument and returns its placeholder.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *conditions) String() string {
	if len(c.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.where, " AND ")
}

// limit returns a LIMIT clause.
func (c *conditions) limit(n int) string { return " LIMIT " + c.arg(limited(n)) }

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

// parentLives says whether a saga's parent has not ended; NULL if the parent does not exist. As a
// scalar subquery it costs one index lookup and no join. It never changes from false to true, so it
// needs no lock.
const parentLives = `(SELECT p.ended_at IS NULL FROM sagas p WHERE p.id = sagas.parent)`

// originalExists says whether a saga goes on from a step of one that exists. Then it must stay: see
// journal.Index.DeleteExpired.
const originalExists = `(SELECT true FROM sagas o WHERE o.id = sagas.retry_of AND sagas.start_key LIKE '` + journal.RetryKeyPrefix + `%')`

// mayGo is the condition for the deletion of a saga whose retention has ended.
const mayGo = `ended_at IS NOT NULL AND ` + parentLives + ` IS NOT TRUE AND ` + originalExists + ` IS NOT TRUE`

// Delete implements journal.Index.
func (s *Store) Delete(ctx context.Context, saga uuid.UUID) error {
	err := s.rest.tx(ctx, func(t session) error {
		var live, parentLive bool
		err := t.QueryRow(ctx, `SELECT ended_at IS NULL, `+parentLives+` IS TRUE FROM sagas WHERE id = $1 FOR UPDATE`, id(saga)).Scan(&live, &parentLive)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return journal.ErrNotFound
		case err != nil:
			return err
		case live:
			return journal.ErrLive
		case parentLive:
			return journal.ErrParentLive
		}
		return remove(ctx, t, []pgtype.UUID{id(saga)}, nil)
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", saga, err)
	}
	return nil
}

var expired = sql(`SELECT id FROM sagas WHERE delete_at <= {now} AND ` + mayGo + ` ORDER BY delete_at LIMIT $1 FOR UPDATE SKIP LOCKED`)

// DeleteExpired implements journal.Index.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (n int, err error) {
	for more := true; more && err == nil; {
		removed := 0
		err = s.rest.tx(ctx, func(t session) error {
			removed, more = 0, false
			rows, err := t.Query(ctx, expired, max(limit-n, 0))
			if err != nil {
				return err
			}
			sagas, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
			if err != nil || len(sagas) == 0 {
				return err
			}
			blobs, err := countBlobs(ctx, t, sagas)
			if err != nil {
				return err
			}
			for bytes := int64(0); removed < len(sagas) && (removed == 0 || bytes < s.removeBytes); removed++ {
				bytes += blobs[sagas[removed].Bytes].bytes
			}
			more = removed < len(sagas)
			now, later := s.bySpan(sagas[:removed])
			return remove(ctx, t, now, later)
		})
		if err == nil {
			n += removed
		}
	}
	if err != nil {
		return n, fmt.Errorf("delete expired: %w", err)
	}
	return n, nil
}

const (
	// removeBytes is how many bytes of blobs a transaction removes, after which it removes no
	// further saga. That takes a second or two.
	removeBytes = 256 << 20
	// removeTimeout is for a single saga that has much more.
	removeTimeout = `SET LOCAL statement_timeout = '10min'`
)

// remove deletes sagas, whose rows are locked, and everything that belongs to them, except their
// events. The journals of later wait for Reclaim, by the spans that have them.
func remove(ctx context.Context, t session, now []pgtype.UUID, later map[*span][]pgtype.UUID) error {
	b := &pgx.Batch{}
	b.Queue(removeTimeout)
	if len(now) > 0 {
		b.Queue(planEach)
		b.Queue(`DELETE FROM journal WHERE saga_id = ANY($1)`, now)
	}
	all := now
	for p, sagas := range later {
		b.Queue(deferDelete, id(p.first), sagas)
		all = append(all, sagas...)
	}
	for _, q := range []string{`DELETE FROM messages WHERE saga_id = ANY($1)`,
		`DELETE FROM inbox WHERE saga_id = ANY($1)`, `DELETE FROM tasks WHERE saga_id = ANY($1)`, `DELETE FROM stalls WHERE saga_id = ANY($1)`,
		`DELETE FROM blobs WHERE saga_id = ANY($1)`, `DELETE FROM sagas WHERE id = ANY($1)`} {
		b.Queue(q, all)
	}
	return t.SendBatch(ctx, b).Close()
}
