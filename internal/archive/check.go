package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Parts lists the objects with journals, in the order of definitions and days. strange are keys
// among them that are none.
func Parts(ctx context.Context, b Bucket) (parts []Part, strange []string, err error) {
	err = b.List(ctx, sagasPrefix, func(key string) error {
		if p, ok := parsePart(key); ok {
			parts = append(parts, p)
		} else {
			strange = append(strange, key)
		}
		return nil
	})
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Day, b.Day), journal.CompareID(a.ID, b.ID))
	})
	return parts, strange, err
}

// ErrNoIndex means that a part has no index: its archiver did not finish, and deleted no saga.
var ErrNoIndex = errors.New("the object has no index")

// CheckIndex checks that the index objects of a part have its journals, and no others. list has the
// Saga, Records and Hash of each of them. Errors: ErrNoIndex, ErrDamaged.
func CheckIndex(ctx context.Context, b Bucket, p Part, list []Entry) error {
	var absent, present int
	for _, want := range byStartDay(list) {
		key := indexKey(p.ID, want)
		object, err := b.Get(ctx, key)
		if errors.Is(err, ErrNotFound) {
			absent++
			continue
		} else if err != nil {
			return err
		}
		present++
		have, err := unpackEntries(object)
		if err == nil && !slices.EqualFunc(have, want, func(h, w Entry) bool {
			return h.Saga == w.Saga && h.Records == w.Records && h.Hash == w.Hash && h.Object == p.Key
		}) {
			err = fmt.Errorf("%w: it does not have the sagas of its object", ErrDamaged)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if absent > 0 { // also if some are there: they are stored before anything is deleted
		return fmt.Errorf("%s: %w: %d of %d", p.Key, ErrNoIndex, absent, absent+present)
	}
	return nil
}

// Dangling calls each for the keys of index objects whose part is not among the parts.
func Dangling(ctx context.Context, b Bucket, parts []Part, each func(key string)) error {
	known := make(map[uuid.UUID]bool, len(parts))
	for _, p := range parts {
		known[p.ID] = true
	}
	return b.List(ctx, indexPrefix, func(key string) error {
		if _, _, part, ok := parseIndex(key); !ok || !known[part] {
			each(key)
		}
		return nil
	})
}
