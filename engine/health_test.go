package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"recourse/journal"
)

// answering is a store whose appends return err, and that has one saga to claim.
type answering struct {
	journal.Store
	err error
}

func (s *answering) Append(context.Context, string, []journal.Append) ([]journal.Result, error) {
	return nil, s.err
}

func (s *answering) Claim(context.Context, string, int) ([]journal.Claimed, error) {
	return make([]journal.Claimed, 1), nil
}

// While commits fail, the node claims nothing. This ends with the next successful commit, or after
// a while.
func TestHealth(t *testing.T) {
	s := &answering{}
	h := &health{Store: s, after: time.Hour}
	for _, tt := range []struct {
		err    error
		ailing bool
	}{
		{nil, false}, {errors.New("disk full"), true}, {journal.ErrUnknown, true}, {nil, false},
		{errors.New("disk full"), true}, {journal.ErrFenced, false}, // the store has responded, so it works
	} {
		s.err = tt.err
		_, _ = h.Append(t.Context(), "n", nil)
		claimed, err := h.Claim(t.Context(), "n", 1)
		if h.ailing() != tt.ailing || (len(claimed) == 0) != tt.ailing || err != nil {
			t.Errorf("after %v: ailing %v, claimed %d, %v; want ailing %v", tt.err, h.ailing(), len(claimed), err, tt.ailing)
		}
	}
	s.err = errors.New("disk full")
	_, _ = h.Append(t.Context(), "n", make([]journal.Append, 2)) // one of them may be the cause
	if h.ailing() {
		t.Error("a batch that may be split counts")
	}
	_, _ = h.AppendDeferred(t.Context(), "n", make([]journal.Append, 1))
	if h.ailing() {
		t.Error("an append that failed by itself before counts, although the store takes others")
	}
	_, _ = h.Append(t.Context(), "n", make([]journal.Append, 1))
	first := *h.failed.Load()
	_, _ = h.AppendDeferred(t.Context(), "n", make([]journal.Append, 1))
	if last := h.failed.Load(); last == nil || !last.After(first) {
		t.Error("an append that fails again does not count, although the store has taken none since")
	}
	s.err = nil
	_, _ = h.AppendDeferred(t.Context(), "n", make([]journal.Append, 1))
	if h.ailing() {
		t.Error("an append that succeeds in the end does not count")
	}
	h.after = 0
	s.err = errors.New("disk full")
	_, _ = h.Append(t.Context(), "n", nil)
	if h.ailing() {
		t.Error("a failure counts forever")
	}
}
