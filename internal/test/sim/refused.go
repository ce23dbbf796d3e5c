package sim

import (
	"errors"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// refuse makes the store refuse one append of a batch from now on, and with it each batch that
// contains it: for a time, or until the faults end.
func (s *sim) refuse(batch []journal.Append) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(a journal.Append) bool { return len(a.Records) == 0 })
	if len(batch) == 0 {
		return
	}
	until := s.now.Add(faulty)
	if len(batch) == 1 { // a longer one needs more tries to show what becomes of the others
		until = s.now.Add(s.between(0, faulty))
	}
	s.refused[string(batch[s.rng.IntN(len(batch))].Records[0].Hash)] = until
}

// refuses returns the sagas of a batch whose appends the store refuses.
func (s *sim) refuses(batch []journal.Append) (sagas []uuid.UUID) {
	for _, a := range batch {
		if !s.healed && len(a.Records) > 0 && s.refused[string(a.Records[0].Hash)].After(s.now) {
			sagas = append(sagas, a.Saga)
		}
	}
	return sagas
}

// mostRefusals is how many commits of a lane in a row may contain a refused append while appends
// that were committed with it wait.
const mostRefusals = 7

// blockage counts the commits of a lane that were refused in a row while others waited: the sagas
// whose appends were committed with a refused one, and are not written yet.
type blockage struct {
	commits int
	others  map[uuid.UUID]bool
}

// freed takes in that a batch was committed, or failed for another reason than a refused append:
// its sagas no longer wait because of one.
func (b *blockage) freed(batch []journal.Append) {
	for _, a := range batch {
		delete(b.others, a.Saga)
	}
}

// tried takes in the result of a commit.
func (b *blockage) tried(s *sim, batch []journal.Append, err error) {
	if !errors.Is(err, errRow) {
		b.commits = 0
		return
	}
	if b.others == nil {
		b.others = make(map[uuid.UUID]bool)
	}
	bad := s.refuses(batch)
	for _, a := range batch {
		if slices.Contains(bad, a.Saga) {
			delete(b.others, a.Saga) // perhaps it was not refused before
		} else {
			b.others[a.Saga] = true
		}
	}
	if len(b.others) == 0 {
		b.commits = 0 // it is tried by itself, and holds up nothing
		return
	}
	if b.commits++; b.commits == mostRefusals {
		s.violate(bad[0], "12: the store refuses its append, and the lane has %d others which were not committed without it", len(b.others))
	}
}
