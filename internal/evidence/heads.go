package evidence

import (
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Heads collects the ends of journals until they are anchored. The zero value is empty. It is safe
// for concurrent use.
type Heads struct {
	mu   sync.Mutex
	last map[uuid.UUID]Head
}

// Add adds the end of a journal. Of one journal it keeps the longest.
func (c *Heads) Add(h Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = make(map[uuid.UUID]Head)
	}
	if old, ok := c.last[h.Saga]; !ok || h.Seq > old.Seq {
		c.last[h.Saga] = h
	}
}

// Take returns all heads in the order of their sagas' ids, and forgets them.
func (c *Heads) Take() []Head {
	c.mu.Lock()
	last := c.last
	c.last = nil
	c.mu.Unlock()
	list := make([]Head, 0, len(last))
	for _, h := range last { // any order: they are sorted below
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b Head) int { return journal.CompareID(a.Saga, b.Saga) })
	return list
}
