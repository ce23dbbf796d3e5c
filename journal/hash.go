package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/gofrs/uuid/v5"
)

// ErrBroken means that records are not an unchanged journal: one is missing, was changed, or
// belongs to another saga.
var ErrBroken = errors.New("journal is broken")

// Seal sets the hash of r to SHA-256(prev ‖ canonical(r)), where prev is the hash of the previous
// record (nil for the first). The canonical form is the saga's id, then each field of r in the
// order of the struct: a number as eight bytes big-endian, a text or data with its length before
// it. So no two different records have the same canonical form. No key is needed: the chain shows
// damage, but not a change by somebody who seals all later records again.
func Seal(saga uuid.UUID, prev []byte, r *Record) {
	r.Hash = digest(saga, prev, r)
}

// Verify checks that records continue a chain whose last hash is prev (nil at the start) and whose
// next seq is from. The error wraps ErrBroken and names the first wrong record.
func Verify(saga uuid.UUID, prev []byte, from int64, records []Record) error {
	for i := range records {
		r := &records[i]
		if r.Seq != from+int64(i) {
			return fmt.Errorf("%w: saga %s: expected seq %d, found %d", ErrBroken, saga, from+int64(i), r.Seq)
		}
		if !bytes.Equal(digest(saga, prev, r), r.Hash) {
			return fmt.Errorf("%w: saga %s: record %d does not match its hash", ErrBroken, saga, r.Seq)
		}
		prev = r.Hash
	}
	return nil
}

func digest(saga uuid.UUID, prev []byte, r *Record) []byte {
	canonical := canonicals.Get().(*[]byte)
	buf := append((*canonical)[:0], prev...) //nolint:gocritic // *canonical is set to buf below
	buf = append(buf, saga.Bytes()...)
	num := func(n int64) { buf = binary.BigEndian.AppendUint64(buf, uint64(n)) }
	text := func(s string) {
		num(int64(len(s)))
		buf = append(buf, s...)
	}
	num(r.Seq)
	num(r.At.UnixMilli())
	text(string(r.Kind))
	text(r.Path)
	text(string(r.Way))
	num(int64(r.Attempt))
	num(int64(r.Generation))
	text(r.Key)
	text(string(r.Class))
	text(r.Node)
	num(int64(len(r.Data)))
	defer func() {
		if *canonical = buf; cap(buf) <= keptBuffer {
			canonicals.Put(canonical)
		}
	}()
	if len(r.Data) > keptBuffer { // too large to copy
		h := sha256.New()
		h.Write(buf)
		h.Write(r.Data)
		return h.Sum(nil)
	}
	buf = append(buf, r.Data...)
	sum := sha256.Sum256(buf)
	return sum[:]
}

// canonicals pools the buffers of canonical forms.
var canonicals = sync.Pool{New: func() any { return new([]byte) }}
