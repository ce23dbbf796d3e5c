package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"recourse/saga"
)

// expireBatch is how many sagas are deleted at once, at most.
const expireBatch = 500

// deleteAt says when a saga that ended at `ended` may be deleted; zero: never, or it has not ended.
func (c *LaneConfig) deleteAt(def *saga.Definition, ended time.Time) time.Time {
	keep := def.Retention
	if keep == 0 {
		keep = c.Retention
	}
	if ended.IsZero() || keep <= 0 {
		return time.Time{}
	}
	return ended.Add(keep)
}

// expire deletes the sagas whose retention is over, about every Config.Expire. Every node does:
// what one is deleting the others pass over.
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

// deleteExpired deletes batch after batch until nothing is left, or one fails. It returns how large
// the next one should be: after a failure smaller, since very long journals take very long to
// delete.
func (e *Engine) deleteExpired(batch int) int {
	for !e.stopping.Load() {
		ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
		n, err := e.cfg.Store.DeleteExpired(ctx, batch)
		cancel()
		if err != nil {
			if e.storeCtx.Err() == nil {
				e.expiries.observe(err)
			}
			return max(batch/8, 1)
		}
		e.expiries.observe(nil)
		e.stats.expired.Add(int64(n))
		if n < batch {
			break
		}
		batch = min(2*batch, expireBatch)
	}
	return batch
}
