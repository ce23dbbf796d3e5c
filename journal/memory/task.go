package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// task is a task and its state.
type task struct {
	journal.ClaimedTask // until it is claimed, only Task is set
	createdAt, ended    time.Time
	withdrawn           time.Time
	token               uuid.UUID // nil: not claimed
	leaseFor            time.Duration
	result              *string // nil: it has not ended, or the store has ended it
}

func (s *Store) addTasks(a *journal.Append) {
	for _, t := range a.Tasks {
		if s.tasks[t.ID] != nil {
			continue
		}
		t.Saga, t.Input = a.Saga, slices.Clone(t.Input)
		made := &task{ClaimedTask: journal.ClaimedTask{Task: t}, createdAt: s.clock()}
		made.Claimant = nil
		if c := t.Claimant; c != nil {
			made.claim(c.Worker, c.Token, t.Lease, made.createdAt)
		}
		s.tasks[t.ID] = made
		s.hint()
	}
}

func (s *Store) withdraw(a *journal.Append) {
	for _, id := range a.Withdraw {
		if t := s.tasks[id]; t != nil && t.Saga == a.Saga && t.ended.IsZero() && t.withdrawn.IsZero() {
			t.withdrawn = s.clock()
		}
	}
}

// waits reports whether the task can be claimed.
func (t *task) waits() bool { return t.token.IsNil() && t.withdrawn.IsZero() }

// leased reports whether token has a lease on the task.
func (t *task) leased(token uuid.UUID, now time.Time) bool {
	return t != nil && !token.IsNil() && t.token == token && t.ended.IsZero() && t.Until.After(now)
}

// end returns how and since when a task has ended that was not reaped yet; "" if it has not ended.
func (t *task) end(now time.Time) (journal.TaskEnd, time.Time) {
	switch {
	case !t.ended.IsZero():
	case t.token.IsNil() && !t.withdrawn.IsZero():
		return journal.TaskWithdrawn, t.withdrawn
	case !t.token.IsNil() && !t.Until.After(now):
		return journal.TaskExpired, t.Until
	}
	return "", time.Time{}
}

func (t *task) claim(worker string, token uuid.UUID, lease time.Duration, now time.Time) {
	t.Worker, t.token, t.leaseFor, t.Deadline = worker, token, lease, milli(now.Add(t.Timeout))
	t.beat(now)
}

func (t *task) beat(now time.Time) {
	if t.Until = milli(now.Add(t.leaseFor)); t.Until.After(t.Deadline) {
		t.Until = t.Deadline
	}
}

// end ends a task and sends a message to its saga.
func (s *Store) end(t *task, how *string, m journal.Message) {
	t.ended, t.result, t.Input = s.clock(), how, nil
	m.Saga = t.Saga
	s.deliver(m)
}

// sortedTasks returns the tasks for which keep is true, the oldest first.
func (s *Store) sortedTasks(keep func(*task) bool) []*task {
	var out []*task
	for _, t := range s.tasks {
		if keep(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *task) int { return cmp.Or(a.createdAt.Compare(b.createdAt), journal.CompareID(a.ID, b.ID)) })
	return out
}

// ClaimTasks implements journal.Tasks.
func (s *Store) ClaimTasks(ctx context.Context, c journal.TaskClaim) ([]journal.ClaimedTask, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	defer unlock()
	now := s.clock()
	got := s.sortedTasks(func(t *task) bool { return t.token == c.Token })
	if len(got) == 0 {
		got = first(s.sortedTasks(func(t *task) bool { return t.waits() && slices.Contains(c.Types, t.Type) }), c.Max)
		for _, t := range got {
			t.claim(c.Worker, c.Token, cmp.Or(c.Lease, t.Lease), now)
		}
	}
	var out []journal.ClaimedTask
	for _, t := range got {
		if t.leased(c.Token, now) {
			out = append(out, t.ClaimedTask)
			out[len(out)-1].Input = slices.Clone(t.Input)
		}
	}
	return out, nil
}

// Heartbeat implements journal.Tasks.
func (s *Store) Heartbeat(ctx context.Context, id, token uuid.UUID) (journal.TaskLease, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.TaskLease{}, fmt.Errorf("heartbeat: %w", err)
	}
	defer unlock()
	t, now := s.tasks[id], s.clock()
	if !t.leased(token, now) {
		return journal.TaskLease{}, fmt.Errorf("heartbeat of task %s: %w", id, journal.ErrTaskLost)
	}
	t.beat(now)
	return journal.TaskLease{Until: t.Until, Cancel: !t.withdrawn.IsZero()}, nil
}

// EndTask implements journal.Tasks.
func (s *Store) EndTask(ctx context.Context, id, token uuid.UUID, how string, m journal.Message) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("end task: %w", err)
	}
	defer unlock()
	t := s.tasks[id]
	switch {
	case t.leased(token, s.clock()):
		s.end(t, &how, m)
		return nil
	case t != nil && t.token == token && t.result != nil && *t.result == how:
		return nil // a repetition
	}
	return fmt.Errorf("end task %s: %w", id, journal.ErrTaskLost)
}

// ReapTasks implements journal.Tasks.
func (s *Store) ReapTasks(ctx context.Context, limit int, message func(journal.Task, journal.TaskEnd) journal.Message) (n int, more bool, err error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("reap tasks: %w", err)
	}
	defer unlock()
	now := s.clock()
	over := s.sortedTasks(func(t *task) bool { end, _ := t.end(now); return end != "" })
	slices.SortStableFunc(over, func(a, b *task) int {
		_, atA := a.end(now)
		_, atB := b.end(now)
		return cmp.Or(atA.Compare(atB), journal.CompareID(a.ID, b.ID))
	})
	over = first(over, limit)
	for _, t := range over {
		end, _ := t.end(now)
		s.end(t, nil, message(t.Task, end))
	}
	old := first(s.sortedTasks(func(t *task) bool { return !t.ended.IsZero() && now.Sub(t.ended) > journal.TaskKept }), limit)
	for _, t := range old {
		delete(s.tasks, t.ID)
	}
	return len(over), max(len(over), len(old)) == max(limit, 0), nil
}

// TaskStats implements journal.Tasks.
func (s *Store) TaskStats(ctx context.Context) ([]journal.TaskStat, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("task stats: %w", err)
	}
	defer unlock()
	byType := map[string]*journal.TaskStat{}
	for _, t := range s.sortedTasks(func(t *task) bool { return t.ended.IsZero() && (t.waits() || !t.token.IsNil()) }) {
		st := byType[t.Type]
		if st == nil {
			st = &journal.TaskStat{Type: t.Type}
			byType[t.Type] = st
		}
		if t.waits() {
			st.Waiting++
			st.Oldest = earlier(st.Oldest, t.createdAt)
		} else {
			st.Claimed++
		}
	}
	var out []journal.TaskStat
	for _, name := range sortedKeys(byType) {
		out = append(out, *byType[name])
	}
	slices.SortStableFunc(out, func(a, b journal.TaskStat) int {
		if a.Oldest.IsZero() || b.Oldest.IsZero() {
			return -a.Oldest.Compare(b.Oldest) // a type without waiting tasks comes last
		}
		return a.Oldest.Compare(b.Oldest)
	})
	return out, nil
}
