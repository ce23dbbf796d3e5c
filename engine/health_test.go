package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"recourse/journal"
)

// answering is a store whose appends return err and whose pings return ping, and that has one saga
// to claim.
type answering struct {
	journal.Store
	err, ping error
	pings     int
}

func (s *answering) Ping(context.Context) error {
	s.pings++
	return s.ping
}

func (s *answering) Append(context.Context, string, []journal.Append) ([]journal.Result, error) {
	return nil, s.err
}

func (s *answering) Claim(context.Context, string, int) ([]journal.Claimed, error) {
	return make([]journal.Claimed, 1), nil
}

// While commits fail, the node claims nothing. This ends with the next successful commit.
func TestHealth(t *testing.T) {
	s := &answering{}
	h := &health{Store: s, wait: time.Hour}
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
	s.err = nil
	_, _ = h.AppendDeferred(t.Context(), "n", make([]journal.Append, 1))
	if h.ailing() {
		t.Error("an append that succeeds in the end does not count")
	}
}

// Without a successful commit, the node is well again when the store takes a ping, which comes
// later each time that no successful commit follows. The tries of deferred appends change nothing.
func TestHealthByPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &answering{err: errors.New("disk full"), ping: errors.New("disk full")}
		h := &health{Store: s, wait: minAiling}
		tries := func(most time.Duration) (took time.Duration) {
			_, _ = h.Append(t.Context(), "n", make([]journal.Append, 1))
			for ; h.ailing() && took < most; took += time.Second {
				time.Sleep(time.Second)
				_, _ = h.AppendDeferred(t.Context(), "n", make([]journal.Append, 1))
				h.recheck(t.Context())
			}
			return took
		}
		if took := tries(time.Hour); took < time.Hour || s.pings < 1000 {
			t.Errorf("well after %v and %d pings, although the store takes none", took, s.pings)
		}
		s.ping = nil
		for i, want := range []string{"2s", "4s", "8s", "15s", "15s"} {
			if took := tries(time.Hour); took.String() != want {
				t.Errorf("%d: well after %v, want %s", i, took, want)
			}
		}
		s.err = nil
		_, _ = h.Append(t.Context(), "n", nil)
		s.err = errors.New("disk full")
		if took := tries(time.Hour); took != minAiling {
			t.Errorf("well after %v, although a commit has succeeded in between", took)
		}
	})
}
