package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/mutant"
	"recourse/journal"
)

// ErrStranger says that the store has a saga as this node's that the node does not hold. It comes
// about where a database has lost the end of what it had committed, as after an asynchronous
// fail-over: a saga that its node had parked or ended is the node's again, by its old row.
var ErrStranger = errors.New("the database says that this saga is the node's, and the node does not hold it")

// hold takes a run in.
func (l *Lane) hold(r *run) {
	l.runs[r.id] = r
	delete(l.strange, r.id)
}

// reconcile gives up the sagas that were strangers at two looks in a row. One look would not do:
// the list is older than the lane. Nor does the second prove it, and it need not: to give up what
// is another's does nothing, and what is being loaded meanwhile is claimed once more.
func (l *Lane) reconcile(ev Owned) {
	if ev.Node != l.node || l.draining || mutant.On("strangers-stay") {
		return
	}
	strange := make(map[uuid.UUID]bool)
	for _, id := range ev.IDs {
		switch {
		case l.runs[id] != nil:
		case l.strange[id]:
			r := &run{id: id, moved: l.now}
			l.hold(r)
			l.setAside(r, ErrStranger)
		default:
			strange[id] = true
		}
	}
	l.strange = strange
}

// ownedPage is how many ids of its sagas a node reads at once.
const ownedPage = 5000

// findStrangers reads which sagas are the node's, and tells the lanes.
func (e *Engine) findStrangers(quit <-chan struct{}) error {
	node := e.node()
	if node == "" || !e.lease.valid() {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	defer cancel()
	var owned []uuid.UUID
	for after := uuid.Nil; ; after = owned[len(owned)-1] {
		page, err := e.cfg.Store.Owned(ctx, node, after, ownedPage)
		if err != nil {
			return err
		}
		if owned = append(owned, page...); len(page) < ownedPage {
			break
		}
	}
	byLane := make([][]uuid.UUID, len(e.lanes))
	for _, id := range owned {
		if n := e.laneNumber(id); !e.loading.has(id) {
			byLane[n] = append(byLane[n], id)
		}
	}
	for i, l := range e.lanes {
		select {
		case l.events <- Owned{Node: node, IDs: byLane[i]}:
		case <-quit:
		}
	}
	return nil
}

// laneNumber is which lane a saga runs in. The last bytes of a UUIDv7 are random.
func (e *Engine) laneNumber(id uuid.UUID) uint64 {
	return binary.BigEndian.Uint64(id[8:]) % uint64(len(e.lanes))
}

// loading are the sagas that were claimed and are on their way to their lanes.
type loading struct {
	mu    sync.Mutex
	sagas map[uuid.UUID]int // how often each is being loaded
	n     int
	bytes atomic.Int64 // of records that have been read and are not in their lanes yet
}

func (l *loading) begin(claimed ...journal.Claimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sagas == nil {
		l.sagas = make(map[uuid.UUID]int)
	}
	for _, c := range claimed {
		l.sagas[c.Saga]++
		l.n++
	}
}

func (l *loading) end(saga uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sagas[saga]--; l.sagas[saga] == 0 {
		delete(l.sagas, saga)
	}
	l.n--
}

// len is how many sagas are on their way.
func (l *loading) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// has reports whether a saga is on its way.
func (l *loading) has(saga uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sagas[saga] > 0
}
