package journal

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/gofrs/uuid/v5"
)

// CompareID compares ids by their bytes, as every list does. UUIDv7s are ordered by their time.
func CompareID(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// IDTime returns the time in a UUIDv7. In a saga's id it is when its start was accepted.
func IDTime(id uuid.UUID) time.Time {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC()
}

// IDCell returns the number of the cell that an id belongs to. A UUIDv8 (RFC 9562) has a number
// from 1 to 4095 in the 12 bits after its version, and is otherwise like a UUIDv7. Every other id
// belongs to the home cell, 0.
func IDCell(id uuid.UUID) int {
	if id.Version() != 8 {
		return 0
	}
	return int(binary.BigEndian.Uint16(id[6:8]) & 0x0fff)
}

// firstID returns the least id of a millisecond.
func firstID(ms int64) (id uuid.UUID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(min(max(ms, 0), 1<<48-1)))
	copy(id[:6], b[2:])
	return id
}

// FirstID returns the least id of a saga that was started at a time or later. It is never Nil,
// because Nil does not narrow a filter.
func FirstID(at time.Time) uuid.UUID {
	id := firstID(at.UnixMilli())
	if id.IsNil() {
		id[15] = 1
	}
	return id
}

// Started narrows the filter to sagas that were started after one time and before another, by the
// times in their ids. A zero time does not narrow it.
func (f *Filter) Started(after, before time.Time) {
	if !after.IsZero() {
		f.from(firstID(after.UnixMilli() + 1))
	}
	if !before.IsZero() {
		f.Older(FirstID(before.Add(time.Millisecond - 1)))
	}
}

// Named narrows the filter to sagas whose id, as a string, begins with text. If no id can begin
// with it, Named returns false and does not change the filter.
func (f *Filter) Named(text string) bool {
	first, last, ok := NamedRange(text)
	if !ok {
		return false
	}
	f.from(first)
	f.Older(next(last))
	return true
}

// NamedRange returns the least and the greatest id that, as a string, begins with text; false if
// there is none.
func NamedRange(text string) (first, last uuid.UUID, ok bool) {
	const least, most = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(text) > len(least) {
		return first, last, false
	}
	first, err := uuid.FromString(text + least[len(text):])
	if err != nil {
		return first, last, false
	}
	last, err = uuid.FromString(text + most[len(text):])
	return first, last, err == nil
}

// next returns the id after id; Nil after the last one.
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

// Older narrows the filter to ids less than id, as a cursor does. Nil does not narrow it.
func (f *Filter) Older(id uuid.UUID) {
	if !id.IsNil() && (f.Before.IsNil() || CompareID(id, f.Before) < 0) {
		f.Before = id
	}
}
