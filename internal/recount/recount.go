// Package recount caches counts that take long, so that callers do not wait for them.
package recount

import (
	"context"
	"sync"
	"time"
)

const (
	// many is the number of counted things from which on a count is cached. Smaller counts are
	// always current.
	many = 50_000
	// often is the factor between the time that a count takes and the time for which it is cached.
	// So counting takes at most 2 % of the time.
	often = 50
)

// Kept is a count that is cached if it covers many things, and current if it covers few.
type Kept[T any] struct {
	count func(context.Context) (T, int64, error)
	ctx   context.Context // of counts in the background
	stop  context.CancelFunc
	under sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	value    T
	kept     bool
	until    time.Time // when the cached count becomes too old
	counting bool
}

// New returns the cached results of count, which also returns how many things it has counted.
func New[T any](count func(context.Context) (T, int64, error)) *Kept[T] {
	ctx, stop := context.WithCancel(context.Background())
	return &Kept[T]{count: count, ctx: ctx, stop: stop}
}

// Get returns the current count, or the cached one. If the cached one is too old, Get still returns
// it and starts a new count in the background. If that fails, the cached one stays.
func (k *Kept[T]) Get(ctx context.Context) (T, error) {
	k.mu.Lock()
	if !k.kept {
		k.mu.Unlock()
		return k.recount(ctx, false)
	}
	defer k.mu.Unlock()
	if !k.counting && !k.closed && time.Now().After(k.until) {
		k.counting = true
		k.under.Go(func() { _, _ = k.recount(k.ctx, true) }) // if it fails, the next Get starts another
	}
	return k.value, nil
}

// recount counts, and caches the result if it covers many things.
func (k *Kept[T]) recount(ctx context.Context, background bool) (T, error) {
	began := time.Now()
	value, n, err := k.count(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if background {
		k.counting = false
	}
	if err == nil {
		k.kept, k.value, k.until = n >= many, value, time.Now().Add(often*time.Since(began))
	}
	return value, err
}

// Close cancels a count in the background and waits for it.
func (k *Kept[T]) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.under.Wait()
}
