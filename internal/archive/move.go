package archive

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// forgetTimeout bounds the time in which a node that stops forgets content.
const forgetTimeout = 15 * time.Second

// move stores a part, reads it back, and deletes its sagas from the database: see the package
// comment. If it fails, or a saga has changed, all that it has not deleted is archived again by a
// later run.
func (a *Archiver) move(ctx context.Context, p *part) error {
	if len(p.entries) == 0 {
		return nil
	}
	contents := 0 // entries whose content may be in the bucket
	var err error
	for i := 0; i < len(p.entries) && err == nil; i++ {
		contents++
		err = a.moveContent(ctx, &p.entries[i])
	}
	if err == nil {
		err = a.store(ctx, p)
	}
	var deleted []uuid.UUID
	if err == nil {
		deleted, err = a.delete(ctx, p.entries)
	}
	if errors.Is(err, errChanged) {
		err = nil
	}
	// No later run finds a saga that another node has deleted, so this must not wait for one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	return errors.Join(err, a.forget(ctx, p.entries[:contents], deleted))
}

// store stores the journals of a part and their index, and reads them back.
func (a *Archiver) store(ctx context.Context, p *part) error {
	if err := a.cfg.Bucket.Put(ctx, p.key, p.object); err != nil {
		return err
	}
	if err := failpoint.Err("archive.stored", nil); err != nil {
		return err
	}
	if err := a.readBack(ctx, p); err != nil {
		// Nothing refers to the object yet. If it is not deleted, it is only not used.
		return errors.Join(err, a.cfg.Bucket.Delete(context.WithoutCancel(ctx), p.key))
	}
	if err := failpoint.Err("archive.read_back", nil); err != nil {
		return err
	}
	if err := a.index(ctx, p); err != nil {
		return err
	}
	if err := failpoint.Err("archive.indexed", nil); err != nil {
		return err
	}
	a.count(p)
	return nil
}

// readBack checks that the bucket has the part as it was made, and that the part has the journals
// that the database has.
func (a *Archiver) readBack(ctx context.Context, p *part) error {
	object, err := a.same(ctx, p.key, p.object)
	if err != nil {
		return err
	}
	left := p.entries
	err = Journals(object, func(j Journal) error {
		if len(left) == 0 || left[0].Saga != j.Saga {
			return fmt.Errorf("%s: %w: it has a journal of saga %s in the wrong place", p.key, ErrDamaged, j.Saga)
		}
		if err := left[0].holds(j.Records); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		left = left[1:]
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s: %w: it lacks the journal of saga %s", p.key, ErrDamaged, left[0].Saga)
	}
	return err
}

// holds checks that records are the journal that the entry describes.
func (e *Entry) holds(records []journal.Record) error {
	if err := sound(e.Saga, records, e.Records); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if last := hex.EncodeToString(records[len(records)-1].Hash); last != e.Hash {
		return fmt.Errorf("%w: the last hash of saga %s is %s, and it should be %s", ErrDamaged, e.Saga, last, e.Hash)
	}
	return nil
}

// same reads an object and checks that it is what was stored.
func (a *Archiver) same(ctx context.Context, key string, stored []byte) ([]byte, error) {
	object, err := a.cfg.Bucket.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(object, stored) {
		return nil, fmt.Errorf("read back %s: %w: %d bytes were stored, and %d other bytes were read", key, ErrDamaged, len(stored), len(object))
	}
	return object, nil
}

// index stores the index objects of a part, one for each day on which its sagas were started, and
// reads them back.
func (a *Archiver) index(ctx context.Context, p *part) error {
	for _, entries := range byStartDay(p.entries) {
		object, err := packEntries(entries)
		if err != nil {
			return err
		}
		key := indexKey(p.id, entries)
		if err := a.cfg.Bucket.Put(ctx, key, object); err != nil {
			return err
		}
		if _, err := a.same(ctx, key, object); err != nil {
			return errors.Join(err, a.cfg.Bucket.Delete(context.WithoutCancel(ctx), key))
		}
	}
	return nil
}

// byStartDay divides entries by the day on which their sagas were started. Each list is in the
// order of ids.
func byStartDay(entries []Entry) (days [][]Entry) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return journal.CompareID(a.Saga, b.Saga) })
	for len(sorted) > 0 {
		n := slices.IndexFunc(sorted, func(e Entry) bool { return startDay(e.Saga) != startDay(sorted[0].Saga) })
		if n < 0 {
			n = len(sorted)
		}
		days = append(days, sorted[:n])
		sorted = sorted[n:]
	}
	return days
}

func (a *Archiver) count(p *part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Objects++
	a.stats.Bytes += int64(len(p.object))
	for _, e := range p.entries {
		delete(a.refused, e.Saga)
	}
}

const (
	deletePage  = 500 // sagas that the store is asked to delete at once
	deleteTries = 3   // if it is not known whether they were deleted
)

// delete deletes sagas that are in the archive, and returns those that it has deleted.
func (a *Archiver) delete(ctx context.Context, entries []Entry) (all []uuid.UUID, err error) {
	for page := range slices.Chunk(entries, deletePage) {
		copied := make([]journal.Copied, len(page))
		for i, e := range page {
			copied[i] = journal.Copied{Saga: e.Saga, Seq: e.Records, Blobs: e.Blobs}
		}
		deleted, err := a.cfg.Store.DeleteCopied(ctx, copied)
		for try := 1; errors.Is(err, journal.ErrUnknown) && try < deleteTries; try++ {
			var more []uuid.UUID
			more, err = a.cfg.Store.DeleteCopied(ctx, copied)
			deleted = append(deleted, more...)
		}
		all = append(all, deleted...)
		a.mu.Lock()
		a.stats.Sagas += int64(len(deleted))
		a.mu.Unlock()
		if err != nil {
			return all, err
		}
		if err := failpoint.Err("archive.deleted", nil); err != nil {
			return all, err
		}
	}
	return all, nil
}

// forget deletes the content of those sagas whose content was erased in the database after it had
// been copied. This node has not deleted them: they are archived again without content, or another
// node has done that.
func (a *Archiver) forget(ctx context.Context, entries []Entry, deleted []uuid.UUID) error {
	gone := make(map[uuid.UUID]bool, len(deleted))
	for _, id := range deleted {
		gone[id] = true
	}
	for i := range entries {
		e := &entries[i]
		if e.Blobs == 0 || gone[e.Saga] {
			continue
		}
		if err := a.eraseErased(ctx, e.Saga); err != nil {
			return err
		}
	}
	return nil
}
