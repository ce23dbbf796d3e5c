package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/journal"
)

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	out, err := s.counted.Get(ctx)
	if err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	var since, due *int64
	out.Stalled = map[string]int64{}
	b := &pgx.Batch{}
	b.Queue(oldest).QueryRow(func(r pgx.Row) error { return r.Scan(&since, &due) })
	b.Queue(stalled).Query(counts(out.Stalled, new(int64)))
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	out.OldestInbox, out.OldestDue = fromMillis(since), fromMillis(due)
	return out, nil
}

var oldest = sql(`SELECT (SELECT min(since) FROM inbox), LEAST(
	(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND ` + unsuspected + `),
	(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND ` + suspected + `))`)

// count counts everything and returns how many rows it has read.
func (s *Store) count(ctx context.Context) (out journal.Stats, n int64, err error) {
	out = journal.Stats{ByStatus: map[string]int64{}, ByDefinition: map[string]int64{}, Inbox: map[string]int64{}, Oldest: map[string]time.Time{}, OldestInboxByKind: map[string]time.Time{}}
	b := &pgx.Batch{}
	var now int64
	b.Queue(`SELECT ` + nowMS).QueryRow(func(r pgx.Row) error { return r.Scan(&now) })
	b.Queue(byStatus).Query(counts(out.ByStatus, &n))
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
	b.Queue(`SELECT kind, count(*), min(since) FROM inbox GROUP BY kind`).Query(func(rows pgx.Rows) error {
		var kind string
		var entries, since int64
		_, err := pgx.ForEachRow(rows, []any{&kind, &entries, &since}, func() error {
			out.Inbox[kind], out.OldestInboxByKind[kind] = entries, toTime(since)
			n += entries
			return nil
		})
		return err
	})
	b.Queue(quarantinedCount).QueryRow(func(r pgx.Row) error { return r.Scan(&out.Quarantined) })
	err = s.pool.SendBatch(ctx, b).Close()
	out.CountedAt = toTime(now)
	return out, n, err
}

// These count the sagas without an owner by an index, and add those that have one.
var (
	byStatus = `SELECT status, count(*) FROM sagas WHERE owner IS NULL GROUP BY status
		UNION ALL SELECT status, count(*) FROM ` + ownedSagas + ` GROUP BY status`
	live = `SELECT status, definition, count(*), min(updated_at) FROM sagas WHERE ended_at IS NULL AND owner IS NULL GROUP BY status, definition
		UNION ALL SELECT status, definition, count(*), min(updated_at) FROM ` + ownedSagas + ` WHERE ended_at IS NULL GROUP BY status, definition`
	quarantinedCount = `SELECT (SELECT count(*) FROM sagas WHERE owner IS NULL AND ` + quarantined + `) + (SELECT count(*) FROM ` + ownedSagas + ` WHERE ` + quarantined + `)`
)

// counts stores counts by name, which may be in several rows, and adds their total to sum.
func counts(into map[string]int64, sum *int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var k string
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&k, &n}, func() error {
			into[k] += n
			*sum += n
			return nil
		})
		return err
	}
}
