package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// newEvents inserts events. An event that exists was inserted by an earlier attempt.
func newEvents(_ string, batch []part) (stmt, error) {
	var event, saga []pgtype.UUID
	var sink []string
	var data [][]byte
	for i := range batch {
		for _, e := range batch[i].Events {
			event, saga = append(event, id(e.ID)), append(saga, id(batch[i].Saga))
			sink, data = append(sink, e.Sink), append(data, e.Data)
		}
	}
	if len(event) == 0 {
		return stmt{}, nil
	}
	return stmt{query: insertEvents, args: []any{event, sink, saga, data}}, nil
}

var insertEvents = sql(`INSERT INTO outbox (id, sink, saga_id, data, created_at, due_at)
	SELECT a.*, c.now, c.now FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bytea[]) a, (SELECT ` + nowMS + ` AS now) c
	ON CONFLICT DO NOTHING`)

// PutEvents implements journal.Outbox.
func (s *Store) PutEvents(ctx context.Context, events []journal.Event) error {
	batch := make([]part, len(events))
	for i := range events {
		batch[i] = part{Append: journal.Append{Saga: events[i].Saga, Events: events[i : i+1]}}
	}
	insert, err := newEvents("", batch)
	if err == nil && len(events) > 0 {
		err = s.rest.transact(ctx, []stmt{insert})
	}
	if err != nil {
		return fmt.Errorf("put events: %w", err)
	}
	return nil
}

var claimEvents = sql(`WITH due AS MATERIALIZED (
		SELECT s.n, o.* FROM unnest($1::text[]) WITH ORDINALITY AS s (sink, n), LATERAL (
			SELECT id, sink, due_at FROM outbox WHERE sink = s.sink AND due_at <= {now} ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
		) o
	) UPDATE outbox o SET due_at = {now} + $3 FROM due WHERE o.id = due.id AND o.sink = due.sink
	RETURNING due.n, due.due_at, o.id, o.sink, o.saga_id, o.data, o.attempts, o.created_at`)

// ClaimEvents implements journal.Outbox.
func (s *Store) ClaimEvents(ctx context.Context, sinks []string, limit int, lease time.Duration) ([]journal.Delivery, error) {
	type due struct {
		journal.Delivery
		sink, at int64
	}
	var found []due
	err := s.rest.transact(ctx, []stmt{{query: claimEvents, args: []any{sinks, max(limit, 0), lease.Milliseconds()}, rows: func(rows pgx.Rows) (err error) {
		found, err = collect(rows, func(r pgx.CollectableRow) (d due, err error) {
			var u, saga pgtype.UUID
			var made int64
			var data []byte
			err = r.Scan(&d.sink, &d.at, &u, &d.Sink, &saga, &data, &d.Attempts, &made)
			d.ID, d.Saga, d.Data, d.Since = u.Bytes, saga.Bytes, data, toTime(made)
			return d, err
		})
		return err
	}}})
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", err)
	}
	slices.SortFunc(found, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.sink, b.sink), cmp.Compare(a.at, b.at), journal.CompareID(a.ID, b.ID))
	})
	out := make([]journal.Delivery, len(found))
	for i, d := range found {
		out[i] = d.Delivery
	}
	return out, nil
}

// EventDelivered implements journal.Outbox.
func (s *Store) EventDelivered(ctx context.Context, event uuid.UUID, sink string) error {
	if _, err := s.rest.exec(ctx, `DELETE FROM outbox WHERE id = $1 AND sink = $2`, id(event), sink); err != nil {
		return fmt.Errorf("event delivered: %w", err)
	}
	return nil
}

// EventFailed implements journal.Outbox.
func (s *Store) EventFailed(ctx context.Context, event uuid.UUID, sink string, wait time.Duration, why string) error {
	_, err := s.rest.exec(ctx, sql(`UPDATE outbox SET attempts = attempts + 1, due_at = {now} + $3, failed_at = {now}, error = $4 WHERE id = $1 AND sink = $2`),
		id(event), sink, wait.Milliseconds(), clean(why))
	if err != nil {
		return fmt.Errorf("event failed: %w", err)
	}
	return nil
}

// The query reads an index, and of each sink the event that failed last.
const outboxStats = `SELECT sink, count(*), min(created_at), coalesce((
		SELECT error FROM outbox WHERE sink = o.sink AND failed_at IS NOT NULL ORDER BY failed_at DESC, id DESC LIMIT 1
	), '') FROM outbox o GROUP BY sink ORDER BY sink COLLATE "C"`

// OutboxStats implements journal.Outbox.
func (s *Store) OutboxStats(ctx context.Context) ([]journal.OutboxStat, error) {
	out, err := s.outbox.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox stats: %w", err)
	}
	return slices.Clone(out), nil
}

// countEvents counts the events of each sink and returns how many there are.
func (s *Store) countEvents(ctx context.Context) (out []journal.OutboxStat, n int64, err error) {
	rows, err := s.pool.Query(ctx, outboxStats)
	if err != nil {
		return nil, 0, err
	}
	out, err = collect(rows, func(r pgx.CollectableRow) (st journal.OutboxStat, err error) {
		var oldest int64
		err = r.Scan(&st.Sink, &st.Events, &oldest, &st.Last)
		st.Oldest = toTime(oldest)
		n += int64(st.Events)
		return st, err
	})
	return out, n, err
}

// Fired implements journal.Schedules.
func (s *Store) Fired(ctx context.Context) (map[string]time.Time, error) {
	rows, err := s.pool.Query(ctx, `SELECT name, fired_at FROM schedules`)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	out := map[string]time.Time{}
	var name string
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		out[name] = toTime(at)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	return out, nil
}

// SetFired implements journal.Schedules.
func (s *Store) SetFired(ctx context.Context, name string, at time.Time) error {
	_, err := s.rest.exec(ctx, `INSERT INTO schedules AS s (name, fired_at) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET fired_at = GREATEST(s.fired_at, excluded.fired_at)`, name, at.UnixMilli())
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	return nil
}
