// Package memory is a journal.Store in memory: the reference that the other stores are compared
// with, and the store of the simulator.
//
// The caller provides the clock. The store starts no goroutines, and its results depend on nothing
// but the calls: they never show the order of a map. Several nodes may register, as on a shared
// database. Nothing survives the process.
package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Config configures a Store.
type Config struct {
	Now func() time.Time // the store's clock; nil: time.Now
	// Remember makes the store's records decode their data only once (see journal.Record.Remember),
	// for callers with one goroutine.
	Remember bool
}

var errClosed = errors.New("memory store is closed")

// Store implements journal.Store.
type Store struct {
	now      func() time.Time
	remember bool
	hints    chan struct{}

	mu       sync.Mutex
	closed   bool
	nodes    map[string]time.Time // node → end of its lease
	sagas    map[uuid.UUID]*saga
	keys     map[string]uuid.UUID // start key → saga
	names    map[docName]*docs
	requests map[string]*request
	apiKeys  []journal.APIKey // oldest first
	tasks    map[uuid.UUID]*task
	outbox   map[eventKey]*event
	fired    map[string]time.Time // schedule → its last firing
	stalls   map[uuid.UUID]*stall
}

var _ journal.Store = (*Store)(nil)

// saga is everything that belongs to one id, except tasks, stalls and events.
type saga struct {
	head     journal.Head
	records  []journal.Record
	messages []journal.Message // not applied yet, in the order of ids
	applied  map[uuid.UUID]bool
	blobs    map[[sha256.Size]byte][]byte
}

// New returns an empty store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Store{
		now:      c.Now,
		remember: c.Remember,
		hints:    make(chan struct{}, 1),
		nodes:    map[string]time.Time{},
		sagas:    map[uuid.UUID]*saga{},
		keys:     map[string]uuid.UUID{},
		names:    map[docName]*docs{},
		requests: map[string]*request{},
		tasks:    map[uuid.UUID]*task{},
		outbox:   map[eventKey]*event{},
		fired:    map[string]time.Time{},
		stalls:   map[uuid.UUID]*stall{},
	}
}

// Ping implements journal.Store.
func (s *Store) Ping(ctx context.Context) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// Hints implements journal.Store. All nodes of the store share one channel.
func (s *Store) Hints() <-chan struct{} { return s.hints }

// Close makes every later call fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// enter locks the store for one call.
func (s *Store) enter(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	return s.mu.Unlock, nil
}

func (s *Store) hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// clock returns the store's time as it is stored: in whole milliseconds, UTC.
func (s *Store) clock() time.Time { return milli(s.now()) }

func milli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// sorted returns the sagas for which keep is true, in the order of ids.
func (s *Store) sorted(keep func(*saga) bool) []*saga {
	var out []*saga
	for _, g := range s.sagas {
		if keep(g) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *saga) int { return journal.CompareID(a.head.ID, b.head.ID) })
	return out
}

func copyHead(h journal.Head) journal.Head {
	h.Labels = maps.Clone(h.Labels)
	h.Summary = slices.Clone(h.Summary)
	h.Inbox, h.Text = nil, ""
	return h
}

// page returns the first limit items of list; all of them if limit is 0 or less.
func page[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// first returns the first limit items of list; none if limit is 0 or less.
func first[T any](list []T, limit int) []T {
	return list[:min(len(list), max(limit, 0))]
}
