package evidence

import (
	"cmp"
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// maxHeads is how many heads wait at most. They take about 110 MB.
const maxHeads = 500_000

// Heads collects the ends of journals until they are anchored, up to a limit. The zero value is
// empty. It is safe for concurrent use.
type Heads struct {
	most int // 0: maxHeads

	mu      sync.Mutex
	last    map[uuid.UUID]Head
	dropped int
}

// Add adds the end of a journal. Of one journal it keeps the longest, and of the same length one
// that says when it may be deleted. At the limit it drops the ends of further journals. half
// reports that this head makes it half full, so that the heads should be anchored soon.
func (c *Heads) Add(h Head) (half bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = make(map[uuid.UUID]Head)
	}
	old, ok := c.last[h.Saga]
	most := cmp.Or(c.most, maxHeads)
	switch {
	case !ok && len(c.last) >= most:
		c.dropped++
	case !ok || h.Seq > old.Seq, h.Seq == old.Seq && !h.DeleteAt.IsZero():
		c.last[h.Saga] = h
	}
	return !ok && len(c.last) == most/2
}

// Dropped returns how many heads were dropped since the beginning.
func (c *Heads) Dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
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
