package wire_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// taskOperations are those of tasks, of the outbox and of schedules, and the appends that have
// something for them.
var taskOperations = []operation{
	{"Append", "a task and an event", func(b *bench) attempt {
		a := b.begun()
		n := next(a)
		n.Tasks, n.Events = []journal.Task{task()}, []journal.Event{{ID: newID(), Sink: "s"}}
		return b.appending(func(s journal.Store) (bool, error) {
			return b.along(s, a.Saga, `SELECT (SELECT count(*) FROM tasks WHERE id = $1) + (SELECT count(*) FROM outbox WHERE id = $2)`, 2, n.Tasks[0].ID.String(), n.Events[0].ID.String())
		}, n)
	}},
	{"Append", "a task withdrawn", func(b *bench) attempt {
		a, t := b.tasked()
		n := next(a)
		n.Withdraw = []uuid.UUID{t.ID}
		return b.appending(func(s journal.Store) (bool, error) {
			return b.along(s, a.Saga, `SELECT count(*) FROM tasks WHERE id = $1 AND withdrawn AND ends_at IS NOT NULL`, 1, t.ID.String())
		}, n)
	}},
	{"Append", "mail to another saga", func(b *bench) attempt {
		a, other := b.begun(), b.parked()
		n := next(a)
		n.Messages = []journal.Message{{ID: newID(), Saga: other, Kind: "signal"}, {ID: newID(), Saga: newID(), Kind: "signal"}}
		return b.appending(func(s journal.Store) (bool, error) {
			return b.along(s, a.Saga, `SELECT pending_messages FROM sagas WHERE id = $1`, 1, other.String())
		}, n)
	}},
	{"ClaimTasks", "a task", func(b *bench) attempt {
		_, t := b.tasked()
		c := journal.TaskClaim{Worker: "w", Types: []string{t.Type}, Max: 1, Token: newID()}
		handed := false
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				list, err := s.ClaimTasks(ctx, c)
				handed = handed || err == nil && len(list) == 1 && list[0].ID == t.ID
				return err
			},
			done: func(journal.Store) (bool, error) {
				return b.counted(`SELECT count(*) FROM tasks WHERE id = $1 AND token = $2`, t.ID.String(), c.Token.String())
			},
			right: func() error {
				if !handed {
					return errors.New("the task is claimed, but its claimer got no response")
				}
				return nil
			},
		}
	}},
	{"Heartbeat", "a task's", func(b *bench) attempt {
		_, t, token := b.claimed()
		_, err := b.conn.Exec(context.Background(), `UPDATE tasks SET ends_at = ends_at - 60000 WHERE id = $1`, t.ID.String())
		must(err)
		var until time.Time
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				l, err := s.Heartbeat(ctx, t.ID, token)
				until = l.Until
				return err
			},
			done: func(journal.Store) (bool, error) {
				return b.counted(`SELECT count(*) FROM tasks WHERE id = $1 AND ends_at > $2`, t.ID.String(), time.Now().Add(ttl-30*time.Second).UnixMilli())
			},
			right: func() error {
				if time.Until(until) < ttl-time.Minute {
					return fmt.Errorf("the lease is until %v", until)
				}
				return nil
			},
		}
	}},
	{"EndTask", "a task that is claimed", func(b *bench) attempt {
		saga, t, token := b.claimed()
		m := journal.Message{ID: newID(), Saga: saga, Kind: "result"}
		return attempt{
			do:   func(ctx context.Context, s journal.Store) error { return s.EndTask(ctx, t.ID, token, "done", m) },
			done: func(journal.Store) (bool, error) { return b.ended(saga, t.ID) },
		}
	}},
	{"ReapTasks", "a task that was withdrawn", func(b *bench) attempt {
		a, t := b.tasked()
		b.append(journal.Append{Saga: a.Saga, Withdraw: []uuid.UUID{t.ID}})
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				_, _, err := s.ReapTasks(ctx, 100, func(t journal.Task, f journal.TaskEnd) journal.Message {
					return journal.Message{ID: newID(), Saga: t.Saga, Kind: string(f)}
				})
				return err
			},
			done: func(journal.Store) (bool, error) { return b.ended(a.Saga, t.ID) },
		}
	}},
	{"ReapTasks", "a task that ended long ago", func(b *bench) attempt {
		saga, t, token := b.claimed()
		must(b.EndTask(context.Background(), t.ID, token, "done", journal.Message{ID: newID(), Saga: saga}))
		_, err := b.conn.Exec(context.Background(), `UPDATE tasks SET ended_at = 1 WHERE id = $1`, t.ID.String())
		must(err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, _, err := s.ReapTasks(ctx, 100, nil); return err },
			done: func(journal.Store) (bool, error) {
				left, err := b.counted(`SELECT count(*) FROM tasks WHERE id = $1`, t.ID.String())
				return !left, err
			},
		}
	}},
	{"ClaimEvents", "an event", func(b *bench) attempt {
		e := b.evented()
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				_, err := s.ClaimEvents(ctx, []string{"s"}, 100, ttl)
				return err
			},
			done: func(journal.Store) (bool, error) {
				return b.counted(`SELECT count(*) FROM outbox WHERE id = $1 AND due_at > created_at`, e.String())
			},
		}
	}},
	{"EventDelivered", "an event", func(b *bench) attempt {
		e := b.evented()
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.EventDelivered(ctx, e, "s") },
			done: func(journal.Store) (bool, error) {
				left, err := b.counted(`SELECT count(*) FROM outbox WHERE id = $1`, e.String())
				return !left, err
			},
		}
	}},
	{"EventFailed", "an event", func(b *bench) attempt {
		e := b.evented()
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.EventFailed(ctx, e, "s", ttl, "refused") },
			done: func(journal.Store) (bool, error) {
				return b.counted(`SELECT count(*) FROM outbox WHERE id = $1 AND attempts > 0`, e.String())
			},
		}
	}},
	{"PutEvents", "two events", func(b *bench) attempt {
		e := journal.Event{ID: newID(), Sink: "s", Data: []byte(`{}`)}
		twin := e
		twin.Sink = "t"
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.PutEvents(ctx, []journal.Event{e, twin}) },
			done: func(journal.Store) (bool, error) {
				first, err := b.counted(`SELECT count(*) FROM outbox WHERE id = $1 AND sink = 's'`, e.ID.String())
				second, err2 := b.counted(`SELECT count(*) FROM outbox WHERE id = $1 AND sink = 't'`, e.ID.String())
				if first != second {
					err2 = errors.Join(err2, fmt.Errorf("stored for s: %v, for t: %v", first, second))
				}
				return first, errors.Join(err, err2)
			},
		}
	}},
	{"NoteStalls", "a stall", func(b *bench) attempt {
		found, err := journal.Stall{Saga: b.begun().Saga, Definition: "d", Version: 1, Kind: journal.StallUnclaimed, Since: time.UnixMilli(5)}.Found("")
		must(err)
		event := journal.Event{ID: newID(), Sink: "s", Data: []byte(`{}`)}
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				_, err := s.NoteStalls(ctx, []journal.StallNotice{{Stall: found, Events: []journal.Event{event}}}, ttl)
				return err
			},
			done: func(journal.Store) (bool, error) {
				noted, err := b.counted(`SELECT count(*) FROM stalls WHERE id = $1`, found.ID.String())
				queued, err2 := b.counted(`SELECT count(*) FROM outbox WHERE id = $1`, event.ID.String())
				if noted != queued {
					err2 = errors.Join(err2, fmt.Errorf("noted: %v, sent: %v", noted, queued))
				}
				return noted, errors.Join(err, err2)
			},
		}
	}},
	{"SetFired", "a schedule", func(b *bench) attempt {
		name := newID().String()
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.SetFired(ctx, name, time.UnixMilli(5)) },
			done: func(s journal.Store) (bool, error) {
				all, err := s.Fired(context.Background())
				return !all[name].IsZero(), err
			},
		}
	}},
}

// task is one of a type of its own.
func task() journal.Task {
	return journal.Task{ID: newID(), Type: newID().String(), Lease: ttl, Timeout: 2 * ttl}
}

// tasked makes a saga that has a task.
func (b *bench) tasked() (journal.Append, journal.Task) {
	a, t := start(), task()
	a.Tasks = []journal.Task{t}
	b.append(a)
	return a, t
}

// claimed makes a saga whose task is claimed under the token.
func (b *bench) claimed() (saga uuid.UUID, t journal.Task, token uuid.UUID) {
	a, t := b.tasked()
	token = newID()
	list, err := b.ClaimTasks(context.Background(), journal.TaskClaim{Types: []string{t.Type}, Max: 1, Token: token})
	must(err)
	if len(list) != 1 {
		panic(fmt.Sprintf("claimed %d tasks", len(list)))
	}
	return a.Saga, t, token
}

// evented makes a saga that has an event for sink s.
func (b *bench) evented() uuid.UUID {
	a := start()
	a.Events = []journal.Event{{ID: newID(), Sink: "s"}}
	b.append(a)
	return a.Events[0].ID
}

// counted asks the tables whether there is one, as not all shows elsewhere.
func (b *bench) counted(query string, args ...any) (bool, error) {
	var n int
	err := b.conn.QueryRow(context.Background(), query, args...).Scan(&n)
	if n > 1 {
		err = errors.Join(err, fmt.Errorf("there are %d of it", n))
	}
	return n == 1, err
}

// ended wants a task to have ended, and its saga to have one message about it, or neither.
func (b *bench) ended(saga, task uuid.UUID) (bool, error) {
	over, err := b.counted(`SELECT count(*) FROM tasks WHERE id = $1 AND ended_at IS NOT NULL`, task.String())
	n, err2 := b.waiting(saga)
	if n > 1 || over != (n == 1) {
		err2 = errors.Join(err2, fmt.Errorf("the task has ended: %v, and its saga has %d messages", over, n))
	}
	return over, errors.Join(err, err2)
}

// along wants so many of something if a saga has its second record, and none if it does not.
func (b *bench) along(s journal.Store, saga uuid.UUID, query string, want int, args ...any) (bool, error) {
	done, err := journals(2, saga)(s)
	if !done {
		want = 0
	}
	var n int
	err2 := b.conn.QueryRow(context.Background(), query, args...).Scan(&n)
	if n != want {
		err2 = errors.Join(err2, fmt.Errorf("%d of what came along, want %d", n, want))
	}
	return done, errors.Join(err, err2)
}
