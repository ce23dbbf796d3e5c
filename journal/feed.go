package journal

import (
	"slices"
	"sync"
)

// mostFed is the most records that a feed keeps.
const mostFed = 256

// Feed has the newest records that one node has appended to the journal of a saga since the feed
// began, so that a reader on this node need not read them from the store. Its methods may be called
// concurrently.
type Feed struct {
	grown chan struct{}
	stop  func()

	mu      sync.Mutex
	records []Record // consecutive. Guarded by mu
}

// NewFeed returns a feed without records. stop is called by Stop.
func NewFeed(stop func()) *Feed { return &Feed{grown: make(chan struct{}, 1), stop: stop} }

// Grown receives a value after the feed has got records. Several appends may result in one value.
func (f *Feed) Grown() <-chan struct{} { return f.grown }

// Stop ends the feed.
func (f *Feed) Stop() { f.stop() }

// Add adds the records of an append, of which there is at least one. If they do not follow those
// that the feed has, because another node has appended some between them, it begins again.
func (f *Feed) Add(list []Record) {
	f.mu.Lock()
	if n := len(f.records); n > 0 && f.records[n-1].Seq+1 != list[0].Seq || n+len(list) > mostFed {
		f.records = nil
	}
	if len(list) <= mostFed {
		f.records = append(f.records, list...)
	}
	f.mu.Unlock()
	select {
	case f.grown <- struct{}{}:
	default:
	}
}

// After returns the records that follow the one with this seq, and forgets those before them. It
// returns nil if the feed does not have the next one: then the journal has to be read.
func (f *Feed) After(seq int64) []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.records) > 0 && f.records[0].Seq <= seq {
		f.records = f.records[1:]
	}
	if len(f.records) == 0 || f.records[0].Seq != seq+1 {
		return nil
	}
	return slices.Clone(f.records)
}
