package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/archive"
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

// expire lets sagas go to the archive when their retention has ended, at intervals, and remembers
// them for the check.
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
		_ = s.archiver.Once(ctx) // the bucket fails at times; the next run archives what is left
		for _, d := range due {
			if _, err := s.store.Saga(ctx, d.head.ID); errors.Is(err, journal.ErrNotFound) {
				s.gone[d.head.ID] = s.archived(d)
			}
		}
	})
}

// archived returns a deleted saga with the journal that the archive has.
func (s *sim) archived(d deleted) deleted {
	found, err := s.archive.Find(ctx, d.head.ID)
	if err == nil {
		var records []journal.Record
		if records, err = s.archive.Records(ctx, found); err == nil && len(records) == len(d.records) {
			d.records = records
			return d
		}
	}
	s.gone[d.head.ID] = d // violate shows its journal
	s.violate(d.head.ID, "it was deleted, and the archive does not have it: %v", err)
	return d
}

// bucket is an archive's bucket in memory. At times it fails, or loses or damages an object without
// an error.
type bucket struct {
	rng     *rand.Rand
	objects map[string][]byte
}

var errBucket = errors.New("the bucket does not respond")

// Put implements archive.Bucket.
func (b *bucket) Put(_ context.Context, key string, data []byte) error {
	switch b.rng.IntN(24) {
	case 0:
		return errBucket
	case 1: // it is lost
	case 2:
		b.objects[key] = bytes.Clone(data[:b.rng.IntN(len(data))])
	case 3:
		b.objects[key] = bytes.Clone(data)
		b.objects[key][b.rng.IntN(len(data))] ^= 4
	default:
		b.objects[key] = bytes.Clone(data)
	}
	return nil
}

// Get implements archive.Bucket.
func (b *bucket) Get(_ context.Context, key string) ([]byte, error) {
	data, ok := b.objects[key]
	if !ok {
		return nil, archive.ErrNotFound
	}
	return data, nil
}

// List implements archive.Bucket.
func (b *bucket) List(_ context.Context, prefix string, each func(string) error) error {
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(key, prefix) {
			if err := each(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete implements archive.Bucket. It fails at times, so that a damaged object stays.
func (b *bucket) Delete(_ context.Context, key string) error {
	if b.rng.IntN(4) == 0 {
		return errBucket
	}
	delete(b.objects, key)
	return nil
}

// String implements archive.Bucket.
func (b *bucket) String() string { return "memory" }

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
