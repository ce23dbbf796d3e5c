package ui

import (
	"sync"

	"recourse/journal"
)

// Bounds of a shelf.
const (
	shelved      = 8        // journals
	shelvedFrom  = 500      // records: shorter ones are read again as fast
	shelvedUntil = 30000    // records: longer ones would take much memory
	shelvedBytes = 16 << 20 // of their data, likewise
)

// shelf keeps the records of a few long journals that were read last: records never change, so that the next picture of the
// same saga needs only those that came since. It is asked only for what the API has just let the reader see.
type shelf struct {
	mu    sync.Mutex
	order []string // of ids, the last used at the end
	byID  map[string][]journal.Record
}

// take returns what is kept of a saga's journal from its beginning; nil for nothing. It is not to be changed.
func (s *shelf) take(id string) []journal.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// keep keeps a saga's journal, as far as it was read.
func (s *shelf) keep(id string, records []journal.Record) {
	if len(records) < shelvedFrom || len(records) > shelvedUntil {
		return
	}
	size := 0
	for i := range records {
		if size += len(records[i].Data); size > shelvedBytes {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string][]journal.Record)
	}
	if len(records) < len(s.byID[id]) { // another reader was later
		return
	}
	s.byID[id] = records[:len(records):len(records)] // what is appended to it goes elsewhere
	for i, other := range s.order {
		if other == id {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	s.order = append(s.order, id)
	if len(s.order) > shelved {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}
