package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"recourse/journal"
)

// lookup finds newest documents for many callers at once. A caller never gets the result of a read
// that began before its call. So a client that publishes and then starts a saga gets what it
// published, on every node.
type lookup struct {
	store journal.Catalog
	mu    sync.Mutex
	names map[string]*reads
}

// reads are the read in progress for a name, and the read that begins after it.
type reads struct {
	busy bool
	next *read
}

type read struct {
	done chan struct{}
	doc  journal.Document
	err  error
}

// readTime is the timeout of a read, which belongs to several callers.
const readTime = 10 * time.Second

// newest returns a name's newest document. Errors are the store's, and ctx's.
func (l *lookup) newest(ctx context.Context, name string) (journal.Document, error) {
	l.mu.Lock()
	if l.names == nil {
		l.names = make(map[string]*reads)
	}
	at := l.names[name]
	if at == nil {
		at = &reads{}
		l.names[name] = at
	}
	if at.next == nil {
		at.next = &read{done: make(chan struct{})}
	}
	mine := at.next
	if !at.busy {
		at.busy = true
		go l.run(name, at)
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.doc, mine.err
	case <-ctx.Done():
		return journal.Document{}, fmt.Errorf("definition %s: %w", name, ctx.Err())
	}
}

// run reads as long as there are callers.
func (l *lookup) run(name string, at *reads) {
	for {
		l.mu.Lock()
		mine := at.next
		at.next = nil
		if mine == nil {
			delete(l.names, name)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		mine.doc, mine.err = l.store.Document(ctx, Kind, name, 0)
		cancel()
		close(mine.done)
	}
}

// recent contains versions that were once the newest of their names. The zero value is empty.
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
		r.seen = make(map[string]int) // names in use are added again
	}
	r.seen[name] = version
}

func (r *recent) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, name)
}
