package catalog

import (
	"container/list"
	"sync"

	"recourse/saga"
)

// Of compiled definitions the last used ones are kept: so many, and of so much text in sum. Compiled they take some
// sixteen times as much.
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

// cache keeps compiled definitions. The zero value is empty.
type cache struct {
	mu    sync.Mutex
	items map[cacheKey]*list.Element
	order list.List // the last used one in front
	text  int       // bytes
}

// recent are versions that were the newest of their names once. The zero value is empty.
type recent struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *recent) version(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[name]
}

func (r *recent) saw(name string, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.seen[name]; r.seen == nil || !known && len(r.seen) >= cached {
		r.seen = make(map[string]int) // those in use come back
	}
	r.seen[name] = version
}

func (r *recent) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, name)
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
