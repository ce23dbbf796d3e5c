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
// again, and its next commit shows whether the store has recovered.
const ailingFor = 2 * time.Second

// ailing reports whether commits fail.
func (h *health) ailing() bool {
	at := h.failed.Load()
	return at != nil && time.Since(*at) < h.after
}

// Append implements journal.Log.
func (h *health) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := h.Store.Append(ctx, node, batch)
	switch {
	case err == nil, errors.Is(err, journal.ErrFenced):
		h.failed.Store(nil)
	case len(batch) > 1 && !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded):
		// One append may be the cause: the lane splits the batch, which soon shows that.
	default:
		now := time.Now()
		h.failed.Store(&now)
	}
	return out, err
}

// Claim implements journal.Log.
func (h *health) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if h.ailing() {
		return nil, nil
	}
	return h.Store.Claim(ctx, node, limit)
}
