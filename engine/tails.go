package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// tailKept is how long the end of a journal is remembered after its commit. If a failover loses
// more than that, this node cannot list all of it.
const tailKept = time.Minute

// tails are the ends of the journals that this node has committed recently. After a failover of the
// database they show which acknowledged records are lost.
type tails struct {
	mu    sync.Mutex
	last  map[uuid.UUID]tail
	swept time.Time
}

// tail is the last acknowledged record of a journal. It stands for all records before it, see
// docs/decisions/0012.
type tail struct {
	seq  int64
	hash []byte
	at   time.Time
}

func (t *tails) add(saga uuid.UUID, r journal.Record, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[uuid.UUID]tail)
	}
	t.last[saga] = tail{r.Seq, r.Hash, now}
	if now.Sub(t.swept) < tailKept/4 {
		return
	}
	t.swept = now
	for id, old := range t.last {
		if now.Sub(old.at) > tailKept {
			delete(t.last, id)
		}
	}
}

// drain returns all tails and forgets them.
func (t *tails) drain() map[uuid.UUID]tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last
	t.last = nil
	return last
}

// shownLost is how many sagas with lost records are logged one by one, so that their callers can be
// asked. It only bounds the log: a second of a busy node is far less.
const shownLost = 10_000

// compare counts and logs the acknowledged records that the database no longer has.
func (e *Engine) compare(last map[uuid.UUID]tail) {
	lost := 0
	for id, t := range last {
		gone, err := e.gone(id, t)
		if err != nil {
			e.cfg.Log.Warn("could not compare all records that this node committed before the failover with the database", "error", err)
			break
		}
		if !gone {
			continue
		}
		e.stats.lost.Add(1)
		if lost++; lost <= shownLost {
			e.cfg.Log.Error("the failover lost acknowledged records of a saga: the saga continues from the remaining records, or no longer exists", "saga", id, "seq", t.seq)
		}
	}
	e.cfg.Log.Warn("the database has failed over; this node compared its journals with the records that it committed in the last minute", "sagas", len(last), "lost", lost)
}

// gone reports whether a record is no longer in the database.
func (e *Engine) gone(id uuid.UUID, t tail) (bool, error) {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
		records, err := e.cfg.Store.Records(ctx, id, t.seq-1, 1)
		cancel()
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return true, nil
		case err == nil:
			return len(records) == 0 || !bytes.Equal(records[0].Hash, t.hash), nil
		case try == loadTries:
			return false, err
		}
		select {
		case <-e.storeCtx.Done():
			return false, err
		case <-time.After(50 * time.Millisecond << try):
		}
	}
}
