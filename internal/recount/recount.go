// Package recount keeps counts that take long, so that whoever asks for one does not wait for it.
package recount

import (
	"context"
	"sync"
	"time"
)

const (
	// many is from how many things counted on a count is kept. Fewer are counted each time anew.
	many = 50_000
	// often is for how many times as long as it took a count is kept: so counting takes two
	// hundredths of the time, at most.
	often = 50
)

// Kept is a count of many things, or one that is made anew each time it is asked for, of few.
type Kept[T any] struct {
	count func(context.Context) (T, int64, error)
	ctx   context.Context // of what is counted behind those who ask
	stop  context.CancelFunc
	under sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	value    T
	kept     bool
	until    time.Time // when it is to be counted anew
	counting bool
}

// New keeps what count returns, which also says how many things it has counted.
func New[T any](count func(context.Context) (T, int64, error)) *Kept[T] {
	ctx, stop := context.WithCancel(context.Background())
	return &Kept[T]{count: count, ctx: ctx, stop: stop}
}

// Get returns the count of now, or the one that is kept. One that is too old is still returned,
// while it is counted anew for those who ask later; should that fail, it stays.
func (k *Kept[T]) Get(ctx context.Context) (T, error) {
	k.mu.Lock()
	if !k.kept {
		k.mu.Unlock()
		return k.recount(ctx, false)
	}
	defer k.mu.Unlock()
	if !k.counting && !k.closed && time.Now().After(k.until) {
		k.counting = true
		k.under.Go(func() { _, _ = k.recount(k.ctx, true) }) // if it fails, whoever asks next begins another
	}
	return k.value, nil
}

// recount counts, and keeps it if it is worth it.
func (k *Kept[T]) recount(ctx context.Context, behind bool) (T, error) {
	began := time.Now()
	value, n, err := k.count(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if behind {
		k.counting = false
	}
	if err == nil {
		k.kept, k.value, k.until = n >= many, value, time.Now().Add(often*time.Since(began))
	}
	return value, err
}

// Close ends the counting under way.
func (k *Kept[T]) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.under.Wait()
}
