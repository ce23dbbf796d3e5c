package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

func (t *tx) addEvents(now int64, a *journal.Append) error {
	for i := range a.Events {
		if err := t.addEvent(now, a.Saga, &a.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) addEvent(now int64, saga uuid.UUID, e *journal.Event) error {
	_, err := t.exec(`INSERT INTO outbox (id, sink, saga_id, data, created_at, due_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.ID.Bytes(), e.Sink, saga.Bytes(), blob(e.Data), now, now)
	return err
}

// PutEvents implements journal.Outbox.
func (s *Store) PutEvents(ctx context.Context, events []journal.Event) error {
	err := s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		for i := range events {
			if err := t.addEvent(now, events[i].Saga, &events[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("put events: %w", err)
	}
	return nil
}

const dueEvents = `SELECT id, sink, saga_id, data, attempts, created_at FROM outbox WHERE sink = ? AND due_at <= ? ORDER BY due_at, id LIMIT +?`

// ClaimEvents implements journal.Outbox.
func (s *Store) ClaimEvents(ctx context.Context, sinks []string, limit int, lease time.Duration) (out []journal.Delivery, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		for _, sink := range sinks {
			err := t.query(dueEvents, []any{sink, now, max(limit, 0)}, func(scan func(...any) error) error {
				var d journal.Delivery
				var made int64
				err := scan(idInto{&d.ID}, &d.Sink, idInto{&d.Saga}, (*[]byte)(&d.Data), &d.Attempts, &made)
				d.Since = toTime(made)
				out = append(out, d)
				return err
			})
			if err != nil {
				return err
			}
		}
		for _, d := range out {
			if _, err := t.exec(`UPDATE outbox SET due_at = ? WHERE id = ? AND sink = ?`, now+lease.Milliseconds(), d.ID.Bytes(), d.Sink); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", err)
	}
	return out, nil
}

// EventDelivered implements journal.Outbox.
func (s *Store) EventDelivered(ctx context.Context, event uuid.UUID, sink string) error {
	if _, err := s.change(ctx, `DELETE FROM outbox WHERE id = ? AND sink = ?`, event.Bytes(), sink); err != nil {
		return fmt.Errorf("event delivered: %w", err)
	}
	return nil
}

// EventFailed implements journal.Outbox.
func (s *Store) EventFailed(ctx context.Context, event uuid.UUID, sink string, wait time.Duration, why string) error {
	now := s.clock()
	_, err := s.change(ctx, `UPDATE outbox SET attempts = attempts + 1, due_at = ?, failed_at = ?, error = ? WHERE id = ? AND sink = ?`,
		now+wait.Milliseconds(), now, why, event.Bytes(), sink)
	if err != nil {
		return fmt.Errorf("event failed: %w", err)
	}
	return nil
}

// The query reads an index, and of each sink the event that failed last.
const outboxStats = `SELECT sink, count(*), min(created_at), coalesce((
		SELECT error FROM outbox WHERE sink = o.sink AND failed_at IS NOT NULL ORDER BY failed_at DESC, id DESC LIMIT 1
	), '') FROM outbox o GROUP BY sink ORDER BY sink`

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
	rows, err := s.r.QueryContext(ctx, outboxStats)
	if err != nil {
		return nil, 0, err
	}
	err = walk(rows, func(scan func(...any) error) error {
		var st journal.OutboxStat
		var oldest int64
		err := scan(&st.Sink, &st.Events, &oldest, &st.Last)
		st.Oldest = toTime(oldest)
		out, n = append(out, st), n+int64(st.Events)
		return err
	})
	return out, n, err
}

// Fired implements journal.Schedules.
func (s *Store) Fired(ctx context.Context) (map[string]time.Time, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT name, fired_at FROM schedules`)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	out := map[string]time.Time{}
	err = walk(rows, func(scan func(...any) error) error {
		var name string
		var at int64
		err := scan(&name, &at)
		out[name] = toTime(at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	return out, nil
}

// SetFired implements journal.Schedules.
func (s *Store) SetFired(ctx context.Context, name string, at time.Time) error {
	_, err := s.change(ctx, `INSERT INTO schedules (name, fired_at) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET fired_at = max(fired_at, excluded.fired_at)`, name, at.UnixMilli())
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	return nil
}
