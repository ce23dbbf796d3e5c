package engine

import (
	"sync"

	"github.com/gofrs/uuid/v5"
)

// hub tells watchers that a saga's journal has grown.
type hub struct {
	mu       sync.Mutex
	watchers map[uuid.UUID]map[chan struct{}]struct{}
}

func (h *hub) watch(id uuid.UUID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[uuid.UUID]map[chan struct{}]struct{})
	}
	if h.watchers[id] == nil {
		h.watchers[id] = make(map[chan struct{}]struct{})
	}
	h.watchers[id][ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[id], ch)
		if len(h.watchers[id]) == 0 {
			delete(h.watchers, id)
		}
	}
}

func (h *hub) notify(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.watchers[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
