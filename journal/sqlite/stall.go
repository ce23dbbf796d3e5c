package sqlite

import (
	"context"
	"fmt"
	"time"

	"recourse/journal"
)

// These queries find each kind of stall up to a time. They select the saga's id, definition,
// version and labels, the path, the start of the stall, and the argument of Stall.Found. Indexes
// have the sagas that are due, suspect or quarantined and the tasks that wait for a worker. The
// queries read all that are suspect or quarantined, and the oldest of the others. The index of the
// tasks has the oldest of each type, so their query goes from one type to the next.
var (
	unclaimed = `SELECT id, definition, version, labels, '', wake_at, '' FROM sagas
		WHERE owner IS NULL AND wake_at <= ?1 AND ` + unsuspected + ` AND ended_at IS NULL ORDER BY wake_at, id LIMIT +?2`
	noProgress = `SELECT id, definition, version, labels, '', at, claims FROM (
			SELECT *, (SELECT at FROM journal WHERE saga_id = s.id ORDER BY seq DESC LIMIT 1) AS at FROM sagas s
			WHERE owner IS NULL AND wake_at IS NOT NULL AND ` + suspect + ` AND ended_at IS NULL AND NOT (` + quarantined + `)
		) WHERE at <= ?1 ORDER BY at, id LIMIT +?2`
	unworked = `WITH RECURSIVE types (type) AS (
			SELECT min(type) FROM tasks WHERE token IS NULL AND NOT withdrawn
			UNION ALL SELECT (SELECT min(type) FROM tasks WHERE token IS NULL AND NOT withdrawn AND type > w.type) FROM types w WHERE type IS NOT NULL
		) SELECT s.id, s.definition, s.version, s.labels, t.path, t.created_at, t.type FROM types w CROSS JOIN tasks t CROSS JOIN sagas s ON s.id = t.saga_id
		WHERE t.rowid IN (
			SELECT t.rowid FROM tasks t CROSS JOIN sagas s ON s.id = t.saga_id
			WHERE t.type = w.type AND t.token IS NULL AND NOT t.withdrawn AND t.created_at <= ?1 AND s.status <> 'paused' AND s.ended_at IS NULL
			ORDER BY t.created_at, t.id LIMIT +?2
		) ORDER BY t.created_at, t.id LIMIT +?2`
	quarantinedSince = `SELECT s.id, s.definition, s.version, s.labels, '', i.since, lower(hex(i.id))
		FROM (SELECT * FROM sagas WHERE owner IS NULL AND ` + quarantined + ` UNION ALL SELECT * FROM ` + ownedSagas + ` WHERE ` + quarantined + `) s
		CROSS JOIN inbox i ON i.saga_id = s.id AND i.path = '' WHERE i.since <= ?1 ORDER BY i.since, i.id LIMIT +?2`
)

// FindStalls implements journal.Stalls.
func (s *Store) FindStalls(ctx context.Context, after time.Duration, limit int) (out []journal.Stall, err error) {
	now := s.clock()
	for _, q := range []struct {
		kind, query string
		after       time.Duration
	}{
		{journal.StallUnclaimed, unclaimed, after},
		{journal.StallNoProgress, noProgress, after},
		{journal.StallQuarantined, quarantinedSince, 0},
		{journal.StallNoWorker, unworked, after},
	} {
		rows, err := s.read(ctx, q.query, now-q.after.Milliseconds(), max(limit, 0))
		if err != nil {
			return nil, fmt.Errorf("find stalls: %w", err)
		}
		err = walk(rows, func(scan func(...any) error) error {
			f := journal.Stall{Kind: q.kind}
			var since int64
			var l, more string
			if err := scan(idInto{&f.Saga}, &f.Definition, &f.Version, &l, &f.Path, &since, &more); err != nil {
				return err
			}
			f.Since = toTime(since)
			if f.Labels, err = fromLabels(l); err != nil {
				return err
			}
			f, err := f.Found(more)
			out = append(out, f)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find stalls: %w", err)
		}
	}
	return out, nil
}

// NoteStalls implements journal.Stalls.
func (s *Store) NoteStalls(ctx context.Context, list []journal.StallNotice, show time.Duration) (fresh int, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		fresh = 0
		now := s.clock()
		until := now + show.Milliseconds()
		for i := range list {
			f := &list[i]
			known, err := t.exec(`UPDATE stalls SET shown_until = ?, detail = ? WHERE id = ?`, until, f.Why, f.ID.Bytes())
			if err != nil || known > 0 {
				if err != nil {
					return err
				}
				continue
			}
			n, err := t.exec(`INSERT INTO stalls (id, saga_id, kind, path, since, detail, shown_until) SELECT ?, id, ?, ?, ?, ?, ? FROM sagas WHERE id = ?`,
				f.ID.Bytes(), f.Kind, f.Path, f.Since.UnixMilli(), f.Why, until, f.Saga.Bytes())
			if err != nil {
				return err
			}
			if n == 0 {
				continue // it was deleted in the meantime
			}
			fresh++
			if err := t.addEvents(now, &journal.Append{Saga: f.Saga, Events: f.Events}); err != nil {
				return err
			}
		}
		_, err := t.exec(`DELETE FROM stalls WHERE shown_until < ?`, now-journal.StallKept.Milliseconds())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("note stalls: %w", err)
	}
	return fresh, nil
}

// ListStalls implements journal.Stalls.
func (s *Store) ListStalls(ctx context.Context, f journal.StallFilter) (out []journal.Stall, err error) {
	c := &conditions{}
	c.and(`f.shown_until > ?`, s.clock())
	c.and(`s.ended_at IS NULL`)
	if f.Kind != "" {
		c.and(`f.kind = ?`, f.Kind)
	}
	if !f.Saga.IsNil() {
		c.and(`f.saga_id = ?`, f.Saga.Bytes())
	}
	if !f.After.ID.IsNil() {
		c.and(`(f.since, f.id) > (?, ?)`, f.After.Since.UnixMilli(), f.After.ID.Bytes())
	}
	rows, err := s.r.QueryContext(ctx, `SELECT f.id, f.saga_id, s.definition, s.version, f.kind, f.path, f.since, f.detail
		FROM stalls f JOIN sagas s ON s.id = f.saga_id`+c.String()+` ORDER BY f.since, f.id LIMIT ?`, append(c.args, all(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("stalls: %w", err)
	}
	err = walk(rows, func(scan func(...any) error) error {
		var f journal.Stall
		var since int64
		err := scan(idInto{&f.ID}, idInto{&f.Saga}, &f.Definition, &f.Version, &f.Kind, &f.Path, &since, &f.Why)
		f.Since = toTime(since)
		out = append(out, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stalls: %w", err)
	}
	return out, nil
}

// stalled counts the stalls that ListStalls lists.
const stalled = `SELECT f.kind, count(*) FROM stalls f JOIN sagas s ON s.id = f.saga_id WHERE f.shown_until > ? AND s.ended_at IS NULL GROUP BY f.kind`
