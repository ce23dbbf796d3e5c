package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/internal/quota"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// claimBatch is how many sagas are claimed at once. On SQLite, claims and commits take turns, so it
// is as large as a commit: with smaller claims, the commits of the first claimed sagas would delay
// the claims of the others after a crash.
const claimBatch = 512

// scan reads messages and claims sagas, at every poll and at every hint of the store.
func (e *Engine) scan(quit <-chan struct{}) {
	every := time.NewTicker(e.cfg.Poll)
	defer every.Stop()
	for {
		claims := true
		select {
		case <-quit:
			return
		case <-every.C:
		case <-e.wake:
		case <-e.more:
			claims = false
		case <-e.cfg.Store.Hints():
		}
		if e.node() == "" || !e.lease.valid() {
			continue
		}
		e.deliver()
		e.health.recheck(e.storeCtx)
		for claims && !e.stopping.Load() && e.claim(quit) == claimBatch {
		}
	}
}

// claim claims due sagas that no node owns, as far as there is room, and loads them. It returns how
// many.
func (e *Engine) claim(quit <-chan struct{}) int {
	node := e.node()
	room := min(claimBatch, e.cfg.MaxRunning-e.running()-e.loading.len())
	if node == "" || room <= 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	claimed, err := e.cfg.Store.Claim(ctx, node, room)
	e.claims.observe(err)
	if err != nil {
		return 0
	}
	e.loading.begin(claimed...)
	var sagas []journal.Claimed
	now := e.Now()
	for _, c := range claimed {
		e.cfg.Meter.Claimed(max(now.Sub(c.Due), 0))
		if c.Claims > journal.SuspectAfter {
			e.work.Go(func() { e.begin(quit, node, c) })
		} else {
			sagas = append(sagas, c)
		}
	}
	for some := range slices.Chunk(sagas, loadBatch) {
		e.work.Go(func() { e.loadAll(quit, node, some) })
	}
	return len(claimed)
}

// loadBatch is how many sagas are read at once, with up to so many records of each. Most sagas have
// fewer. Large sagas, and sagas with large messages, are read one by one.
const loadBatch = 32

// loadAll reads claimed sagas and passes them to their lanes. It leaves those that it cannot read
// completely to load.
func (e *Engine) loadAll(quit <-chan struct{}, node string, claimed []journal.Claimed) {
	ids := make([]uuid.UUID, len(claimed))
	var addressed []uuid.UUID
	for i, c := range claimed {
		ids[i] = c.Saga
		if c.Messages > 0 {
			addressed = append(addressed, c.Saga)
		}
	}
	e.loaders <- struct{}{}
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	begins, err := e.cfg.Store.Begins(ctx, ids, loadBatch, e.cfg.MaxBytes)
	var unread []journal.Message
	if err == nil && len(addressed) > 0 {
		unread, err = e.cfg.Store.Messages(ctx, addressed, messagePage, loadBatch*quota.Free)
	}
	cancel()
	<-e.loaders
	if err != nil {
		begins = nil // load gets the same error again, and handles it
	}
	messages := make(map[uuid.UUID][]journal.Message, len(addressed))
	for _, m := range unread {
		messages[m.Saga] = append(messages[m.Saga], m)
	}
	for _, c := range claimed {
		known, unread := begins[c.Saga], messages[c.Saga]
		if known != nil && len(unread) >= c.Messages && size(known)+messageBytes(unread) <= quota.Free {
			if ev, err := e.read(node, c, known, unread); err == nil {
				e.loaded(quit, ev)
				continue
			}
		}
		e.work.Go(func() { e.load(quit, node, c) }) // it may take long, and the others must not wait for it
	}
}

// loaded passes a saga to its lane.
func (e *Engine) loaded(quit <-chan struct{}, ev Loaded) {
	defer e.loading.end(ev.Claimed.Saga)
	e.loading.bytes.Add(int64(size(ev.Records)))
	ev.Memory = e.window.Load(ev.Claimed, ev.Messages)
	failpoint.Hit("load.after")
	ev.At = e.lease.latest()
	select {
	case e.laneOf(ev.Claimed.Saga).events <- ev:
	case <-quit:
	}
}

// begin loads a suspect. Claim returns at most one suspect, so the next scan starts as soon as this
// one has made progress.
func (e *Engine) begin(quit <-chan struct{}, node string, c journal.Claimed) {
	grown, stop := e.hub.watch(c.Saga)
	defer stop()
	e.load(quit, node, c)
	select {
	case <-grown:
		e.wakeScanner()
	case <-time.After(e.cfg.Poll): // a scan starts by itself by then
	case <-quit:
	}
}

// loadTries is how often a saga is read before it is given up for a while.
const loadTries = 8

// load reads a claimed saga and passes it to its lane. It retries while the store fails, because
// this node owns the saga.
func (e *Engine) load(quit <-chan struct{}, node string, c journal.Claimed) {
	e.large <- struct{}{}
	defer func() { <-e.large }()
	e.awaitMemory(quit, node)
	for try := 1; ; try++ {
		ev, err := e.read(node, c, nil, nil)
		if err == nil || try == loadTries {
			if err != nil {
				ev.Err = err
			}
			e.loaded(quit, ev)
			return
		}
		e.cfg.Log.Warn("could not read a saga's journal; the node will retry", "saga", c.Saga, "error", err)
		select {
		case <-quit:
			e.loading.end(c.Saga)
			return
		case <-time.After(min(50*time.Millisecond<<try, 2*time.Second)):
		}
		if e.node() != node {
			e.loading.end(c.Saga)
			return
		}
	}
}

// memoryPoll is the interval at which a load that waits for memory checks for it.
const memoryPoll = 20 * time.Millisecond

// awaitMemory waits until the sagas in memory take less than Config.SagaBytes, or this node no
// longer writes as node.
func (e *Engine) awaitMemory(quit <-chan struct{}, node string) {
	for e.sagaBytes() > int64(e.cfg.SagaBytes) && e.node() == node {
		select {
		case <-quit:
			return
		case <-time.After(memoryPoll):
		}
	}
}

// size returns the size of the records' data.
func size(records []journal.Record) (n int) {
	for i := range records {
		n += len(records[i].Data)
	}
	return n
}

// recordsPage is how many records are read at once.
const recordsPage = 1000

// read reads a saga and its messages. known may be its first loadBatch records. A saga that makes
// its reader panic counts as unreadable.
func (e *Engine) read(node string, c journal.Claimed, known []journal.Record, unread []journal.Message) (ev Loaded, err error) {
	e.loaders <- struct{}{}
	defer func() { <-e.loaders }()
	defer func() {
		if p := recover(); p != nil {
			ev.Err, err = fmt.Errorf("panic: %v", p), nil
		}
	}()
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	defer cancel()
	ev = Loaded{Claimed: c, Node: node}
	ev.Records = slices.Clip(known)
	for len(known) == 0 || len(known) == loadBatch {
		page, err := e.cfg.Store.Records(ctx, c.Saga, int64(len(ev.Records)), recordsPage)
		if err != nil {
			return ev, err
		}
		ev.Records = append(ev.Records, page...)
		if len(page) < recordsPage {
			break
		}
	}
	if ev.Messages = unread; known == nil && c.Messages > 0 {
		if ev.Messages, err = e.cfg.Store.Messages(ctx, []uuid.UUID{c.Saga}, messagePage, e.cfg.MessageBytes); err != nil {
			return ev, err
		}
	}
	d, err := history.Started(ev.Records)
	if err != nil {
		ev.Err = fmt.Errorf("%w: %w", saga.ErrUnreadable, err)
		return ev, nil
	}
	if ev.Def, err = e.cfg.Definitions.Of(ctx, &d); errors.Is(err, saga.ErrUnusable) {
		ev.Err = err
		return ev, nil
	} else if err != nil {
		return ev, err
	}
	ev.Err = journal.Verify(c.Saga, nil, 1, ev.Records)
	return ev, nil
}
