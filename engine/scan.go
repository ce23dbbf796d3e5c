package engine

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/saga"
)

// claimBatch is how many sagas are claimed at once.
const claimBatch = 256

// loaders is how many journals are read at once.
const loaders = 8

// scan looks for mail and for sagas to claim: at every poll, and at every hint.
func (e *Engine) scan(quit <-chan struct{}) {
	every := time.NewTicker(e.cfg.Poll)
	defer every.Stop()
	tokens := make(chan struct{}, loaders)
	for {
		select {
		case <-quit:
			return
		case <-every.C:
		case <-e.poke:
		case <-e.cfg.Store.Hints():
		}
		if !e.lease.valid() {
			continue
		}
		e.deliver()
		for !e.stopping.Load() && e.claim(quit, tokens) == claimBatch {
		}
	}
}

// deliver hands the lanes the mail of this node's sagas.
func (e *Engine) deliver() {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	mail, err := e.cfg.Store.Mail(ctx, e.lease.node(), 1000)
	if err != nil {
		e.cfg.Log.Warn("could not read the mail", "error", err)
		return
	}
	bySaga := make(map[uuid.UUID][]journal.Mail)
	var order []uuid.UUID
	for _, m := range mail {
		if bySaga[m.Saga] == nil {
			order = append(order, m.Saga)
		}
		bySaga[m.Saga] = append(bySaga[m.Saga], m)
	}
	for _, id := range order {
		e.laneOf(id).events <- Mailed{ID: id, Mail: bySaga[id]}
	}
}

// claim takes sagas that nobody owns and that are due, as far as there is room,
// and loads them. It returns how many.
func (e *Engine) claim(quit <-chan struct{}, tokens chan struct{}) int {
	room := min(claimBatch, e.cfg.MaxRunning-e.running())
	if room <= 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	node := e.lease.node()
	claimed, err := e.cfg.Store.Claim(ctx, node, room)
	if err != nil {
		e.cfg.Log.Warn("could not claim sagas", "error", err)
		return 0
	}
	failpoint.Hit("claim.after")
	for _, c := range claimed {
		tokens <- struct{}{}
		e.work.Go(func() {
			defer func() { <-tokens }()
			e.load(quit, node, c)
		})
	}
	return len(claimed)
}

// load reads a claimed saga and hands it to its lane. While the store does not
// answer it tries again: the saga is this node's.
func (e *Engine) load(quit <-chan struct{}, node string, c journal.Claimed) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ev, err := e.read(c)
		if err == nil {
			failpoint.Hit("load.after")
			e.laneOf(c.Saga).events <- ev
			return
		}
		e.cfg.Log.Warn("could not load a saga", "saga", c.Saga, "error", err)
		select {
		case <-quit:
			return
		case <-time.After(pause):
		}
		if e.lease.node() != node {
			return
		}
	}
}

// recordsPage is how many records are read at once.
const recordsPage = 1000

func (e *Engine) read(c journal.Claimed) (Loaded, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ev := Loaded{ID: c.Saga, Mail: c.Mail}
	var err error
	if ev.Def, err = e.cfg.Definitions.Definition(ctx, c.Definition, c.Version); err != nil {
		if errors.Is(err, saga.ErrUnusable) || errors.Is(err, journal.ErrNotFound) {
			ev.Err = err
			return ev, nil
		}
		return ev, err
	}
	for {
		page, err := e.cfg.Store.Records(ctx, c.Saga, int64(len(ev.Records)), recordsPage)
		if err != nil {
			return ev, err
		}
		ev.Records = append(ev.Records, page...)
		if len(page) < recordsPage {
			break
		}
	}
	ev.Err = journal.Verify(c.Saga, nil, 1, ev.Records)
	return ev, nil
}
