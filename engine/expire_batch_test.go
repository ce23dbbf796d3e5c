package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"recourse/journal"
)

// crowded is a store with so many expired sagas that cannot delete more than `most` at once.
type crowded struct {
	journal.Store
	left, most int
	asked      []int
}

func (s *crowded) DeleteExpired(_ context.Context, limit int) (int, error) {
	s.asked = append(s.asked, limit)
	if limit > s.most {
		return 0, errors.New("it took too long")
	}
	n := min(limit, s.left)
	s.left -= n
	return n, nil
}

// Batches are deleted until no saga is left. After a failure they are smaller, and then grow again.
func TestExpireInBatches(t *testing.T) {
	s := &crowded{left: 1200, most: 500}
	e := New(Config{Store: s})
	batch := expireBatch
	expire := func(left int, want ...int) {
		t.Helper()
		s.asked = nil
		if batch = e.deleteExpired(batch); !slices.Equal(s.asked, want) || s.left != left {
			t.Errorf("asked for %v, left %d; want %v and %d", s.asked, s.left, want, left)
		}
	}
	expire(0, 500, 500, 500)
	expire(0, 500)
	s.left, s.most = 1000, 100
	expire(1000, 500)
	expire(938, 62, 124)
	s.most = 10
	expire(938, 15)
	expire(923, 1, 2, 4, 8, 16)
	s.most = 500
	expire(0, 2, 4, 8, 16, 32, 64, 128, 256, 500)
}

// While another service archives expired sagas, or it is not known whether one does, the engine
// deletes none.
func TestExpireLeavesSagasForTheArchive(t *testing.T) {
	for _, tt := range []struct {
		archived bool
		err      error
		left     int
	}{{true, nil, 10}, {false, errors.New("no answer"), 10}, {false, nil, 0}} {
		s := &crowded{left: 10, most: 500}
		e := New(Config{Store: s, Archived: func(context.Context) (bool, error) { return tt.archived, tt.err }})
		if e.deleteExpired(expireBatch); s.left != tt.left {
			t.Errorf("archived %v, %v: left %d, want %d", tt.archived, tt.err, s.left, tt.left)
		}
	}
}
