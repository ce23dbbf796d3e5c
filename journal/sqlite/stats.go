package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"recourse/journal"
)

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	out, err := s.counted.Get(ctx)
	if err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	if out.Stalled, err = s.counts(ctx, new(int64), stalled, s.clock()); err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	var since, due, suspected sql.NullInt64
	first := `(SELECT min(wake_at) FROM sagas WHERE owner IS NULL AND wake_at <= ?1 AND `
	err = s.row(ctx, `SELECT (SELECT min(since) FROM inbox), `+first+unsuspected+`), `+first+suspect+`)`, s.clock())(&since, &due, &suspected)
	if err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	out.OldestInbox, out.OldestDue = fromMillis(since), fromMillis(due)
	if at := fromMillis(suspected); out.OldestDue.IsZero() || !at.IsZero() && at.Before(out.OldestDue) {
		out.OldestDue = at
	}
	return out, nil
}

// count counts everything and returns how many rows it has read.
func (s *Store) count(ctx context.Context) (out journal.Stats, n int64, err error) {
	out.CountedAt = toTime(s.clock())
	if out.ByStatus, err = s.counts(ctx, &n, byStatus); err != nil {
		return out, n, err
	}
	if out.ByDefinition, out.Oldest, err = s.live(ctx); err != nil {
		return out, n, err
	}
	if out.Inbox, out.OldestInboxByKind, err = s.waiting(ctx, &n); err != nil {
		return out, n, err
	}
	return out, n, s.row(ctx, quarantinedCount)(&out.Quarantined)
}

// These count the sagas without an owner by an index, and add those that have one.
const (
	byStatus = `SELECT status, count(*) FROM sagas WHERE owner IS NULL GROUP BY status
		UNION ALL SELECT status, count(*) FROM ` + ownedSagas + ` GROUP BY status`
	live = `SELECT status, definition, count(*), min(updated_at) FROM sagas WHERE ended_at IS NULL AND owner IS NULL GROUP BY status, definition
		UNION ALL SELECT status, definition, count(*), min(updated_at) FROM ` + ownedSagas + ` WHERE ended_at IS NULL GROUP BY status, definition`
)

var quarantinedCount = `SELECT (SELECT count(*) FROM sagas WHERE owner IS NULL AND ` + quarantined + `)
	+ (SELECT count(*) FROM ` + ownedSagas + ` WHERE ` + quarantined + `)`

// live counts the live sagas by definition, and finds the oldest by status.
func (s *Store) live(ctx context.Context) (byDefinition map[string]int64, oldest map[string]time.Time, err error) {
	rows, err := s.read(ctx, live)
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

// waiting counts the inbox entries by kind, adds their number to sum, and finds the oldest.
func (s *Store) waiting(ctx context.Context, sum *int64) (byKind map[string]int64, oldest map[string]time.Time, err error) {
	rows, err := s.read(ctx, `SELECT kind, count(*), min(since) FROM inbox GROUP BY kind`)
	if err != nil {
		return nil, nil, err
	}
	byKind, oldest = map[string]int64{}, map[string]time.Time{}
	err = walk(rows, func(scan func(...any) error) error {
		var kind string
		var n, since int64
		err := scan(&kind, &n, &since)
		byKind[kind], oldest[kind] = n, toTime(since)
		*sum += n
		return err
	})
	return byKind, oldest, err
}

// counts returns counts by name, which may be in several rows, and adds their total to sum.
func (s *Store) counts(ctx context.Context, sum *int64, query string, args ...any) (map[string]int64, error) {
	rows, err := s.read(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	err = walk(rows, func(scan func(...any) error) error {
		var k string
		var n int64
		err := scan(&k, &n)
		out[k] += n
		*sum += n
		return err
	})
	return out, err
}
