package sim

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Child sagas are deleted soon after their end. Sagas that clients started are kept, because
// clients ask for them.
const (
	retention   = time.Second
	expireEvery = 500 * time.Millisecond
)

// deleted is a saga that was deleted, in its last state.
type deleted struct {
	head    journal.Head
	records []journal.Record
}

// expire makes the store delete sagas whose retention has ended, at intervals, and remembers them
// for the check.
func (s *sim) expire() {
	s.after(expireEvery, func() {
		defer s.expire()
		var due []deleted
		for _, h := range s.heads() {
			if !h.DeleteAt.IsZero() && !h.DeleteAt.After(s.now) {
				due = append(due, deleted{h, s.records(h.ID)})
			}
		}
		if len(due) == 0 {
			return
		}
		if _, err := s.store.DeleteExpired(ctx, 1<<20); err != nil {
			panic(err)
		}
		for _, d := range due {
			if _, err := s.store.Saga(ctx, d.head.ID); errors.Is(err, journal.ErrNotFound) {
				s.gone[d.head.ID] = d
			}
		}
	})
}

// everything lists the rows of all sagas, including deleted ones, newest first.
func (s *sim) everything() []journal.Head {
	list := s.heads()
	for _, d := range s.gone { // any order
		list = append(list, d.head)
	}
	slices.SortFunc(list, func(a, b journal.Head) int { return cmp.Compare(b.ID.String(), a.ID.String()) })
	return list
}

// records returns the journal of a saga, including a deleted one.
func (s *sim) records(id uuid.UUID) []journal.Record {
	records, err := s.store.Records(ctx, id, 0, 1<<20)
	if errors.Is(err, journal.ErrNotFound) {
		return s.gone[id].records
	}
	if err != nil {
		panic(err)
	}
	return records
}
