package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pausableTimeout is a context with a timeout that can be paused.
type pausableTimeout struct {
	context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	until time.Time
	left  time.Duration // the remaining time, while paused
}

// withPausableTimeout returns a context that ends with parent, or with context.DeadlineExceeded
// after d. The caller must call cancel.
func withPausableTimeout(parent context.Context, d time.Duration) *pausableTimeout {
	t := &pausableTimeout{until: time.Now().Add(d)}
	t.Context, t.end = context.WithCancelCause(parent)
	t.timer = time.AfterFunc(d, func() { t.end(context.DeadlineExceeded) })
	return t
}

// pause stops the timeout, or continues it.
func (t *pausableTimeout) pause(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if yes {
		t.timer.Stop()
		t.left = time.Until(t.until)
		return
	}
	t.until = time.Now().Add(t.left)
	t.timer.Reset(t.left)
}

func (t *pausableTimeout) cancel() {
	t.timer.Stop()
	t.end(context.Canceled)
}

// Deadline implements context.Context: it is the time at which the context ends if it is not paused
// again.
func (t *pausableTimeout) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until, true
}

// Err implements context.Context.
func (t *pausableTimeout) Err() error {
	err := t.Context.Err()
	if err != nil && errors.Is(context.Cause(t.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
