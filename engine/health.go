package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"recourse/journal"
)

// health is a store that notes whether commits succeed. While they fail, the node claims nothing:
// it could not continue the sagas, and another node might.
type health struct {
	journal.Store
	after  time.Duration             // how long a failed commit counts, if there is no later one
	failed atomic.Pointer[time.Time] // when the last commit failed; nil: it succeeded
}

// ailingFor is how long a failed commit counts if there is no later one. After that the node claims
// again, and its next commit shows whether the store has recovered. While lanes have something to
// commit there is a later one: they try again after maxPause.
const ailingFor = 2 * maxPause

// ailing reports whether commits fail.
func (h *health) ailing() bool {
	at := h.failed.Load()
	return at != nil && time.Since(*at) < h.after
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

// AppendDeferred is Append for a Commit that is Deferred. Its failure counts only if nothing was
// committed since another one: the cause is in the append, or else the store still fails.
func (h *health) AppendDeferred(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := h.Store.Append(ctx, node, batch)
	if err == nil || h.failed.Load() != nil {
		h.note(err)
	}
	return out, err
}

func (h *health) note(err error) {
	if err == nil || errors.Is(err, journal.ErrFenced) {
		h.failed.Store(nil)
		return
	}
	now := time.Now()
	h.failed.Store(&now)
}

// Claim implements journal.Log.
func (h *health) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if h.ailing() {
		return nil, nil
	}
	return h.Store.Claim(ctx, node, limit)
}
