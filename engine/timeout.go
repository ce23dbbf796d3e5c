package engine

import (
	"context"
	"sync"
	"time"
)

// pausableTimeout is a context that ends a while after it began, the pauses apart.
type pausableTimeout struct {
	context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	until time.Time
	left  time.Duration // when it goes on, while it pauses
}

// withPausableTimeout returns a context that ends with parent, or with context.DeadlineExceeded
// after d. It must be cancelled.
func withPausableTimeout(parent context.Context, d time.Duration) *pausableTimeout {
	t := &pausableTimeout{until: time.Now().Add(d)}
	t.Context, t.end = context.WithCancelCause(parent)
	t.timer = time.AfterFunc(d, func() { t.end(context.DeadlineExceeded) })
	return t
}

// pause stops the time, or has it go on.
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

// Deadline implements context.Context: when it ends if nothing pauses it.
func (t *pausableTimeout) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until, true
}

// Err implements context.Context.
func (t *pausableTimeout) Err() error {
	err := t.Context.Err()
	if err != nil && context.Cause(t.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}
