package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// gatherBeats is how long a heartbeat waits for others that share its transaction, if another one
// came within this time before it. Thousands of tasks in progress would otherwise cost a durable
// commit for each heartbeat.
const gatherBeats = 10 * time.Millisecond

// heartbeats are the heartbeats that wait for their transaction.
type heartbeats struct {
	mu      sync.Mutex
	waiting []*heartbeat // guarded by mu
	last    time.Time    // when one came. Guarded by mu
}

type heartbeat struct {
	task, token uuid.UUID
	lease       journal.TaskLease
	err         error
	done        chan struct{} // closed when lease and err are set
}

// add adds a heartbeat. commit is called soon, for all that wait by then.
func (q *heartbeats) add(b *heartbeat, commit func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	wait := gatherBeats
	if now.Sub(q.last) > gatherBeats {
		wait = 0
	}
	q.last = now
	if q.waiting = append(q.waiting, b); len(q.waiting) == 1 {
		time.AfterFunc(wait, commit)
	}
}

func (q *heartbeats) take() []*heartbeat {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.waiting
	q.waiting = nil
	return list
}

// Heartbeat implements journal.Tasks.
func (s *Store) Heartbeat(ctx context.Context, task, token uuid.UUID) (journal.TaskLease, error) {
	b := &heartbeat{task: task, token: token, done: make(chan struct{})}
	err := ctx.Err()
	if err == nil {
		s.beats.add(b, s.commitBeats)
		select {
		case <-b.done:
			err = b.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return journal.TaskLease{}, fmt.Errorf("heartbeat of task %s: %w", task, err)
	}
	return b.lease, nil
}

// commitBeats commits the heartbeats that wait. A task that is lost fails only its own.
func (s *Store) commitBeats() {
	var list []*heartbeat
	err := s.w.do(context.Background(), func(t *tx) error {
		list = s.beats.take() // now, so that those are in it that came while another transaction ran
		now := s.clock()
		for _, b := range list {
			var until int64
			b.err = lost(t.row(`UPDATE tasks SET ends_at = min(? + claim_lease, deadline) WHERE id = ? AND token = ? AND ended_at IS NULL AND ends_at > ?
				RETURNING ends_at, withdrawn`, []any{now, b.task.Bytes(), b.token.Bytes(), now}, &until, &b.lease.Cancel))
			if b.lease.Until = toTime(until); b.err != nil && !errors.Is(b.err, journal.ErrTaskLost) {
				return b.err
			}
		}
		return nil
	})
	if err != nil && list == nil { // the transaction did not begin
		list = s.beats.take()
	}
	for _, b := range list {
		if err != nil {
			b.err = err
		}
		close(b.done)
	}
}
