package packed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"
	"github.com/klauspost/compress/s2"

	"recourse/journal"
)

// Dictionary is text that records are like. Encode stores only where in it a record's text is.
// Values name the dictionary that they were compressed with, which must therefore be kept for as
// long as they are.
type Dictionary struct {
	id   uint32
	text []byte
	s2   func() *s2.Dict // made when it is first needed: that of a node never is
	// known are the hashes in the text, such as that of a definition. It is nil in a dictionary
	// that was read from a store; such a one is only needed for decoding.
	known map[[hashLen]byte]bool
}

// maxText is how much of a dictionary's own text is used: S2 finds matches in at most 64 KiB, and
// the built-in text needs some of them.
const maxText = 60 << 10

// NewDictionary returns a dictionary with a text, before the built-in one.
func NewDictionary(text []byte) *Dictionary {
	if len(text) > maxText {
		text = text[:maxText]
	}
	sum := sha256.Sum256(text)
	return &Dictionary{id: binary.BigEndian.Uint32(sum[:]), text: text, s2: lazy(append(slices.Clip(text), common...))}
}

// ID returns the id of the dictionary in values: the first 32 bits of the SHA-256 of its text.
func (d *Dictionary) ID() uint32 { return d.id }

// Text returns the text of the dictionary, from which NewDictionary makes the same one.
func (d *Dictionary) Text() []byte { return d.text }

// DictionaryOf returns the dictionary for records like these, which are of the saga uuid.Nil.
func DictionaryOf(records []journal.Record) *Dictionary {
	known := make(map[[hashLen]byte]bool)
	w := newWriter(uuid.Nil, known)
	defer w.release()
	w.learn = true
	for i := range records {
		w.number(0)
		w.record(&records[i], records[0].Node)
	}
	d := NewDictionary(bytes.Clone(w.text))
	d.known = known
	return d
}

// Dictionaries are the dictionaries of a store, as far as they are known. The zero value has none.
type Dictionaries struct {
	mu     sync.Mutex
	byName map[string]*Dictionary // nil: use the built-in one
	byID   map[uint32]*Dictionary // the store has these
}

// For returns the dictionary for an append; nil is the built-in one. stored reports whether the
// store has it. If not, the caller stores it and calls Stored.
func (s *Dictionaries) For(a *journal.Alike) (d *Dictionary, stored bool) {
	if a == nil {
		return nil, true
	}
	return s.named(a.Name, func() *Dictionary { return DictionaryOf(a.Records()) })
}

// ForNode returns the dictionary whose text is the name of a node, which Encode leaves out of a row
// if it gets that dictionary. It is nil if the name is too short for that. For stored, see For.
func (s *Dictionaries) ForNode(node string) (d *Dictionary, stored bool) {
	if len(node) < 2*idBytes {
		return nil, true
	}
	// No definition's name begins with a byte 0.
	return s.named("\x00"+node, func() *Dictionary { return NewDictionary([]byte(node)) })
}

func (s *Dictionaries) named(name string, create func() *Dictionary) (d *Dictionary, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, known := s.byName[name]
	if !known {
		d = create()
		if s.byName == nil {
			s.byName = make(map[string]*Dictionary)
		}
		s.byName[name] = d
	}
	return d, d == nil || s.byID[d.id] != nil
}

// Stored says that the store has a text under the id of d. If it is another text, which is as
// unlikely as two equal ids, d is not used.
func (s *Dictionaries) Stored(d *Dictionary, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(text, d.text) {
		s.put(d)
		return
	}
	for name, other := range s.byName {
		if other == d {
			s.byName[name] = nil
		}
	}
}

func (s *Dictionaries) put(d *Dictionary) {
	if s.byID == nil {
		s.byID = make(map[uint32]*Dictionary)
	}
	s.byID[d.id] = d
}

// Clear forgets what the store has.
func (s *Dictionaries) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

// ErrNoDictionary means that the store does not have a dictionary that a value names.
var ErrNoDictionary = fmt.Errorf("%w: a row names a dictionary that is not in the table dictionaries: restore the database from a backup", journal.ErrBroken)

// Find returns the dictionary with an id. load reads its text from the store; its error is
// ErrNoDictionary if there is none.
func (s *Dictionaries) Find(id uint32, load func(id uint32) ([]byte, error)) (*Dictionary, error) {
	s.mu.Lock()
	d := s.byID[id]
	s.mu.Unlock()
	if d != nil {
		return d, nil
	}
	text, err := load(id)
	if err != nil {
		return nil, fmt.Errorf("dictionary %d: %w", id, err)
	}
	if d = NewDictionary(text); d.id != id {
		return nil, fmt.Errorf("%w: the text of dictionary %d was changed", ErrInvalid, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(d)
	return d, nil
}

// builtin is the dictionary of values that name none.
var builtin = &Dictionary{s2: lazy([]byte(common))}

func lazy(text []byte) func() *s2.Dict {
	return sync.OnceValue(func() *s2.Dict { return s2.MakeDict(text, nil) })
}

// common is text of all kinds of records. It never changes, because values depend on it: a later
// one needs another form. What is most common is last, where the shortest references reach it.
const common = `{"definition":"","version":"v1","sha256":"` + "\x03" + `","vars":{},"budget":{"amount":"0.00","currency":"USD","tokens":0},"labels":{},"input":{},"actor":"anonymous"}` +
	`{"parent":{"saga":"` + "\x02" + `","path":"","starter":"","depth":1}},"traceparent":"00-","session":{"name":"","lease":"30s"},"retry_of":"` + "\x02" + `"` +
	`{"reason":{"code":"step_failed","title":"","detail":"","path":""},"plan":[{"path":"","policy":"","undo":true}],"cancelled":true,"actor":"` +
	`{"signal":"","key":"","data":{},"actor":""}{"resolution":"succeeded","note":"","by":""}{"awaited":{"approval":{"title":"","show":{},"deadline":"2026-01-01T00:00:00.000Z"},"task":{"type":"","lease":"1m0s"}}` +
	`{"request":{"task":{"id":"` + "\x02" + `","type":"","input":{}}},"request_hash":"` + "\x03" + `"}{"request":{"child":{"definition":"","saga":"` + "\x02" + `","input":{}}}` +
	`{"reserve":"0.00","reserve_tokens":0,"wake_at":"2026-01-01T00:00:00.000Z","model":"","messages":[{"role":"system","content":""},{"role":"user","content":""},{"role":"assistant","content":""}],"max_tokens":1000,"temperature":0,"usage":{"input_tokens":0,"output_tokens":0,"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}` +
	`{"error":{"code":"","message":"","type":"","status":0},"next":"retry","retry_at":"2026-01-01T00:00:00.000Z","next":"verify","next":"fail","next":"block","next":"in_doubt","problem":{"type":"","title":"","status":500,"detail":""},"cost":{"amount":"0.00","tokens":{"input":0,"output":0}}` +
	`{"status":"compensated","residual":[]}{"status":"failed","output":null}{"status":"succeeded","output":{"id":"","url":"https://","created_at":"2026-01-01T00:00:00Z","amount":0,"currency":"EUR"}}` +
	`{"status_code":500,"status_code":404,"status_code":204}{"status_code":201,"output":{"id":"` +
	`{"request":{"method":"GET","url":"https://","headers":{"Accept":"application/json"}}{"request":{"method":"DELETE","url":"http://127.0.0.1:","headers":{"Accept":"application/json","Idempotency-Key":"` + "\x01" + `"}},"request_hash":"` + "\x03" + `"}` +
	`{"request":{"method":"POST","url":"http://localhost:8080/","headers":{"Accept":"application/json","Authorization":"Bearer ${secret.","Content-Type":"application/json","Idempotency-Key":"` + "\x01" + `"},"body":{"` + `"},"request_hash":"` + "\x03" + `"}` + "\x00" +
	"\x02\x01\x01\x02\x00\x02" + `{"status_code":200,"output":{"`
