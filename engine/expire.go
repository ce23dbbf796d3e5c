package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"recourse/saga/machine"
)

const (
	expireBatch = 500              // sagas that a node asks the store to delete at once
	expireTime  = 10 * time.Minute // time for that: a single saga may have very much content
)

// undoDelay is how long a start that was begun in time may be on its way to the store: longer than
// a node's lease lasts, without which nothing is committed.
const undoDelay = time.Minute

// deleteAt returns when a saga that ended at `ended` may be deleted; zero: never, or it has not
// ended. A saga that can be undone later is kept until undoDelay after that, and so is the saga
// that undoes it, because it is what prevents a second undo.
func (c *LaneConfig) deleteAt(m *machine.Machine, ended time.Time) time.Time {
	keep := m.Definition().Retention
	if keep == 0 {
		keep = c.Retention
	}
	if ended.IsZero() || keep <= 0 {
		return time.Time{}
	}
	at := ended.Add(keep)
	if until := m.UndoUntil(); !until.IsZero() && until.Add(undoDelay).After(at) {
		return until.Add(undoDelay)
	}
	return at
}

// expire deletes the sagas whose retention has ended, about every Config.Expire, unless they are
// archived first. Every node does so: a node skips the sagas that another node is deleting.
func (e *Engine) expire(quit <-chan struct{}) {
	batch := expireBatch
	for {
		every := e.cfg.Expire
		select {
		case <-quit:
			return
		case <-time.After(every - every/4 + rand.N(every/2+1)): // nodes that were started together spread out
		}
		batch = e.deleteExpired(batch)
	}
}

// deleteExpired deletes batches until no saga is left, or a batch fails. It returns the size of the
// next batch, which is smaller after a failure: very long journals take very long to delete.
func (e *Engine) deleteExpired(batch int) int {
	for !e.stopping.Load() {
		ctx, cancel := context.WithTimeout(e.storeCtx, expireTime)
		archived, err := e.cfg.Archived(ctx)
		n := 0
		if !archived && err == nil {
			n, err = e.cfg.Store.DeleteExpired(ctx, batch)
		}
		cancel()
		e.stats.expired.Add(int64(n))
		if err != nil {
			if e.storeCtx.Err() == nil {
				e.expiries.observe(err)
			}
			return max(batch/8, 1)
		}
		e.expiries.observe(nil)
		if n < batch {
			break
		}
		batch = min(2*batch, expireBatch)
	}
	return batch
}
