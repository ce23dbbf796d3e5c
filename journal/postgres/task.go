package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// newTasks inserts tasks. A task that exists was inserted by an earlier attempt.
func newTasks(_ string, batch []part) (stmt, error) {
	var (
		task, saga           []pgtype.UUID
		path, way, key, kind []string
		traceparent          []string
		token                []pgtype.UUID // null: not claimed
		worker               []string
		attempt              []int32
		input                [][]byte
		lease, timeout       []int64
	)
	for i := range batch {
		for k := range batch[i].Tasks {
			t := &batch[i].Tasks[k]
			task, saga = append(task, id(t.ID)), append(saga, id(batch[i].Saga))
			path, way = append(path, t.Path), append(way, string(t.Way))
			attempt, key, kind = append(attempt, int32(t.Attempt)), append(key, t.Key), append(kind, t.Type)
			input = append(input, t.Input)
			lease, timeout = append(lease, t.Lease.Milliseconds()), append(timeout, t.Timeout.Milliseconds())
			traceparent = append(traceparent, t.Traceparent)
			var c journal.Claimant
			if t.Claimant != nil {
				c = *t.Claimant
			}
			token = append(token, pgtype.UUID{Bytes: c.Token, Valid: !c.Token.IsNil()})
			worker = append(worker, clean(c.Worker))
		}
	}
	if len(task) == 0 {
		return stmt{}, nil
	}
	return stmt{query: insertTasks, args: []any{task, saga, path, way, attempt, key, kind, input, lease, timeout, traceparent, token, worker}}, nil
}

var insertTasks = sql(`INSERT INTO tasks (id, saga_id, path, way, attempt, key, type, input, lease, timeout, traceparent, token, worker, claim_lease, ends_at, deadline, created_at)
	SELECT a.id, a.saga_id, a.path, a.way, a.attempt, a.key, a.type, a.input, a.lease, a.timeout, a.traceparent, a.token, CASE WHEN a.token IS NOT NULL THEN a.worker END,
		CASE WHEN a.token IS NOT NULL THEN a.lease END, CASE WHEN a.token IS NOT NULL THEN {now} + LEAST(a.lease, a.timeout) END,
		CASE WHEN a.token IS NOT NULL THEN {now} + a.timeout END, {now}
	FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::text[], $7::text[], $8::bytea[], $9::bigint[], $10::bigint[], $11::text[], $12::uuid[], $13::text[])
		AS a (id, saga_id, path, way, attempt, key, type, input, lease, timeout, traceparent, token, worker)
	ON CONFLICT DO NOTHING`)

// withdrawn marks tasks that their saga no longer needs. Unclaimed ones end at once.
func withdrawn(_ string, batch []part) (stmt, error) {
	var saga, task []pgtype.UUID
	for i := range batch {
		for _, t := range batch[i].Withdraw {
			saga, task = append(saga, id(batch[i].Saga)), append(task, id(t))
		}
	}
	if len(task) == 0 {
		return stmt{}, nil
	}
	return stmt{query: sql(`UPDATE tasks t SET withdrawn = true, ends_at = CASE WHEN t.token IS NULL THEN {now} ELSE t.ends_at END
		FROM unnest($1::uuid[], $2::uuid[]) AS a (saga_id, id) WHERE t.id = a.id AND t.saga_id = a.saga_id AND t.ended_at IS NULL AND NOT t.withdrawn`),
		args: []any{saga, task}}, nil
}

const taskColumns = `id, saga_id, path, way, attempt, key, type, input, lease, timeout, coalesce(traceparent, '')`

// scanTask scans taskColumns into t, and the columns after them into more.
func scanTask(row pgx.CollectableRow, t *journal.Task, more ...any) error {
	var u, saga pgtype.UUID
	var lease, timeout int64
	var input []byte
	err := row.Scan(append([]any{&u, &saga, &t.Path, (*string)(&t.Way), &t.Attempt, &t.Key, &t.Type, &input, &lease, &timeout, &t.Traceparent}, more...)...)
	t.ID, t.Saga, t.Input = u.Bytes, saga.Bytes, input
	t.Lease, t.Timeout = time.Duration(lease)*time.Millisecond, time.Duration(timeout)*time.Millisecond
	return err
}

// runsUntil is when a task ends without a worker. The expression prevents the use of an index: if
// the planner believes that there are no tasks, it would search all claimed tasks for the one with
// the given id.
const runsUntil = `CASE WHEN ended_at IS NULL THEN ends_at END`

var (
	// claimTasks claims tasks under a new token. Each type has its own order in the index. Tasks
	// beyond the limit over all types are locked until the commit, and not claimed.
	claimTasks = sql(`WITH clock AS MATERIALIZED (SELECT ` + nowMS + ` AS now), found AS MATERIALIZED (
			SELECT t.id, t.created_at FROM unnest($1::text[]) AS w (type) CROSS JOIN LATERAL (
				SELECT id, created_at FROM tasks WHERE type = w.type AND token IS NULL AND NOT withdrawn ORDER BY created_at, id LIMIT $2::int FOR UPDATE SKIP LOCKED
			) t WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE token = $3)
		), chosen AS (
			SELECT id FROM found ORDER BY created_at, id LIMIT $2::int
		) UPDATE tasks t SET token = $3, worker = $4, claim_lease = coalesce($5::bigint, t.lease), deadline = clock.now + t.timeout,
			ends_at = clock.now + LEAST(coalesce($5::bigint, t.lease), t.timeout) FROM chosen c, clock WHERE t.id = c.id`)
	leasedTasks = sql(`SELECT ` + taskColumns + `, worker, ends_at, deadline FROM tasks WHERE token = $1 AND ` + runsUntil + ` > {now} ORDER BY created_at, id`)
	heartbeat   = sql(`UPDATE tasks SET ends_at = LEAST({now} + claim_lease, deadline) WHERE id = $1 AND token IS NOT DISTINCT FROM $2 AND ` + runsUntil + ` > {now}
		RETURNING ends_at, withdrawn`)
	endTask = sql(`ended AS (UPDATE tasks SET ended_at = {now}, result = $3, input = NULL
		WHERE id = $1 AND token IS NOT DISTINCT FROM $2 AND ` + runsUntil + ` > {now} RETURNING saga_id)`)
	endedAgain   = sql(`SELECT ` + taskColumns + `, token IS NULL FROM tasks WHERE id = ANY($1) AND ` + runsUntil + ` <= {now} ORDER BY ends_at, id FOR UPDATE`)
	expiredTasks = sql(`SELECT id, saga_id FROM tasks WHERE ends_at <= {now} AND ended_at IS NULL ORDER BY ends_at, id LIMIT $1`)
	oldTasks     = sql(`DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE ended_at < {now} - $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)`)
)

// ClaimTasks implements journal.Tasks. If an earlier attempt with the same token is in flight, it
// waits for that attempt, because it must return the same tasks.
func (s *Store) ClaimTasks(ctx context.Context, c journal.TaskClaim) (out []journal.ClaimedTask, err error) {
	types := slices.Compact(slices.Sorted(slices.Values(c.Types)))
	for i := range types {
		types[i] = clean(types[i])
	}
	var lease *int64
	if c.Lease > 0 {
		ms := c.Lease.Milliseconds()
		lease = &ms
	}
	err = s.rest.transact(ctx, []stmt{
		{query: `SELECT pg_advisory_xact_lock($1, $2)`, args: []any{int32(binary.BigEndian.Uint32(c.Token[0:])), int32(binary.BigEndian.Uint32(c.Token[12:]))}},
		{query: claimTasks, args: []any{types, max(c.Max, 0), id(c.Token), clean(c.Worker), lease}},
		{query: leasedTasks, args: []any{id(c.Token)}, rows: func(rows pgx.Rows) (err error) {
			out, err = collect(rows, func(r pgx.CollectableRow) (t journal.ClaimedTask, err error) {
				var until, deadline int64
				err = scanTask(r, &t.Task, &t.Worker, &until, &deadline)
				t.Until, t.Deadline = toTime(until), toTime(deadline)
				return t, err
			})
			return err
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	return out, nil
}

// Heartbeat implements journal.Tasks.
func (s *Store) Heartbeat(ctx context.Context, task, token uuid.UUID) (l journal.TaskLease, err error) {
	var until int64
	err = s.rest.patiently(ctx, []stmt{{
		query: heartbeat, args: []any{id(task), id(token)},
		scan: func(r pgx.Row) error { return r.Scan(&until, &l.Cancel) },
	}})
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrTaskLost
	}
	if err != nil {
		return journal.TaskLease{}, fmt.Errorf("heartbeat of task %s: %w", task, err)
	}
	l.Until = toTime(until)
	return l, nil
}

// EndTask implements journal.Tasks. Like everything that changes a task and its saga, it locks the
// saga first.
func (s *Store) EndTask(ctx context.Context, task, token uuid.UUID, how string, m journal.Message) error {
	err := s.rest.patiently(ctx, []stmt{
		{query: `SELECT 1 FROM sagas WHERE id = (SELECT saga_id FROM tasks WHERE id = $1) FOR UPDATE`, args: []any{id(task)}},
		{
			with:  []string{endTask, `a (saga_id, id, kind, data) AS (SELECT saga_id, $4::uuid, $5::text, $6::bytea FROM ended)`, insertedMessages, countedMessages},
			query: wakeRecipients, args: []any{id(task), id(token), clean(how), id(m.ID), m.Kind, []byte(m.Data)},
		},
		{
			query: `SELECT 1 FROM tasks WHERE id = $1 AND token IS NOT DISTINCT FROM $2 AND result = $3`, args: []any{id(task), id(token), clean(how)},
			scan: func(r pgx.Row) error {
				var one int
				return r.Scan(&one)
			},
		},
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrTaskLost
	}
	if err != nil {
		return fmt.Errorf("end task %s: %w", task, err)
	}
	s.notify(ctx, s.rest)
	return nil
}

// ReapTasks implements journal.Tasks. It finds tasks that have ended, locks their sagas, and then
// checks the tasks again.
func (s *Store) ReapTasks(ctx context.Context, limit int, message func(journal.Task, journal.TaskEnd) journal.Message) (n int, more bool, err error) {
	limit = max(limit, 0)
	err = s.rest.tx(ctx, func(t session) error {
		n = 0
		rows, err := t.Query(ctx, expiredTasks, limit)
		if err != nil {
			return err
		}
		var tasks, sagas []pgtype.UUID
		var task, saga pgtype.UUID
		if _, err := pgx.ForEachRow(rows, []any{&task, &saga}, func() error {
			tasks, sagas = append(tasks, task), append(sagas, saga)
			return nil
		}); err != nil {
			return err
		}
		if len(tasks) > 0 {
			if n, err = reap(ctx, t, tasks, sagas, message); err != nil {
				return err
			}
		}
		deleted, err := t.Exec(ctx, oldTasks, journal.TaskKept.Milliseconds(), limit)
		more = max(n, int(deleted.RowsAffected())) == limit
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("reap tasks: %w", err)
	}
	if n > 0 {
		s.notify(ctx, s.rest)
	}
	return n, more, nil
}

func reap(ctx context.Context, t session, tasks, sagas []pgtype.UUID, message func(journal.Task, journal.TaskEnd) journal.Message) (int, error) {
	if _, err := t.Exec(ctx, lockSagas, sagas); err != nil {
		return 0, err
	}
	rows, err := t.Query(ctx, endedAgain, tasks)
	if err != nil {
		return 0, err
	}
	var ended []pgtype.UUID
	messages, err := collect(rows, func(r pgx.CollectableRow) (m journal.Message, err error) {
		var w journal.Task
		var unclaimed bool
		if err := scanTask(r, &w, &unclaimed); err != nil {
			return m, err
		}
		end := journal.TaskExpired
		if unclaimed {
			end = journal.TaskWithdrawn
		}
		ended = append(ended, id(w.ID))
		m = message(w, end)
		m.Saga = w.Saga
		return m, nil
	})
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	if _, err := t.Exec(ctx, sql(`UPDATE tasks SET ended_at = {now}, input = NULL WHERE id = ANY($1)`), ended); err != nil {
		return 0, err
	}
	st := insertMessages(messages)
	_, err = t.Exec(ctx, st.text(), st.args...)
	return len(ended), err
}

// The query must not read the tasks that have ended, which are many more.
const taskStats = `SELECT type, sum(waiting)::int, sum(claimed)::int, min(oldest) FROM (
		SELECT type, count(*) AS waiting, 0 AS claimed, min(created_at) AS oldest FROM tasks WHERE token IS NULL AND NOT withdrawn GROUP BY type
		UNION ALL SELECT type, 0, count(*), NULL FROM tasks WHERE ends_at IS NOT NULL AND ended_at IS NULL AND token IS NOT NULL GROUP BY type
	) t GROUP BY type ORDER BY min(oldest) NULLS LAST, type COLLATE "C"`

// TaskStats implements journal.Tasks.
func (s *Store) TaskStats(ctx context.Context) ([]journal.TaskStat, error) {
	rows, err := s.pool.Query(ctx, taskStats)
	if err != nil {
		return nil, fmt.Errorf("task stats: %w", err)
	}
	out, err := collect(rows, func(r pgx.CollectableRow) (st journal.TaskStat, err error) {
		var oldest *int64
		err = r.Scan(&st.Type, &st.Waiting, &st.Claimed, &oldest)
		st.Oldest = fromMillis(oldest)
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("task stats: %w", err)
	}
	return out, nil
}
