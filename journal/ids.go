package journal

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/gofrs/uuid/v5"
)

// CompareID orders ids by their bytes, as every list does: UUIDv7s by their time.
func CompareID(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// IDTime is the time in a UUIDv7: of a saga's id, when its start was taken in.
func IDTime(id uuid.UUID) time.Time {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC()
}

// firstID is the least id of a millisecond.
func firstID(ms int64) (id uuid.UUID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(min(max(ms, 0), 1<<48-1)))
	copy(id[:6], b[2:])
	return id
}

// FirstID returns the least id that a saga can have that was started at a moment, or later. It is
// never Nil, which bounds nothing.
func FirstID(at time.Time) uuid.UUID {
	id := firstID(at.UnixMilli())
	if id.IsNil() {
		id[15] = 1
	}
	return id
}

// Started narrows a filter to sagas that were started after one time and before another, by the
// times in their ids. A zero time does not narrow it.
func (f *Filter) Started(after, before time.Time) {
	if !after.IsZero() {
		f.from(firstID(after.UnixMilli() + 1))
	}
	if !before.IsZero() {
		f.Older(FirstID(before.Add(time.Millisecond - 1)))
	}
}

// Named narrows a filter to sagas whose ids begin with a text, written as ids are. It reports
// whether there can be any, and leaves the filter as it is if not.
func (f *Filter) Named(text string) bool {
	const least, most = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(text) > len(least) {
		return false
	}
	first, err := uuid.FromString(text + least[len(text):])
	if err != nil {
		return false
	}
	last, err := uuid.FromString(text + most[len(text):])
	if err != nil {
		return false
	}
	f.from(first)
	f.Older(next(last))
	return true
}

// next is the id behind one; Nil behind the last.
func next(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

func (f *Filter) from(id uuid.UUID) {
	if CompareID(id, f.From) > 0 {
		f.From = id
	}
}

// Older narrows a filter to sagas before an id, as a cursor does; Nil does not narrow it.
func (f *Filter) Older(id uuid.UUID) {
	if !id.IsNil() && (f.Before.IsNil() || CompareID(id, f.Before) < 0) {
		f.Before = id
	}
}
