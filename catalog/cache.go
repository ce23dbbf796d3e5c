package catalog

import (
	"container/list"
	"sync"

	"recourse/saga"
)

// Limits of the compiled definitions that are kept: their number, and the total bytes of their
// texts. Compiled definitions take about sixteen times as much.
const (
	cached     = 512
	cachedText = 16 << 20
)

type cacheKey struct {
	name    string
	version int
}

type cacheItem struct {
	key cacheKey
	def *saga.Definition
}

// cache keeps the compiled definitions that were used last. The zero value is empty.
type cache struct {
	mu    sync.Mutex
	items map[cacheKey]*list.Element
	order list.List // the most recently used one is first
	text  int       // bytes
}

func (c *cache) get(name string, version int) *saga.Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[cacheKey{name, version}]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(cacheItem).def
}

func (c *cache) put(name string, version int, def *saga.Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{name, version}
	if e := c.items[key]; e != nil {
		c.order.MoveToFront(e)
		return
	}
	if c.items == nil {
		c.items = make(map[cacheKey]*list.Element)
	}
	c.items[key] = c.order.PushFront(cacheItem{key, def})
	c.text += len(def.Source)
	for len(c.items) > cached || c.text > cachedText && len(c.items) > 1 {
		last := c.order.Remove(c.order.Back()).(cacheItem)
		delete(c.items, last.key)
		c.text -= len(last.def.Source)
	}
}
