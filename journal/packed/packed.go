// Package packed encodes the records of one append as one value, which a SQL store keeps in one row
// of its journal. A row for each record would cost a database more than the records themselves.
//
// A value is smaller than the public form of its records (journal.Record.MarshalJSON) because
//
//   - it does not have what the records before it and the row determine: of the hashes in a chain,
//     only the last one is stored;
//   - it does not have what a record's other fields determine: a key that idempotency.Key derives,
//     and the hash of an HTTP request in its data;
//   - it has a number instead of the name of the node, which is a Dictionary of its own;
//   - ids and hashes in data, which are hexadecimal there, are stored as bytes;
//   - it is compressed with a Dictionary, which is text like that of the records.
//
// Decode returns records byte for byte as they were. docs/format.md describes the format for
// others.
package packed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/klauspost/compress/s2"

	"recourse/journal"
)

// ErrInvalid means that a value is not one that Encode wrote, or that it was changed.
var ErrInvalid = fmt.Errorf("%w: its row was changed and cannot be read", journal.ErrBroken)

// A value is
//
//	form (1 byte) ‖ id of the dictionary (4, if the form has it) ‖ last hash (32, if the form has it)
//	‖ length of the bytes (uvarint) ‖ bytes ‖ text
//
// Text is that of all records, one after the other, compressed as an S2 block with the dictionary.
// Bytes are the ids and hashes of the records, and the id of their node's dictionary, in the order
// in which the text refers to them. They are apart because they are never like the dictionary, and
// so the text around them is.
const (
	named   = 1 << iota // compressed with the dictionary that it names, otherwise with the built-in one
	chained             // has the hash of the last record only; the others follow from it
)

// The kinds, ways and classes that have a number. The numbers never change, so new ones come last.
var (
	kinds = []journal.Kind{journal.Started, journal.Intent, journal.Outcome, journal.Skipped, journal.Decided, journal.Woke,
		journal.Signalled, journal.Compensating, journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled,
		journal.Attached, journal.Called, journal.Committed, journal.Finished}
	ways    = []journal.Way{"", journal.Do, journal.Undo}
	classes = []journal.Class{"", journal.Succeeded, journal.Refused, journal.Transient, journal.InDoubt, journal.Held}
)

// other is the number of a kind, way or class that has none: its text follows.
const other = 0xff

// Row is a row of the journal.
type Row struct {
	First, Last int64     // seqs of its first and its last record
	At          time.Time // of its last record
	Value       []byte
}

// Encode returns the row of records, of which there is at least one. prev is the hash of the record
// before them, nil if there is none or it is not known. A nil dictionary is the built-in one. node
// is the dictionary with the name of the node that wrote the records, nil for none. The row cannot
// be read without its dictionaries.
func Encode(saga uuid.UUID, prev []byte, records []journal.Record, d, node *Dictionary) Row {
	if d == nil {
		d = builtin
	}
	last := &records[len(records)-1]
	row := Row{First: records[0].Seq, Last: last.Seq, At: last.At}
	w := newWriter(saga, d.known)
	defer w.release()
	form := byte(0)
	if journal.Verify(saga, prev, row.First, records) == nil {
		form |= chained
	}
	w.node = node
	at, before := last.At.UnixMilli(), ""
	for i := range records {
		r := &records[i]
		w.number(at - r.At.UnixMilli())
		w.record(r, before)
		if form&chained == 0 {
			w.string(string(r.Hash))
		}
		before = r.Node
	}
	v := make([]byte, 0, 64+len(w.bytes)+s2.MaxEncodedLen(len(w.text)))
	if d != builtin {
		v = binary.BigEndian.AppendUint32(append(v, form|named), d.id)
	} else {
		v = append(v, form)
	}
	if form&chained != 0 {
		v = append(v, last.Hash...)
	}
	v = append(binary.AppendUvarint(v, uint64(len(w.bytes))), w.bytes...)
	v = append(v, d.s2().Encode(v[len(v):cap(v)], w.text)...)
	row.Value = v
	return row
}

// Finder finds the dictionary with an id.
type Finder func(id uint32) (*Dictionary, error)

// Decode returns the records of a row. prev is the hash of the record before them, nil if there is
// none. If a record was changed, it returns the records as they are: journal.Verify finds the
// change, because the last record has the hash that was stored. The error is ErrInvalid or that of
// the dictionaries.
func Decode(saga uuid.UUID, prev []byte, row Row, find Finder) ([]journal.Record, error) {
	if row.Last < row.First || row.Last-row.First >= math.MaxInt32 {
		return nil, ErrInvalid
	}
	form, id, hash, v, err := row.head()
	if err != nil {
		return nil, err
	}
	d := builtin
	if form&named != 0 {
		if d, err = find(id); err != nil {
			return nil, err
		}
	}
	n, k := binary.Uvarint(v)
	if k <= 0 || n > uint64(len(v)-k) {
		return nil, ErrInvalid
	}
	r := reader{saga: saga, find: find, bytes: v[k : k+int(n)]}
	text := v[k+int(n):]
	size, err := s2.DecodedLen(text)
	if err == nil && size > maxDecoded {
		err = fmt.Errorf("%d bytes", size)
	}
	if err == nil {
		r.text, err = d.s2().Decode(nil, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrInvalid, err)
	}
	records := make([]journal.Record, 0, min(row.Last-row.First+1, int64(len(r.text))))
	at, node := row.At.UnixMilli(), ""
	for seq := row.First; seq <= row.Last; seq++ {
		rec := journal.Record{Seq: seq, At: time.UnixMilli(at - r.number()).UTC()}
		r.record(&rec, node)
		switch {
		case form&chained == 0:
			rec.Hash = []byte(r.string())
		case seq == row.Last:
			rec.Hash = hash
		default:
			journal.Seal(saga, prev, &rec)
		}
		if r.err != nil {
			return nil, r.err
		}
		records = append(records, rec)
		prev, node = rec.Hash, rec.Node
	}
	if len(r.text)+len(r.bytes) > 0 {
		return nil, ErrInvalid
	}
	return records, nil
}

// Records returns up to limit of the records of consecutive rows that come after a seq. The first
// row begins with seq 1, or is the second one before the row that has that seq. Otherwise hashes
// may be missing, which follow from the rows before.
func Records(saga uuid.UUID, rows []Row, after int64, limit int, find Finder) ([]journal.Record, error) {
	var out []journal.Record
	var prev []byte
	for i := range rows {
		row := &rows[i]
		if hash, ok := row.LastHash(); ok && row.Last <= after {
			prev = hash
			continue
		}
		records, err := Decode(saga, prev, *row, find)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", row.First, err)
		}
		prev = records[len(records)-1].Hash
		for k := range records {
			if records[k].Seq > after && len(out) < limit {
				out = append(out, records[k])
			}
		}
	}
	return out, nil
}

// LastHash returns the hash of a row's last record without reading the records. ok is false if that
// is not possible.
func (r *Row) LastHash() (hash []byte, ok bool) {
	_, _, hash, _, err := r.head()
	return hash, err == nil && hash != nil
}

// head returns the parts of the value before the bytes: the form, the id of the dictionary and the
// last hash, if the form has them. The error is ErrInvalid.
func (r *Row) head() (form byte, id uint32, hash, rest []byte, err error) {
	if len(r.Value) == 0 {
		return 0, 0, nil, nil, ErrInvalid
	}
	form, rest = r.Value[0], r.Value[1:]
	if form > named|chained {
		return 0, 0, nil, nil, fmt.Errorf("%w, or a newer version of recourse has written it", ErrInvalid)
	}
	if form&named != 0 {
		if len(rest) < idBytes {
			return 0, 0, nil, nil, ErrInvalid
		}
		id, rest = binary.BigEndian.Uint32(rest), rest[idBytes:]
	}
	if form&chained != 0 {
		if len(rest) < hashLen {
			return 0, 0, nil, nil, ErrInvalid
		}
		hash, rest = bytes.Clone(rest[:hashLen]), rest[hashLen:]
	}
	return form, id, hash, rest, nil
}

const (
	hashLen    = 32        // of SHA-256
	idBytes    = 4         // of the id of a dictionary
	maxDecoded = 512 << 20 // so that a changed length does not use up the memory
)
