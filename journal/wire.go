package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// TimeFormat is the format of times for users: RFC 3339 with milliseconds, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// wire is the public JSON form of a record. Data has exactly the bytes that were hashed.
type wire struct {
	Seq        int64           `json:"seq"`
	At         string          `json:"at"`
	Kind       Kind            `json:"kind"`
	Path       string          `json:"path,omitempty"`
	Way        Way             `json:"way,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Generation *int            `json:"generation,omitempty"`
	Key        string          `json:"key,omitempty"`
	Class      Class           `json:"class,omitempty"`
	Node       string          `json:"node"`
	Data       json.RawMessage `json:"data,omitempty"`
	Hash       string          `json:"hash"`
}

// MarshalJSON writes the record in the public form. The encoder around it must have
// SetEscapeHTML(false), as Encode does; otherwise an exported journal does not match its hashes.
func (r Record) MarshalJSON() ([]byte, error) {
	w := wire{Seq: r.Seq, At: r.At.UTC().Format(TimeFormat), Kind: r.Kind, Path: r.Path, Way: r.Way, Attempt: r.Attempt,
		Key: r.Key, Class: r.Class, Node: r.Node, Data: r.Data, Hash: hex.EncodeToString(r.Hash)}
	if r.Attempt > 0 || r.Generation != 0 {
		w.Generation = &r.Generation
	}
	return Encode(w)
}

// UnmarshalJSON reads the public form. It compacts data, so that a journal which was pretty-printed
// after its export still matches its hashes.
func (r *Record) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, w.At)
	if err != nil {
		return fmt.Errorf("record %d: at: %w", w.Seq, err)
	}
	hash, err := hex.DecodeString(w.Hash)
	if err != nil {
		return fmt.Errorf("record %d: hash: %w", w.Seq, err)
	}
	*r = Record{Seq: w.Seq, At: at.UTC(), Kind: w.Kind, Path: w.Path, Way: w.Way, Attempt: w.Attempt,
		Key: w.Key, Class: w.Class, Node: w.Node, Hash: hash}
	if w.Generation != nil {
		r.Generation = *w.Generation
	}
	if len(w.Data) > 0 {
		var buf bytes.Buffer
		if err := json.Compact(&buf, w.Data); err != nil {
			return fmt.Errorf("record %d: data: %w", w.Seq, err)
		}
		r.Data = buf.Bytes()
	}
	return nil
}

// Encode is json.Marshal without HTML escaping.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.done()
	if err := e.enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))), nil
}

// encoder is an encoder and the buffer that it writes to.
type encoder struct {
	buf bytes.Buffer
	enc *json.Encoder
}

// keptBuffer is the capacity of the largest buffer that goes back to its pool.
const keptBuffer = 64 << 10

func (e *encoder) done() {
	if e.buf.Reset(); e.buf.Cap() <= keptBuffer {
		encoders.Put(e)
	}
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false)
	return e
}}
