package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Reader finds sagas in an archive. It remembers what it has read last: objects never change.
type Reader struct {
	bucket Bucket

	mu       sync.Mutex
	days     recent[string, dayKeys]
	indexes  recent[string, []Entry]
	journals recent[string, []journal.Record] // by object and saga
}

// dayKeys are the keys of the index objects of a day.
type dayKeys struct {
	keys []string
	read time.Time
}

// listAgain is the age at which a list of keys is read again: archivers add objects.
const listAgain = 10 * time.Second

// NewReader returns a reader of a bucket.
func NewReader(b Bucket) *Reader {
	return &Reader{bucket: b, days: recent[string, dayKeys]{most: 64}, indexes: recent[string, []Entry]{most: 64}, journals: recent[string, []journal.Record]{most: 16}}
}

// Bucket returns the archive's bucket.
func (r *Reader) Bucket() Bucket { return r.bucket }

// Find returns where a saga is. Errors: ErrNotFound.
func (r *Reader) Find(ctx context.Context, saga uuid.UUID) (Entry, error) {
	list, err := r.Range(ctx, saga, saga, 1)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("saga %s: %w", saga, ErrNotFound)
	}
	if err != nil {
		return Entry{}, err
	}
	return list[0], nil
}

// mostDays limits how many days one call of Range reads.
const mostDays = 400

// Range returns up to limit sagas with ids from first to last, both included, in descending order
// of ids, each once. If it finds none, no saga that had left the database before the call is there.
func (r *Reader) Range(ctx context.Context, first, last uuid.UUID, limit int) ([]Entry, error) {
	list, err := r.find(ctx, first, last, limit, listAgain)
	if err == nil && len(list) == 0 || errors.Is(err, ErrDamaged) {
		list, err = r.find(ctx, first, last, limit, 0) // an archiver may have added it just now
	}
	return list, err
}

// find is Range with lists of keys of at most an age.
func (r *Reader) find(ctx context.Context, first, last uuid.UUID, limit int, age time.Duration) ([]Entry, error) {
	found := make(map[uuid.UUID]Entry)
	var damaged error // of an index whose archiver crashed; another one has its sagas
	from, at := journal.IDTime(first).Truncate(24*time.Hour), journal.IDTime(last).Truncate(24*time.Hour)
	for range mostDays {
		if err := r.ofDay(ctx, day(at), first, last, found, age); errors.Is(err, ErrDamaged) {
			damaged = err
		} else if err != nil {
			return nil, err
		}
		if len(found) >= limit || !at.After(from) {
			break
		}
		at = at.Add(-24 * time.Hour)
	}
	if len(found) == 0 && damaged != nil {
		return nil, damaged
	}
	list := make([]Entry, 0, len(found))
	for _, e := range found { // any order
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return journal.CompareID(b.Saga, a.Saga) })
	return list[:min(len(list), limit)], nil
}

// ofDay adds the sagas of a day with ids from first to last. If an index is damaged, it reads the
// others and then returns the error.
func (r *Reader) ofDay(ctx context.Context, day string, first, last uuid.UUID, found map[uuid.UUID]Entry, age time.Duration) error {
	keys, err := r.keys(ctx, day, age)
	if err != nil {
		return err
	}
	var damaged error
	for _, key := range keys {
		least, greatest, _, ok := parseIndex(key)
		if !ok || journal.CompareID(greatest, first) < 0 || journal.CompareID(least, last) > 0 {
			continue
		}
		list, err := r.entries(ctx, key)
		switch {
		case errors.Is(err, ErrDamaged):
			damaged = err
		case errors.Is(err, ErrNotFound): // its archiver did not read it back as it was
		case err != nil:
			return err
		}
		for _, e := range list {
			if journal.CompareID(e.Saga, first) < 0 || journal.CompareID(e.Saga, last) > 0 {
				continue
			}
			// Of several copies the one without blobs is right: they were erased after the others.
			if other, ok := found[e.Saga]; !ok || e.Blobs <= other.Blobs {
				found[e.Saga] = e
			}
		}
	}
	return damaged
}

func (r *Reader) keys(ctx context.Context, day string, age time.Duration) ([]string, error) {
	r.mu.Lock()
	known, ok := r.days.get(day)
	r.mu.Unlock()
	if ok && time.Since(known.read) < age {
		return known.keys, nil
	}
	now := dayKeys{read: time.Now()}
	err := r.bucket.List(ctx, indexPrefix+day+"/", func(key string) error {
		now.keys = append(now.keys, key)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the archive %s: %w", r.bucket, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.days.put(day, now)
	return now.keys, nil
}

// entries reads an index object.
func (r *Reader) entries(ctx context.Context, key string) ([]Entry, error) {
	r.mu.Lock()
	list, ok := r.indexes.get(key)
	r.mu.Unlock()
	if ok {
		return list, nil
	}
	object, err := r.bucket.Get(ctx, key)
	if err == nil {
		list, err = unpackEntries(object)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of the archive %s: %w", key, r.bucket, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indexes.put(key, list)
	return list, nil
}

// errFound ends the reading of an object.
var errFound = errors.New("found")

// Records returns the journal of a saga, and checks its hash chain. The caller does not change it.
func (r *Reader) Records(ctx context.Context, e Entry) ([]journal.Record, error) {
	key := e.Object + " " + e.Saga.String()
	r.mu.Lock()
	records, ok := r.journals.get(key)
	r.mu.Unlock()
	if ok {
		return records, nil
	}
	object, err := r.bucket.Get(ctx, e.Object)
	if err == nil {
		records, err = e.in(object)
	}
	if err != nil {
		return nil, fmt.Errorf("read saga %s in %s of the archive %s: %w", e.Saga, e.Object, r.bucket, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journals.put(key, records)
	return records, nil
}

// in returns the journal of the saga in an object.
func (e *Entry) in(object []byte) (records []journal.Record, err error) {
	err = Journals(object, func(j Journal) error {
		if j.Saga != e.Saga {
			return nil
		}
		records = j.Records
		return errFound
	})
	switch {
	case err == nil:
		return nil, fmt.Errorf("%w: it lacks the journal", ErrDamaged)
	case !errors.Is(err, errFound):
		return nil, err
	}
	return records, e.holds(records)
}

// Blobs returns the blobs of a saga that have one of the hashes, as journal.Blobs does.
func (r *Reader) Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error) {
	wanted := make(map[[sha256.Size]byte]bool, len(hashes))
	for _, h := range hashes {
		wanted[h] = true
	}
	found := make(map[[sha256.Size]byte][]byte, len(hashes))
	err := r.bucket.List(ctx, contentOf(saga), func(key string) error {
		if len(found) == len(wanted) {
			return nil
		}
		object, err := r.bucket.Get(ctx, key)
		if err != nil {
			return err
		}
		return eachBlob(object, func(b journal.Blob) error {
			if wanted[b.Hash] {
				found[b.Hash] = b.Data
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("content of saga %s in the archive %s: %w", saga, r.bucket, err)
	}
	return journal.BlobsInOrder(hashes, found), nil
}

// recent remembers the values that were put last.
type recent[K comparable, V any] struct {
	most   int
	order  []K // the oldest first
	values map[K]V
}

func (c *recent[K, V]) get(k K) (V, bool) {
	v, ok := c.values[k]
	return v, ok
}

func (c *recent[K, V]) put(k K, v V) {
	if c.values == nil {
		c.values = make(map[K]V)
	}
	if _, ok := c.values[k]; !ok {
		if c.order = append(c.order, k); len(c.order) > c.most {
			delete(c.values, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.values[k] = v
}
