package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// stallLimit bounds what one look finds of each kind.
const stallLimit = 500

// shownFor is how many looks, of lanes and in the store, a stall is listed for after it was found
// last.
const shownFor = 4

// stalls are what the lanes have found since the last look.
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

// drain returns what was found, and forgets it.
func (s *stalls) drain() (list []journal.Stall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.new {
		list = append(list, f)
	}
	s.new = nil
	return list
}

// lookForStalls writes down what is stalled, about every Config.Look. Every node does: what it
// finds in the store others find as well, and the first one tells of it.
func (e *Engine) lookForStalls(quit <-chan struct{}) {
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
		if err := e.findStrangers(quit); e.storeCtx.Err() == nil {
			e.strangers.observe(err)
		}
	}
}

// noteStalls looks once.
func (e *Engine) noteStalls() error {
	ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
	defer cancel()
	own := e.stalls.drain()
	list, err := e.cfg.Store.FindStalls(ctx, e.cfg.StallAfter, stallLimit)
	list = append(list, own...) // what this node has found itself is told of even if the store finds nothing
	if len(list) == 0 {
		return err
	}
	told := make([]journal.StallNotice, len(list))
	for i, f := range list {
		told[i].Stall = f
		if e.cfg.Notices != nil {
			told[i].Events = e.cfg.Notices.Stalled(f, e.Now())
		}
	}
	fresh, noted := e.cfg.Store.NoteStalls(ctx, told, shownFor*max(e.cfg.StallScan, e.cfg.Watch))
	if noted != nil {
		for _, f := range own {
			e.stalls.found(f)
		}
		return noted
	}
	if fresh > 0 {
		e.cfg.Log.Warn("sagas or steps are stalled: GET /v1/stalled, or `recourse stalled`, lists them", "new", fresh, "all", len(list))
	}
	return err
}
