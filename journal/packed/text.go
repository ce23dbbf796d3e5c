package packed

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
)

// In the text of data these bytes stand for something else. They do not occur in compact JSON, and
// where they occur in other data the byte escape is before them.
const (
	ownKey byte = 1 + iota // the record's key
	anID                   // a UUID as text; its bytes are the next 16
	aHash                  // 32 bytes in hexadecimal; they are the next 32
	escape
	// These stand for something else only after escape.
	ofRequest  // the hash of the request before it: see requestHash
	commonHash // 32 bytes in hexadecimal that are in the dictionary; they are the next 32 of the text
)

// derivedKey, as the key of a record, stands for the one that idempotency.Key derives.
const derivedKey byte = 1

// nodeName, as the node of a record, stands for the text of a dictionary; the dictionary's id is
// the next 4 of the bytes.
const nodeName byte = 3

// writer builds the text and the bytes of records of a saga.
type writer struct {
	saga        uuid.UUID
	text, bytes []byte
	// known are the hashes that the dictionary has. They are written into the text, which is
	// compressed.
	known map[[hashLen]byte]bool
	node  *Dictionary // with the name of the node, nil: none
	learn bool        // the text is that of a dictionary: all its hashes are added to known
}

var buffers = sync.Pool{New: func() any { return new(writer) }}

// newWriter returns an empty writer of the pool.
func newWriter(saga uuid.UUID, known map[[hashLen]byte]bool) *writer {
	w := buffers.Get().(*writer)
	*w = writer{saga: saga, text: w.text[:0], bytes: w.bytes[:0], known: known}
	return w
}

// release returns the writer to the pool, unless it is large.
func (w *writer) release() {
	w.known, w.node = nil, nil
	if cap(w.text)+cap(w.bytes) <= 64<<10 {
		buffers.Put(w)
	}
}

func (w *writer) number(n int64) { w.text = binary.AppendVarint(w.text, n) }

func (w *writer) string(s string) {
	w.text = append(binary.AppendUvarint(w.text, uint64(len(s))), s...)
}

// short writes the number of a text that has one, or else the text.
func short[T ~string](w *writer, all []T, s T) {
	if i := slices.Index(all, s); i >= 0 {
		w.text = append(w.text, byte(i))
		return
	}
	w.text = append(w.text, other)
	w.string(string(s))
}

// name writes a text that is usually a UUID, or the same as another.
func (w *writer) name(s, same string) {
	id, isID := parseID(s)
	switch {
	case s == same:
		w.text = append(w.text, 0)
	case isID:
		w.text, w.bytes = append(w.text, anID), append(w.bytes, id[:]...)
	default:
		w.text = append(w.text, other)
		w.string(s)
	}
}

// key writes the key of a record, unless it follows from the rest of the record.
func (w *writer) key(r *journal.Record) {
	if r.Key != "" && r.Key == idempotency.Key(w.saga, r.Path, r.Way, r.Generation) {
		w.text = append(w.text, derivedKey)
		return
	}
	w.name(r.Key, "")
}

// record writes everything of a record except its seq, time and hash. node is that of the record
// before it.
func (w *writer) record(r *journal.Record, node string) {
	short(w, kinds, r.Kind)
	short(w, ways, r.Way)
	short(w, classes, r.Class)
	w.number(int64(r.Attempt))
	w.number(int64(r.Generation))
	if w.node != nil && r.Node != node && r.Node == string(w.node.text) {
		w.text, w.bytes = append(w.text, nodeName), binary.BigEndian.AppendUint32(w.bytes, w.node.id)
	} else {
		w.name(r.Node, node)
	}
	w.key(r)
	w.string(r.Path)
	if r.Data == nil {
		w.text = append(w.text, 0)
		return
	}
	w.text = append(w.text, 1)
	w.data(r.Data, r.Key)
}

// data writes data up to a byte 0, with shorter forms of what it can shorten.
func (w *writer) data(data []byte, key string) {
	from := 0 // the data before it is written
	for i := 0; i < len(data); {
		c := data[i]
		if c <= escape {
			w.text = append(append(w.text, data[from:i]...), escape, c)
			i++
			from = i
			continue
		}
		if !isHex(c) || i > 0 && isHex(data[i-1]) {
			i++
			continue
		}
		n := 0 // how many digits and hyphens follow
		for n < len(data)-i && n <= 2*hashLen && (isHex(data[i+n]) || data[i+n] == '-') {
			n++
		}
		switch {
		case n == idLen:
			text := string(data[i : i+n])
			id, ok := parseID(text)
			if !ok {
				break
			}
			w.text = append(w.text, data[from:i]...)
			from = i + n
			if text == key {
				w.text = append(w.text, ownKey)
				break
			}
			w.text, w.bytes = append(w.text, anID), append(w.bytes, id[:]...)
		case n == 2*hashLen:
			var hash [hashLen]byte
			if _, err := hex.Decode(hash[:], data[i:i+n]); err != nil {
				break // it has a hyphen
			}
			w.text = append(w.text, data[from:i]...)
			from = i + n
			w.hash(hash, data[:i])
		}
		i += n
	}
	w.text = append(append(w.text, data[from:]...), 0)
}

// hash writes a hash that comes after data.
func (w *writer) hash(hash [hashLen]byte, data []byte) {
	if derived, ok := requestHash(data); ok && derived == hash {
		w.text = append(w.text, escape, ofRequest)
		return
	}
	if w.learn {
		w.known[hash] = true
	}
	if w.known[hash] {
		w.text = append(append(w.text, escape, commonHash), hash[:]...)
		return
	}
	w.text, w.bytes = append(w.text, aHash), append(w.bytes, hash[:]...)
}

const idLen = 36 // of a UUID's text

// isHex reports whether a byte is a digit of a UUID or hash. Upper case is not, because the bytes
// do not say which case it was.
func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// parseID returns the UUID of its canonical text. ok is false for every other text.
func parseID(s string) (id uuid.UUID, ok bool) {
	if len(s) != idLen || strings.ToLower(s) != s {
		return id, false
	}
	id, err := uuid.FromString(s)
	return id, err == nil
}

// reader reads what a writer has written. After an error it has failed, and returns zeros.
type reader struct {
	saga        uuid.UUID
	find        Finder
	text, bytes []byte
	err         error // ErrInvalid, or that of the dictionaries
}

func (r *reader) fail() { r.failWith(ErrInvalid) }

func (r *reader) failWith(err error) {
	r.text, r.bytes = nil, nil
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) number() int64 {
	n, k := binary.Varint(r.text)
	if k <= 0 {
		r.fail()
		return 0
	}
	r.text = r.text[k:]
	return n
}

func (r *reader) string() string {
	n, k := binary.Uvarint(r.text)
	if k <= 0 || n > uint64(len(r.text)-k) {
		r.fail()
		return ""
	}
	s := string(r.text[k : k+int(n)])
	r.text = r.text[k+int(n):]
	return s
}

func (r *reader) byte() byte {
	if len(r.text) == 0 {
		r.fail()
		return 0
	}
	b := r.text[0]
	r.text = r.text[1:]
	return b
}

// next returns the next n of the bytes.
func (r *reader) next(n int) []byte {
	if len(r.bytes) < n {
		r.fail()
		return make([]byte, n)
	}
	b := r.bytes[:n]
	r.bytes = r.bytes[n:]
	return b
}

func long[T ~string](r *reader, all []T) T {
	b := r.byte()
	switch {
	case int(b) < len(all):
		return all[b]
	case b == other:
		return T(r.string())
	}
	r.fail()
	return ""
}

func (r *reader) node(same string) string {
	first := r.byte()
	if first != nodeName {
		return r.nameOf(first, same)
	}
	id := binary.BigEndian.Uint32(r.next(idBytes))
	if r.err != nil {
		return ""
	}
	d, err := r.find(id)
	if err != nil {
		r.failWith(err)
		return ""
	}
	return string(d.text)
}

// nameOf reads the rest of a name after its first byte.
func (r *reader) nameOf(first byte, same string) string {
	switch first {
	case 0:
		return same
	case anID:
		return uuid.UUID(r.next(uuid.Size)).String()
	case other:
		return r.string()
	}
	r.fail()
	return ""
}

func (r *reader) record(rec *journal.Record, node string) {
	rec.Kind = long(r, kinds)
	rec.Way = long(r, ways)
	rec.Class = long(r, classes)
	rec.Attempt = int(r.number())
	rec.Generation = int(r.number())
	rec.Node = r.node(node)
	key := r.byte()
	if key != derivedKey {
		rec.Key = r.nameOf(key, "")
	}
	rec.Path = r.string()
	if key == derivedKey && r.err == nil {
		rec.Key = idempotency.Key(r.saga, rec.Path, rec.Way, rec.Generation)
	}
	switch r.byte() {
	case 0:
	case 1:
		rec.Data = r.data(rec.Key)
	default:
		r.fail()
	}
}

// data returns the data up to the byte 0.
func (r *reader) data(key string) []byte {
	data := make([]byte, 0, 2*len(r.text)/3+64)
	for {
		i := 0
		for i < len(r.text) && r.text[i] > escape {
			i++
		}
		data = append(data, r.text[:i]...)
		r.text = r.text[i:]
		switch r.byte() {
		case 0:
			return data // also after a failure
		case ownKey:
			data = append(data, key...)
		case anID:
			data = append(data, uuid.UUID(r.next(uuid.Size)).String()...)
		case aHash:
			data = hex.AppendEncode(data, r.next(hashLen))
		case escape:
			data = r.escaped(data)
		}
	}
}

// escaped appends to data what the byte escape and the next one stand for.
func (r *reader) escaped(data []byte) []byte {
	c := r.byte()
	switch c {
	case ofRequest:
		hash, ok := requestHash(data)
		if !ok {
			r.fail()
		}
		return hex.AppendEncode(data, hash[:])
	case commonHash:
		if len(r.text) < hashLen {
			r.fail()
			return data
		}
		data = hex.AppendEncode(data, r.text[:hashLen])
		r.text = r.text[hashLen:]
		return data
	}
	return append(data, c)
}
