package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// ErrUnheld is why a lane releases a saga that this node owns according to the store, but does
// not run. This happens if the database has lost its last commits, for example in an asynchronous
// failover: a saga that its node had parked or ended belongs to the node again, because its old row
// says so.
var ErrUnheld = errors.New("the database lists this saga as the node's, but the node does not run it; it was released")

// add puts a run into the lane.
func (l *Lane) add(r *run) {
	l.runs[r.id] = r
	delete(l.unheld, r.id)
}

// reconcile finds the sagas that two Owned in a row list and that the lane does not run. One is not
// enough: the list is older than the state of the lane.
func (l *Lane) reconcile(ev Owned) {
	if ev.Node != l.node || l.draining {
		return
	}
	unheld := make(map[uuid.UUID]bool)
	for _, id := range ev.IDs {
		switch {
		case l.runs[id] != nil:
		case l.unheld[id]:
			l.emit(FoundUnheld{ID: id, Node: l.node})
		default:
			unheld[id] = true
		}
	}
	l.unheld = unheld
}

// releaseUnheld releases an unheld saga as of the last record of its journal. Two Owned do not
// prove that the node does not run the saga. They need not: releasing a saga of another node has no
// effect, and a saga that is being loaded is claimed again.
func (l *Lane) releaseUnheld(ev Unheld) {
	if ev.Node != l.node || l.draining || l.runs[ev.ID] != nil {
		return
	}
	r := &run{id: ev.ID, moved: l.now}
	l.add(r)
	l.giveUp(r, ErrUnheld)
	r.next.Seq = ev.Seq
}

// ownedPage is how many ids of its sagas a node reads at once.
const ownedPage = 5000

// findUnheld reads which sagas the node owns, and passes the lists to the lanes.
func (e *Engine) findUnheld(quit <-chan struct{}) error {
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

// inspect reads the end of an unheld saga's journal for its lane. If that fails, a later findUnheld
// finds it again.
func (e *Engine) inspect(quit <-chan struct{}, eff FoundUnheld) {
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	defer cancel()
	seq, err := LastSeq(ctx, e.cfg.Store, eff.ID, eff.Node)
	if err != nil {
		e.cfg.Log.Warn("could not read a saga that the database lists as this node's but that it does not run; the node will retry", "saga", eff.ID, "error", err)
		return
	}
	if seq == 0 {
		return
	}
	select {
	case e.laneOf(eff.ID).events <- Unheld{ID: eff.ID, Node: eff.Node, Seq: seq}:
	case <-quit:
	}
}

// LastSeq returns the seq of the last record of a saga; 0: the node does not own it.
func LastSeq(ctx context.Context, store journal.Store, id uuid.UUID, node string) (int64, error) {
	head, err := store.Saga(ctx, id)
	if err != nil || head.Owner != node {
		if errors.Is(err, journal.ErrNotFound) {
			err = nil
		}
		return 0, err
	}
	const page = 100
	for last := head.Seq; ; {
		records, err := store.Records(ctx, id, last, page)
		if err != nil {
			return 0, err
		}
		last += int64(len(records))
		if len(records) < page {
			return last, nil
		}
	}
}

// laneNumber returns the lane that a saga runs in. The last bytes of a UUIDv7 are random.
func (e *Engine) laneNumber(id uuid.UUID) uint64 {
	return binary.BigEndian.Uint64(id[8:]) % uint64(len(e.lanes))
}

// loading counts the sagas that were claimed and have not reached their lanes yet.
type loading struct {
	mu    sync.Mutex
	sagas map[uuid.UUID]int // how often each is being loaded
	n     int
	bytes atomic.Int64 // of records that have been read and have not reached their lanes yet
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

// len returns how many sagas are being loaded.
func (l *loading) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// has reports whether a saga is being loaded.
func (l *loading) has(saga uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sagas[saga] > 0
}
