package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// These queries find each kind of stall after a time. They select the saga's id, definition,
// version and labels, the path, the start of the stall, and the argument of Stall.Found. Indexes
// have the sagas that are due, suspect or quarantined and the tasks that wait for a worker. The
// queries read all that are suspect or quarantined, and the oldest of the others. The index of the
// tasks has the oldest of each type, so their query goes from one type to the next.
var (
	unclaimed = sql(`SELECT id, definition, version, labels, '', wake_at, '' FROM sagas
		WHERE owner IS NULL AND wake_at <= {now} - $1::bigint AND ` + unsuspected + ` AND ended_at IS NULL ORDER BY wake_at, id LIMIT $2`)
	noProgress = sql(`SELECT s.id, s.definition, s.version, s.labels, '', e.at, s.claims::text FROM sagas s CROSS JOIN LATERAL journal_end(s.id) e
		WHERE s.owner IS NULL AND s.wake_at IS NOT NULL AND ` + suspected + ` AND s.ended_at IS NULL AND NOT (` + quarantined + `)
		AND e.at <= {now} - $1::bigint ORDER BY e.at, s.id LIMIT $2`)
	unworked = sql(`WITH RECURSIVE types (type) AS (
			(SELECT type FROM tasks WHERE token IS NULL AND NOT withdrawn ORDER BY type LIMIT 1)
			UNION ALL SELECT (SELECT type FROM tasks WHERE token IS NULL AND NOT withdrawn AND type > w.type ORDER BY type LIMIT 1) FROM types w WHERE type IS NOT NULL
		) SELECT t.saga_id, t.definition, t.version, t.labels, t.path, t.created_at, w.type FROM types w CROSS JOIN LATERAL (
			SELECT t.*, s.definition, s.version, s.labels FROM tasks t JOIN sagas s ON s.id = t.saga_id
			WHERE t.type = w.type AND t.token IS NULL AND NOT t.withdrawn AND t.created_at <= {now} - $1::bigint AND s.status <> 'paused' AND s.ended_at IS NULL
			ORDER BY t.created_at, t.id LIMIT $2
		) t ORDER BY t.created_at, t.id LIMIT $2`)
	quarantinedSince = sql(`SELECT s.id, s.definition, s.version, s.labels, '', i.since, i.id::text
		FROM (SELECT * FROM sagas WHERE owner IS NULL AND ` + quarantined + ` UNION ALL SELECT * FROM ` + ownedSagas + ` WHERE ` + quarantined + `) s
		JOIN inbox i ON i.saga_id = s.id AND i.path = '' WHERE i.since <= {now} - $1::bigint ORDER BY i.since, i.id LIMIT $2`)
)

// FindStalls implements journal.Stalls.
func (s *Store) FindStalls(ctx context.Context, after time.Duration, limit int) (out []journal.Stall, err error) {
	b := &pgx.Batch{}
	for _, q := range []struct {
		kind, query string
		after       time.Duration
	}{
		{journal.StallUnclaimed, unclaimed, after},
		{journal.StallNoProgress, noProgress, after},
		{journal.StallQuarantined, quarantinedSince, 0},
		{journal.StallNoWorker, unworked, after},
	} {
		b.Queue(q.query, q.after.Milliseconds(), max(limit, 0)).Query(func(rows pgx.Rows) error {
			found, err := collect(rows, func(r pgx.CollectableRow) (f journal.Stall, err error) {
				var saga pgtype.UUID
				var l []byte
				var since int64
				var more string
				if err := r.Scan(&saga, &f.Definition, &f.Version, &l, &f.Path, &since, &more); err != nil {
					return f, err
				}
				f.Kind, f.Saga, f.Since = q.kind, saga.Bytes, toTime(since)
				if f.Labels, err = fromLabels(l); err != nil {
					return f, err
				}
				return f.Found(more)
			})
			out = append(out, found...)
			return err
		})
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("find stalls: %w", err)
	}
	return out, nil
}

// noteStalls stores stalls in the order of their ids, so that nodes that note the same ones do not
// deadlock.
var noteStalls = sql(`INSERT INTO stalls AS f (id, saga_id, kind, path, since, detail, shown_until)
	SELECT g.id, g.saga_id, g.kind, g.path, g.since, g.detail, {now} + $7 FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[])
		g (id, saga_id, kind, path, since, detail) JOIN sagas s ON s.id = g.saga_id ORDER BY g.id
	ON CONFLICT (id) DO UPDATE SET shown_until = excluded.shown_until, detail = excluded.detail RETURNING f.id, f.xmax = 0`)

// NoteStalls implements journal.Stalls.
func (s *Store) NoteStalls(ctx context.Context, list []journal.StallNotice, show time.Duration) (fresh int, err error) {
	var stall, saga []pgtype.UUID
	var kind, path, why []string
	var since []int64
	notices := make(map[uuid.UUID]*journal.StallNotice, len(list))
	for i := range list {
		f := &list[i]
		if notices[f.ID] != nil {
			continue
		}
		notices[f.ID] = f
		stall, saga = append(stall, id(f.ID)), append(saga, id(f.Saga))
		kind, path, why, since = append(kind, f.Kind), append(path, f.Path), append(why, clean(f.Why)), append(since, f.Since.UnixMilli())
	}
	err = s.rest.tx(ctx, func(t session) error {
		fresh = 0
		var news []part
		rows, err := t.Query(ctx, noteStalls, stall, saga, kind, path, since, why, show.Milliseconds())
		if err != nil {
			return err
		}
		var u pgtype.UUID
		var is bool
		_, err = pgx.ForEachRow(rows, []any{&u, &is}, func() error {
			if f := notices[u.Bytes]; is {
				fresh++
				news = append(news, part{Append: journal.Append{Saga: f.Saga, Events: f.Events}})
			}
			return nil
		})
		if err != nil {
			return err
		}
		events, err := newEvents("", news)
		if err != nil {
			return err
		}
		if events.query != "" {
			if _, err := t.Exec(ctx, events.query, events.args...); err != nil {
				return err
			}
		}
		_, err = t.Exec(ctx, sql(`DELETE FROM stalls WHERE shown_until < {now} - $1::bigint`), journal.StallKept.Milliseconds())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("note stalls: %w", err)
	}
	return fresh, nil
}

// ListStalls implements journal.Stalls.
func (s *Store) ListStalls(ctx context.Context, f journal.StallFilter) ([]journal.Stall, error) {
	c := &conditions{}
	c.where = append(c.where, sql(`f.shown_until > {now}`), `s.ended_at IS NULL`)
	if f.Kind != "" {
		c.and(`f.kind = ?`, f.Kind)
	}
	if !f.Saga.IsNil() {
		c.and(`f.saga_id = ?`, id(f.Saga))
	}
	if !f.After.ID.IsNil() {
		c.and(`(f.since, f.id) > (?, ?)`, f.After.Since.UnixMilli(), id(f.After.ID))
	}
	query := `SELECT f.id, f.saga_id, s.definition, s.version, f.kind, f.path, f.since, f.detail FROM stalls f JOIN sagas s ON s.id = f.saga_id` +
		c.String() + ` ORDER BY f.since, f.id` + c.limit(f.Limit)
	rows, err := s.pool.Query(ctx, query, c.args...)
	if err != nil {
		return nil, fmt.Errorf("stalls: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (f journal.Stall, err error) {
		var u, saga pgtype.UUID
		var since int64
		err = row.Scan(&u, &saga, &f.Definition, &f.Version, &f.Kind, &f.Path, &since, &f.Why)
		f.ID, f.Saga, f.Since = u.Bytes, saga.Bytes, toTime(since)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("stalls: %w", err)
	}
	return out, nil
}

// stalled counts the stalls that ListStalls lists.
var stalled = sql(`SELECT f.kind, count(*) FROM stalls f JOIN sagas s ON s.id = f.saga_id WHERE f.shown_until > {now} AND s.ended_at IS NULL GROUP BY f.kind`)
