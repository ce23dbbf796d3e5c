package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// stallLimit bounds how many stalls of each kind one search finds.
const stallLimit = 500

// shownFor is for how many intervals a stall stays listed after it was last found.
const shownFor = 4

// stalls are the stalls that the lanes have found since the last search of the store.
type stalls struct {
	scans outage

	mu  sync.Mutex
	new map[uuid.UUID]journal.Stall
}

func (s *stalls) found(f journal.Stall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.new == nil {
		s.new = make(map[uuid.UUID]journal.Stall)
	}
	s.new[f.ID] = f
}

// drain returns the stalls and forgets them.
func (s *stalls) drain() (list []journal.Stall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.new {
		list = append(list, f)
	}
	s.new = nil
	return list
}

// findStalls records stalled sagas and steps, about every Config.StallScan. Every node does so.
// Several nodes may find the same stall in the store, and the first one sends the notification.
func (e *Engine) findStalls(quit <-chan struct{}) {
	for {
		every := e.cfg.StallScan
		select {
		case <-quit:
			return
		case <-time.After(every - every/4 + rand.N(every/2+1)):
		}
		if e.stopping.Load() {
			continue
		}
		if err := e.noteStalls(); e.storeCtx.Err() == nil {
			e.stalls.scans.observe(err)
		}
		if err := e.findUnheld(quit); e.storeCtx.Err() == nil {
			e.unheld.observe(err)
		}
	}
}

// noteStalls records the stalls that the lanes found, and those in the store.
func (e *Engine) noteStalls() error {
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	defer cancel()
	own := e.stalls.drain()
	list, err := e.cfg.Store.FindStalls(ctx, e.cfg.StallAfter, stallLimit)
	list = append(list, own...) // own stalls are recorded even if the search fails
	if len(list) == 0 {
		return err
	}
	notices := make([]journal.StallNotice, len(list))
	for i, f := range list {
		notices[i].Stall = f
		if e.cfg.Notices != nil {
			notices[i].Events = e.cfg.Notices.Stalled(f, e.Now())
		}
	}
	fresh, noteErr := e.cfg.Store.NoteStalls(ctx, notices, shownFor*max(e.cfg.StallScan, e.cfg.Watch))
	if noteErr != nil {
		for _, f := range own {
			e.stalls.found(f)
		}
		return noteErr
	}
	if fresh > 0 {
		e.cfg.Log.Warn("sagas or steps are stalled: GET /v1/stalled, or `recourse stalled`, lists them", "new", fresh, "all", len(list))
	}
	return err
}
