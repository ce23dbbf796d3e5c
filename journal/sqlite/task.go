package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

func (t *tx) addTasks(now int64, a *journal.Append) error {
	for i := range a.Tasks {
		w := &a.Tasks[i]
		var token, worker, lease, ends, deadline any // null: not claimed
		if c := w.Claimant; c != nil {
			token, worker, lease = c.Token.Bytes(), c.Worker, w.Lease.Milliseconds()
			ends, deadline = now+min(w.Lease, w.Timeout).Milliseconds(), now+w.Timeout.Milliseconds()
		}
		_, err := t.exec(`INSERT INTO tasks (id, saga_id, path, way, attempt, key, type, input, lease, timeout, traceparent, created_at, token, worker, claim_lease, ends_at, deadline)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			w.ID.Bytes(), a.Saga.Bytes(), w.Path, string(w.Way), w.Attempt, w.Key, w.Type, blob(w.Input), w.Lease.Milliseconds(), w.Timeout.Milliseconds(), w.Traceparent, now,
			token, worker, lease, ends, deadline)
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) withdraw(now int64, a *journal.Append) error {
	for _, id := range a.Withdraw {
		_, err := t.exec(`UPDATE tasks SET withdrawn = 1, ends_at = iif(token IS NULL, ?, ends_at) WHERE id = ? AND saga_id = ? AND ended_at IS NULL AND NOT withdrawn`,
			now, id.Bytes(), a.Saga.Bytes())
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	waitingTasks = `SELECT id, created_at FROM tasks WHERE type = ? AND token IS NULL AND NOT withdrawn ORDER BY created_at, id LIMIT +?`
	leasedTasks  = `SELECT ` + taskColumns + `, worker, ends_at, deadline FROM tasks WHERE token = ? AND ended_at IS NULL AND ends_at > ? ORDER BY created_at, id`
	expiredTasks = `SELECT ` + taskColumns + `, token IS NULL FROM tasks WHERE ends_at <= ? AND ended_at IS NULL ORDER BY ends_at, id LIMIT +?`
	oldTasks     = `DELETE FROM tasks WHERE rowid IN (SELECT rowid FROM tasks WHERE ended_at < ? ORDER BY ended_at LIMIT +?)`
	taskColumns  = `id, saga_id, path, way, attempt, key, type, input, lease, timeout, coalesce(traceparent, '')`
)

// scanTask scans taskColumns into w, and the columns after them into more.
func scanTask(scan func(...any) error, w *journal.Task, more ...any) error {
	var lease, timeout int64
	err := scan(append([]any{idInto{&w.ID}, idInto{&w.Saga}, &w.Path, (*string)(&w.Way), &w.Attempt, &w.Key, &w.Type, (*[]byte)(&w.Input), &lease, &timeout, &w.Traceparent}, more...)...)
	w.Lease, w.Timeout = time.Duration(lease)*time.Millisecond, time.Duration(timeout)*time.Millisecond
	return err
}

// ClaimTasks implements journal.Tasks.
func (s *Store) ClaimTasks(ctx context.Context, c journal.TaskClaim) (out []journal.ClaimedTask, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		var known bool
		if err := t.row(`SELECT EXISTS (SELECT 1 FROM tasks WHERE token = ?)`, []any{c.Token.Bytes()}, &known); err != nil {
			return err
		}
		if !known {
			if err := t.claimTasks(now, &c); err != nil {
				return err
			}
		}
		return t.query(leasedTasks, []any{c.Token.Bytes(), now}, func(scan func(...any) error) error {
			var w journal.ClaimedTask
			var until, deadline int64
			err := scanTask(scan, &w.Task, &w.Worker, &until, &deadline)
			w.Until, w.Deadline = toTime(until), toTime(deadline)
			out = append(out, w)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	return out, nil
}

// claimTasks claims tasks under a new token. Each type has its own order in the index.
func (t *tx) claimTasks(now int64, c *journal.TaskClaim) error {
	type waiting struct {
		id   uuid.UUID
		made int64
	}
	var found []waiting
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(c.Types))) {
		err := t.query(waitingTasks, []any{kind, max(c.Max, 0)}, func(scan func(...any) error) error {
			var w waiting
			err := scan(idInto{&w.id}, &w.made)
			found = append(found, w)
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(found, func(a, b waiting) int { return cmp.Or(cmp.Compare(a.made, b.made), journal.CompareID(a.id, b.id)) })
	var lease any
	if c.Lease > 0 {
		lease = c.Lease.Milliseconds()
	}
	for _, w := range found[:min(len(found), max(c.Max, 0))] {
		_, err := t.exec(`UPDATE tasks SET token = ?, worker = ?, claim_lease = coalesce(?, lease), deadline = ? + timeout,
			ends_at = ? + min(coalesce(?, lease), timeout) WHERE id = ?`, c.Token.Bytes(), c.Worker, lease, now, now, lease, w.id.Bytes())
		if err != nil {
			return err
		}
	}
	return nil
}

// lost returns ErrTaskLost for sql.ErrNoRows.
func lost(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrTaskLost
	}
	return err
}

// EndTask implements journal.Tasks.
func (s *Store) EndTask(ctx context.Context, task, token uuid.UUID, how string, m journal.Message) error {
	err := s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		err := t.row(`UPDATE tasks SET ended_at = ?, result = ?, input = NULL WHERE id = ? AND token = ? AND ended_at IS NULL AND ends_at > ? RETURNING saga_id`,
			[]any{now, how, task.Bytes(), token.Bytes(), now}, idInto{&m.Saga})
		if errors.Is(err, sql.ErrNoRows) {
			var done int
			return lost(t.row(`SELECT 1 FROM tasks WHERE id = ? AND token = ? AND result = ?`, []any{task.Bytes(), token.Bytes(), how}, &done))
		}
		if err != nil {
			return err
		}
		_, err = t.send(now, &m)
		return err
	})
	if err != nil {
		return fmt.Errorf("end task %s: %w", task, err)
	}
	s.hint()
	return nil
}

// ReapTasks implements journal.Tasks.
func (s *Store) ReapTasks(ctx context.Context, limit int, message func(journal.Task, journal.TaskEnd) journal.Message) (n int, more bool, err error) {
	limit = max(limit, 0)
	var messages []journal.Message
	err = s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		var ids []uuid.UUID
		err := t.query(expiredTasks, []any{now, limit}, func(scan func(...any) error) error {
			var w journal.Task
			var unclaimed bool
			if err := scanTask(scan, &w, &unclaimed); err != nil {
				return err
			}
			end := journal.TaskExpired
			if unclaimed {
				end = journal.TaskWithdrawn
			}
			m := message(w, end)
			m.Saga = w.Saga
			ids, messages = append(ids, w.ID), append(messages, m)
			return nil
		})
		if err != nil {
			return err
		}
		for i, id := range ids {
			if _, err := t.exec(`UPDATE tasks SET ended_at = ?, input = NULL WHERE id = ?`, now, id.Bytes()); err != nil {
				return err
			}
			if _, err := t.send(now, &messages[i]); err != nil {
				return err
			}
		}
		deleted, err := t.exec(oldTasks, now-journal.TaskKept.Milliseconds(), limit)
		more = max(len(ids), int(deleted)) == limit
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("reap tasks: %w", err)
	}
	if len(messages) > 0 {
		s.hint()
	}
	return len(messages), more, nil
}

// The query must not read the tasks that have ended, which are many more.
const taskStats = `SELECT type, sum(waiting), sum(claimed), min(oldest) AS oldest FROM (
		SELECT type, count(*) AS waiting, 0 AS claimed, min(created_at) AS oldest FROM tasks WHERE token IS NULL AND NOT withdrawn GROUP BY type
		UNION ALL SELECT type, 0, count(*), NULL FROM tasks WHERE ends_at IS NOT NULL AND ended_at IS NULL AND token IS NOT NULL GROUP BY type
	) GROUP BY type ORDER BY 4 NULLS LAST, type`

// TaskStats implements journal.Tasks.
func (s *Store) TaskStats(ctx context.Context) (out []journal.TaskStat, err error) {
	rows, err := s.r.QueryContext(ctx, taskStats)
	if err != nil {
		return nil, fmt.Errorf("task stats: %w", err)
	}
	err = walk(rows, func(scan func(...any) error) error {
		var st journal.TaskStat
		var oldest sql.NullInt64
		err := scan(&st.Type, &st.Waiting, &st.Claimed, &oldest)
		st.Oldest = fromMillis(oldest)
		out = append(out, st)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("task stats: %w", err)
	}
	return out, nil
}
