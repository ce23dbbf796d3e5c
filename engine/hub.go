package engine

import (
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga/machine"
)

// hub notifies watchers when a saga's journal has grown, and starters when a saga has ended.
type hub struct {
	mu       sync.Mutex
	watchers audience[chan struct{}]
	feeds    audience[*journal.Feed]
	starters map[uuid.UUID]chan *machine.Machine
	sessions map[uuid.UUID]int64 // session in this node's memory → seq of its last record
}

// start returns a channel that receives the machine of the saga when it has ended, or is closed if
// the saga leaves this node's memory before that. A saga has one starter. stop ends it.
func (h *hub) start(id uuid.UUID) (end <-chan *machine.Machine, stop func()) {
	ch := make(chan *machine.Machine, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starters == nil {
		h.starters = make(map[uuid.UUID]chan *machine.Machine)
	}
	h.starters[id] = ch
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.starters, id)
	}
}

func (h *hub) watch(id uuid.UUID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers.add(id, ch)
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watchers.remove(id, ch)
	}
}

// audience has those that are told when a saga's journal grows.
type audience[T comparable] map[uuid.UUID]map[T]struct{}

func (a *audience[T]) add(id uuid.UUID, t T) {
	if *a == nil {
		*a = make(audience[T])
	}
	if (*a)[id] == nil {
		(*a)[id] = make(map[T]struct{})
	}
	(*a)[id][t] = struct{}{}
}

func (a audience[T]) remove(id uuid.UUID, t T) {
	delete(a[id], t)
	if len(a[id]) == 0 {
		delete(a, id)
	}
}

// released closes the channel of a saga's starter: this node will not see the saga's end.
func (h *hub) released(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
	if ch := h.starters[id]; ch != nil {
		delete(h.starters, id)
		close(ch)
	}
}

func (h *hub) advanced(a Advanced) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch := h.starters[a.ID]; ch != nil && a.Final != nil {
		delete(h.starters, a.ID)
		ch <- a.Final
	}
	if a.Machine.Definition().Session != nil {
		if h.sessions == nil {
			h.sessions = make(map[uuid.UUID]int64)
		}
		h.sessions[a.ID] = a.Records[len(a.Records)-1].Seq
	}
	for ch := range h.watchers[a.ID] {
		nudge(ch)
	}
	for f := range h.feeds[a.ID] {
		f.Add(a.Records)
	}
}

// appending is called before a batch is appended. It forgets the last records of its sessions,
// until advanced: a reader of the store may see the new ones before this node knows them.
func (h *hub) appending(batch []journal.Append) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range batch {
		if len(batch[i].Records) > 0 {
			delete(h.sessions, batch[i].Saga)
		}
	}
}

// last returns the seq of the last record of a session in this node's memory, and false while an
// append to it is in flight.
func (h *hub) last(id uuid.UUID) (seq int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok = h.sessions[id]
	return seq, ok
}

// feed returns a feed of a saga. Its Stop ends it.
func (h *hub) feed(id uuid.UUID) *journal.Feed {
	var f *journal.Feed
	f = journal.NewFeed(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.feeds.remove(id, f)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds.add(id, f)
	return f
}
