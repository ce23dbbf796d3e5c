package ui

import (
	"slices"
	"sync"

	"recourse/api/ui/activity"
	"recourse/journal"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// Bounds of a journal cache.
const (
	maxCached        = 8        // sagas
	minCachedRecords = 500      // shorter journals are fast to read again
	maxCachedBytes   = 32 << 20 // size of all records' data; in memory they take about four times as much
)

// journalCache caches the long journals of a few recently shown sagas. Records never change, so the
// next rendering of the same saga reads only the new ones.
type journalCache struct {
	mu   sync.Mutex
	kept []*followed // least recently used first
}

// followed is a saga with its journal as far as it was read. A request that takes it has exclusive
// use of it until it gives it back.
type followed struct {
	id    string
	cache *journalCache
	room  int // bytes that the cache counts; guarded by the cache

	mu      sync.Mutex
	records []journal.Record
	bytes   int              // bytes of the records' data
	machine *machine.Machine // state after the records; nil if not computed, or if they cannot be applied
	log     history.Steps
	// activity is what the page of a session lists. It has the records of the log.
	activity activity.Log
}

// take returns the cached saga, or an empty one. It waits while another request has it.
func (s *journalCache) take(id string) *followed {
	s.mu.Lock()
	k := &followed{id: id, cache: s}
	if i := slices.IndexFunc(s.kept, func(k *followed) bool { return k.id == id }); i >= 0 {
		k = s.kept[i]
	}
	s.mu.Unlock()
	k.mu.Lock()
	return k
}

// give returns the saga to the cache, which keeps it if it is expensive to read again.
func (k *followed) give() {
	defer k.mu.Unlock()
	s := k.cache
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.DeleteFunc(s.kept, func(o *followed) bool { return o.id == k.id })
	if k.machine == nil || len(k.records) < minCachedRecords || k.bytes > maxCachedBytes {
		return
	}
	k.room = k.bytes
	s.kept = append(s.kept, k)
	all := 0
	for _, o := range s.kept {
		all += o.room
	}
	for len(s.kept) > maxCached || all > maxCachedBytes {
		all -= s.kept[0].room
		s.kept = slices.Delete(s.kept, 0, 1)
	}
}

// add appends new records of the journal.
func (k *followed) add(records []journal.Record) {
	for i := range records {
		k.bytes += len(records[i].Data)
	}
	k.records = append(k.records, records...)
}

// forget empties the followed saga.
func (k *followed) forget() {
	k.records, k.bytes, k.machine, k.log, k.activity = nil, 0, nil, history.Steps{}, activity.Log{}
}
