package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"recourse/journal"
)

// health is a store that notes whether commits succeed. While they fail, the node claims nothing
// and takes no starts: it could not continue the sagas, and another node might.
//
// The cause of a failure may be the store, or the one append that failed. A node that has nothing
// else to commit cannot tell by its commits which it is, and while it claims nothing and takes no
// starts it gets nothing else. So a failure counts until an append succeeds, or until the store has
// taken a ping a while later. The tries of deferred appends do not count: a quiet node would not be
// ready as long as it runs a saga whose append the store never takes.
type health struct {
	journal.Store

	mu     sync.Mutex
	failed time.Time     // when the last commit that counts failed; zero: the store takes commits
	wait   time.Duration // how long a failure counts before a ping
}

// minAiling is how long a failed commit counts at least, unless a later one succeeds. maxAiling is
// how long it counts at most if the store takes pings. A ping writes less than an append, so it may
// succeed although each append fails. Therefore each ping that no successful append follows doubles
// the time before the next one.
const (
	minAiling = 2 * time.Second
	maxAiling = 15 * time.Second
)

// pingTimeout bounds a ping.
const pingTimeout = 2 * time.Second

// ailing reports whether commits fail.
func (h *health) ailing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.failed.IsZero()
}

// Append implements journal.Log.
func (h *health) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := h.Store.Append(ctx, node, batch)
	if len(batch) > 1 && err != nil && !errors.Is(err, journal.ErrFenced) && !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		return out, err // one append may be the cause: the lane splits the batch, which soon shows that
	}
	h.note(err)
	return out, err
}

// AppendDeferred is Append for a Commit that is Deferred. Only its success counts.
func (h *health) AppendDeferred(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := h.Store.Append(ctx, node, batch)
	if err == nil {
		h.note(nil)
	}
	return out, err
}

func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || errors.Is(err, journal.ErrFenced) { // the store has responded, so it works
		h.failed, h.wait = time.Time{}, minAiling
		return
	}
	h.failed = time.Now()
}

// recheck pings the store if the last failure has counted for long enough, and ends the ailment if
// the store takes the ping.
func (h *health) recheck(ctx context.Context) {
	h.mu.Lock()
	failed := h.failed
	due := !failed.IsZero() && time.Since(failed) >= h.wait
	h.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := h.Store.Ping(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.failed.Equal(failed): // a commit since then shows more than the ping
	case err != nil:
		h.failed = time.Now()
	default:
		h.failed, h.wait = time.Time{}, min(2*h.wait, maxAiling)
	}
}

// Claim implements journal.Log.
func (h *health) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if h.ailing() {
		return nil, nil
	}
	return h.Store.Claim(ctx, node, limit)
}
