package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

const (
	// deferFor is how long the journal of a deleted saga may wait for the drop of its partition.
	// The sagas of a day whose retention is the same are deleted within a day, and with an archive
	// within two.
	deferFor = 48 * time.Hour
	// spanRests is how long after its end a span may be dropped, if it has no sagas: a start may
	// be on its way to the store.
	spanRests = time.Hour
	// dropAgain is the time after which a refused drop is tried again, because each reads the
	// partition.
	dropAgain = 10 * time.Minute
)

// Reclaim implements journal.Retention. It creates partitions, drops those whose sagas are all
// deleted, and deletes the journals of sagas that were deleted long ago and whose partitions still
// have other sagas.
//
// Each step is one transaction, and each finds its work in the tables. So a step that failed, or
// that a crash interrupted, is repeated by the next call of any node.
func (s *Store) Reclaim(ctx context.Context) error {
	if err := retry(ctx, func() error { return s.reclaim(ctx) }); err != nil {
		return fmt.Errorf("reclaim: %w: %w", journal.ErrUnknown, err) // some of the steps may have been done
	}
	return nil
}

func (s *Store) reclaim(ctx context.Context) error {
	var errs []error
	if err := s.ensureSpans(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := s.dropSpans(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := s.deleteDeferred(ctx); err != nil {
		errs = append(errs, fmt.Errorf("delete the journals of deleted sagas: %w", err))
	}
	return errors.Join(errs...)
}

// emptySpans selects those of the spans that have no sagas.
const emptySpans = `SELECT s.name FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS s (name, first, after)
	WHERE (SELECT g.id FROM sagas g WHERE g.id >= s.first AND g.id < s.after ORDER BY g.id LIMIT 1) IS NULL`

// dropSpans drops the partitions that are over and have no sagas.
func (s *Store) dropSpans(ctx context.Context) error {
	have := s.spans.Load()
	if have == nil {
		return nil
	}
	var names []string
	var first, after []pgtype.UUID
	over := make(map[string]*span)
	for i := range have.list {
		if p := &have.list[i]; !p.end.Add(spanRests).After(have.at) && !s.dropLater(p, have.at) {
			names, first, after = append(names, p.name), append(first, id(p.first)), append(after, id(p.after))
			over[p.name] = p
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := s.w.Query(ctx, emptySpans, names, first, after)
	if err != nil {
		return fmt.Errorf("find partitions without sagas: %w", err)
	}
	empty, err := collect(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find partitions without sagas: %w", err)
	}
	var errs []error
	for _, name := range empty {
		err := s.dropSpan(ctx, over[name])
		if err == nil {
			continue
		}
		s.drops.Store(name, have.at.Add(dropAgain))
		if !errors.Is(err, errBusy) {
			errs = append(errs, fmt.Errorf("drop the partition %s of the journal: %w", name, err))
		}
	}
	if len(empty) > 0 {
		_, err = s.readSpans(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// dropLater reports whether a drop of the partition was refused a short time ago.
func (s *Store) dropLater(p *span, now time.Time) bool {
	again, tried := s.drops.Load(p.name)
	return tried && now.Before(again.(time.Time))
}

// dropSpan drops a partition, or returns errBusy.
func (s *Store) dropSpan(ctx context.Context, p *span) error {
	err := s.atOnce(ctx, dropStatements(p)...)
	switch code(err) {
	case codeDivisionByZero, codeLockNotAvailable, codeUndefinedTable:
		return errBusy
	}
	return err
}

// dropStatements drop a partition, if each saga in it was deleted. First they read, without a lock,
// that the partition has no journal of another saga: such a saga has lost its row without a
// deletion, and keeps the partition. Then they lock the partition, and look once more for sagas,
// because one may have started. The lock of the whole journal, which the drop takes, comes last: it
// is held until the commit, which does not wait for a standby.
func dropStatements(p *span) []string {
	first, after := `'`+p.first.String()+`'`, `'`+p.after.String()+`'`
	return []string{
		lockSpans, noStandby, `SET LOCAL statement_timeout = '5min'`, joinMany,
		`SELECT 1 / (NOT EXISTS (WITH gone AS MATERIALIZED (SELECT unnest(sagas) AS id FROM deferred_deletes WHERE first = ` + first + `)
			SELECT 1 FROM ` + p.name + ` j WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = j.saga_id)))::int`,
		lockBriefly,
		`LOCK TABLE ` + p.name + ` IN ACCESS EXCLUSIVE MODE`,
		`SELECT 1 / ((SELECT id FROM sagas WHERE id >= ` + first + ` AND id < ` + after + ` ORDER BY id LIMIT 1) IS NULL)::int`,
		`DELETE FROM deferred_deletes WHERE first = ` + first,
		`DROP TABLE ` + p.name,
	}
}

// joinMany makes a transaction not join row by row. The planner does not know how many sagas a row
// of deferred_deletes has.
const joinMany = `SET LOCAL enable_nestloop = off`

// overdue selects deleted sagas whose journals wait for a drop that has not come: up to $2 of one
// row, and whether the row has more.
var overdue = sql(`SELECT id, sagas[1:$2::int], cardinality(sagas) > $2::int FROM deferred_deletes
	WHERE deleted_at <= {now} - $1::bigint ORDER BY deleted_at LIMIT 1 FOR UPDATE SKIP LOCKED`)

// deleteDeferred deletes the journals of sagas that were deleted long ago, fewer in a transaction
// if it takes too long, because journals may be very long.
func (s *Store) deleteDeferred(ctx context.Context) error {
	for most := 100; ; {
		found := false
		err := s.rest.tx(ctx, func(t session) error {
			var row pgtype.UUID
			var sagas []pgtype.UUID
			var more bool
			err := t.QueryRow(ctx, overdue, deferFor.Milliseconds(), most).Scan(&row, &sagas, &more)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			found = true
			b := &pgx.Batch{}
			b.Queue(planEach)
			b.Queue(deleteWithout, sagas)
			if more {
				b.Queue(`UPDATE deferred_deletes SET sagas = sagas[$2::int + 1:] WHERE id = $1`, row, most)
			} else {
				b.Queue(`DELETE FROM deferred_deletes WHERE id = $1`, row)
			}
			return t.SendBatch(ctx, b).Close()
		})
		switch {
		case code(err) == codeQueryCanceled && most > 1 && ctx.Err() == nil:
			most /= 2
		case err != nil || !found:
			return err
		}
	}
}

// planEach makes a transaction plan statements for their arguments, so that those on the whole
// journal lock and open only the partitions that have the sagas.
const planEach = `SET LOCAL plan_cache_mode = force_custom_plan`

// deleteWithout deletes the journals of those of the sagas that do not exist. One may have started
// again under its id.
const deleteWithout = `DELETE FROM journal WHERE saga_id = ANY($1) AND NOT EXISTS (SELECT 1 FROM sagas s WHERE s.id = journal.saga_id)`

var deferDelete = sql(`INSERT INTO deferred_deletes (first, sagas, deleted_at) VALUES ($1, $2, {now})`)

// clearDeferred deletes the journals of deleted sagas under whose ids sagas start again, which are
// no longer deleted ones from then on.
func (s *Store) clearDeferred(ctx context.Context, have *snapshot, batch []part) error {
	var again []pgtype.UUID
	for i := range batch {
		if _, exists := have.sagas[batch[i].Saga]; !exists && len(have.written.Of(batch[i].Saga)) > 0 {
			again = append(again, id(batch[i].Saga))
		}
	}
	if len(again) == 0 {
		return nil
	}
	return s.w.tx(ctx, func(t session) error {
		b := &pgx.Batch{}
		b.Queue(planEach)
		b.Queue(deleteWithout+` AND EXISTS (SELECT 1 FROM deferred_deletes d WHERE journal.saga_id = ANY(d.sagas))`, again)
		b.Queue(`UPDATE deferred_deletes SET sagas = ARRAY(SELECT u FROM unnest(sagas) u WHERE u <> ALL($1)) WHERE sagas && $1`, again)
		return t.SendBatch(ctx, b).Close()
	})
}
