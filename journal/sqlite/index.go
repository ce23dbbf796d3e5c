package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const headColumns = `id, definition, version, lower(hex(sha256)), coalesce(start_key, ''), start_hash, coalesce(unique_value, ''), coalesce(opener, ''), local IS NOT NULL, parent, retry_of, forked_from,
	created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, delete_at, coalesce(owner, ''), claims`

func scanHead(scan func(...any) error) (journal.Head, error) {
	var h journal.Head
	var created, wake, updated, ended, expires sql.NullInt64
	var l string
	var summary []byte
	err := scan(idInto{&h.ID}, &h.Definition, &h.Version, &h.SHA256, &h.Key, &h.Hash, &h.Unique, &h.Opener, &h.Local, idInto{&h.Parent}, idInto{&h.RetryOf},
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

// Opened implements journal.Index.
func (s *Store) Opened(ctx context.Context, opener string, limit int) (n int, err error) {
	err = s.row(ctx, `SELECT count(*) FROM (SELECT 1 FROM sagas WHERE opener = ? AND ended_at IS NULL LIMIT ?)`, opener, limit)(&n)
	if err != nil {
		return 0, fmt.Errorf("count the sagas of an opener: %w", err)
	}
	return n, nil
}

const head = `SELECT ` + headColumns + ` FROM sagas WHERE `

func (s *Store) head(ctx context.Context, query string, arg any) (journal.Head, error) {
	h, err := scanHead(s.row(ctx, query, arg))
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return h, err
}

// conditions collects the conditions of a list.
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

// all returns the limit for SQLite, which uses -1 for no limit.
func all(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}

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

// parentLives says whether a saga's parent has not ended; NULL if the parent does not exist. As a
// scalar subquery it costs one index lookup and no join. It never changes from false to true, so it
// needs no lock.
const parentLives = `(SELECT p.ended_at IS NULL FROM sagas p WHERE p.id = sagas.parent)`

// originalExists says whether a saga goes on from a step of one that exists. Then it must stay: see
// journal.Index.DeleteExpired.
const originalExists = `(SELECT true FROM sagas o WHERE o.id = sagas.retry_of AND sagas.start_key GLOB '` + journal.RetryKeyPrefix + `*')`

// mayGo is the condition for the deletion of a saga whose retention has ended.
const mayGo = `ended_at IS NOT NULL AND ` + parentLives + ` IS NOT TRUE AND ` + originalExists + ` IS NOT TRUE`

// Delete implements journal.Index.
func (s *Store) Delete(ctx context.Context, saga uuid.UUID) error {
	err := s.w.do(ctx, func(t *tx) error {
		var live, parentLive bool
		err := t.row(`SELECT ended_at IS NULL, `+parentLives+` IS TRUE FROM sagas WHERE id = ?`, []any{saga.Bytes()}, &live, &parentLive)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return journal.ErrNotFound
		case err != nil:
			return err
		case live:
			return journal.ErrLive
		case parentLive:
			return journal.ErrParentLive
		}
		return t.leaving(func() error { return t.remove(saga) })
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", saga, err)
	}
	return nil
}

const expired = `SELECT id FROM sagas WHERE delete_at <= ? AND ` + mayGo + ` ORDER BY delete_at LIMIT +?`

// stillExpired is the condition of expired for one saga, which may have lost its delete_at
// meanwhile.
const stillExpired = `SELECT coalesce(delete_at <= ?, false) AND ` + mayGo + ` FROM sagas WHERE id = ?`

// DeleteExpired implements journal.Index. It searches on a reading connection, because many expired
// sagas may have to stay, and other transactions would wait until it has read them.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (int, error) {
	now := s.clock()
	rows, err := s.read(ctx, expired, now, max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("delete expired: %w", err)
	}
	var found []removal
	err = walk(rows, func(scan func(...any) error) error {
		var saga uuid.UUID
		err := scan(idInto{&saga})
		found = append(found, removal{saga, stillExpired, []any{now, saga.Bytes()}})
		return err
	})
	var removed []uuid.UUID
	if err == nil {
		removed, err = s.removeAll(ctx, found)
	}
	if err != nil {
		return len(removed), fmt.Errorf("delete expired: %w", err)
	}
	return len(removed), nil
}

// removal is a saga to remove, and a query that says whether it may be removed.
type removal struct {
	saga uuid.UUID
	may  string
	args []any
}

// removeAll removes the sagas that exist and may be removed, in several transactions if one would
// take long. It returns those that it has removed, also if it fails.
func (s *Store) removeAll(ctx context.Context, list []removal) (removed []uuid.UUID, err error) {
	for len(list) > 0 && err == nil {
		var left []removal
		var now []uuid.UUID
		err = s.removing(ctx, func(t *tx, full func() bool) error {
			return t.leaving(func() (err error) {
				now, left, err = t.removeFirst(list, full)
				return err
			})
		})
		if err == nil {
			list, removed = left, append(removed, now...)
		}
	}
	return removed, err
}

// removeFirst removes the first of the sagas, until full returns true. It returns those that it has
// removed, and those that it has not looked at.
func (t *tx) removeFirst(list []removal, full func() bool) (removed []uuid.UUID, left []removal, err error) {
	for i, r := range list {
		var may bool
		if err := t.row(r.may, r.args, &may); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, err
		}
		if !may {
			continue
		}
		if err := t.remove(r.saga); err != nil {
			return nil, nil, err
		}
		if removed = append(removed, r.saga); full() {
			return removed, list[i+1:], nil
		}
	}
	return removed, nil, nil
}

// removeFor is how long a transaction removes sagas, before the others have their turns.
const removeFor = 100 * time.Millisecond

// removing runs a transaction that removes sagas, one after another until full returns true. It is
// not rolled back if ctx ends meanwhile: otherwise a saga that takes longer to remove than callers
// wait would never be removed.
func (s *Store) removing(ctx context.Context, f func(t *tx, full func() bool) error) error {
	return s.w.do(ctx, func(t *tx) error {
		t.keep = true
		began := time.Now()
		return f(t, func() bool { return time.Since(began) >= s.removeFor })
	})
}

// remove deletes a saga and everything that belongs to it, except its events.
func (t *tx) remove(saga uuid.UUID) error {
	for _, q := range []string{`DELETE FROM journal WHERE saga_id = ?`, `DELETE FROM messages WHERE saga_id = ?`,
		`DELETE FROM inbox WHERE saga_id = ?`, `DELETE FROM tasks WHERE saga_id = ?`, `DELETE FROM stalls WHERE saga_id = ?`, deleteBlobs, `DELETE FROM sagas WHERE id = ?`} {
		if _, err := t.exec(q, saga.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
