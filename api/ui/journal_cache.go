package ui

import (
	"slices"
	"sync"

	"recourse/journal"
	"recourse/saga"
)

// Bounds of a shelf.
const (
	shelved      = 8        // sagas
	shelvedFrom  = 500      // records: shorter ones are read again as fast
	shelvedBytes = 32 << 20 // of all their records' data: in memory they take some four times as much
)

// journalCache keeps a few sagas of long journals that were read last: records never change, so
// that the next picture of the same saga needs only those that came since.
type journalCache struct {
	mu   sync.Mutex
	kept []*followed // the last used at the end
}

// followed is a saga as far as its journal was read. A request that has taken it has it alone until
// it is given back.
type followed struct {
	id    string
	shelf *journalCache
	room  int // that the shelf knows of; guarded by the shelf

	mu      sync.Mutex
	records []journal.Record
	bytes   int           // of their data
	machine *saga.Machine // as far as they were followed; nil: they were not, or cannot be
	log     saga.StepLog
}

// take returns what is kept of a saga, which may be nothing, once nobody else has it.
func (s *journalCache) take(id string) *followed {
	s.mu.Lock()
	k := &followed{id: id, shelf: s}
	if i := slices.IndexFunc(s.kept, func(k *followed) bool { return k.id == id }); i >= 0 {
		k = s.kept[i]
	}
	s.mu.Unlock()
	k.mu.Lock()
	return k
}

// give gives it back, to be kept if that spares enough.
func (k *followed) give() {
	defer k.mu.Unlock()
	s := k.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.DeleteFunc(s.kept, func(o *followed) bool { return o.id == k.id })
	if k.machine == nil || len(k.records) < shelvedFrom || k.bytes > shelvedBytes {
		return
	}
	k.room = k.bytes
	s.kept = append(s.kept, k)
	all := 0
	for _, o := range s.kept {
		all += o.room
	}
	for len(s.kept) > shelved || all > shelvedBytes {
		all -= s.kept[0].room
		s.kept = slices.Delete(s.kept, 0, 1)
	}
}

// add takes in what the journal has grown by.
func (k *followed) add(records []journal.Record) {
	for i := range records {
		k.bytes += len(records[i].Data)
	}
	k.records = append(k.records, records...)
}

// forget begins anew.
func (k *followed) forget() { k.records, k.bytes, k.machine, k.log = nil, 0, nil, saga.StepLog{} }
