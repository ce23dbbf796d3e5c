package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
)

// decoder reads a record.
type decoder func([]byte) (Record, error)

func decodeRecord(b []byte) (r Record, err error) {
	err = json.Unmarshal(b, &r)
	return r, err
}

// badDecoder returns an error unless a record that decode accepts can be encoded and decoded again
// to the same record.
func badDecoder(decode decoder, b []byte) error {
	r, err := decode(b)
	if err != nil {
		return nil
	}
	out, err := Encode(r)
	if err != nil {
		return fmt.Errorf("decoded, but cannot be encoded: %w", err)
	}
	again, err := decode(out)
	if err != nil {
		return fmt.Errorf("encoded, but cannot be decoded again: %w\n%s", err, out)
	}
	if d := cmp.Diff(r, again); d != "" {
		return fmt.Errorf("decoding it again gives a different record:\n%s", d)
	}
	one, two := r, again
	Seal(sagaID, nil, &one)
	Seal(sagaID, nil, &two)
	if !bytes.Equal(one.Hash, two.Hash) {
		return fmt.Errorf("decoding it again changes its hash: %s", out)
	}
	return nil
}

func FuzzRecordJSON(f *testing.F) {
	for _, r := range chain(f) {
		b, err := Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"seq":1e400,"at":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := badDecoder(decodeRecord, b); err != nil {
			t.Fatal(err)
		}
	})
}

// A decoder that converts numbers to float64 is detected.
func TestFuzzRecordJSONCanFail(t *testing.T) {
	b, err := Encode(chain(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	lossy := func(b []byte) (Record, error) {
		r, err := decodeRecord(b)
		if reads++; reads > 1 {
			var v any
			_ = json.Unmarshal(r.Data, &v)
			r.Data, _ = json.Marshal(v)
		}
		return r, err
	}
	if badDecoder(lossy, b) == nil {
		t.Error("not detected")
	}
}

// verifier is Verify, or a bad one.
type verifier func(saga uuid.UUID, prev []byte, from int64, records []Record) error

// badVerifier returns an error unless verify refuses a journal whose text was changed so that it
// has different records.
func badVerifier(verify verifier, want []Record, at int, put []byte) error {
	text, err := Encode(want)
	if err != nil {
		return err
	}
	at %= len(text)
	text = append(append(append([]byte{}, text[:at]...), put...), text[min(at+len(put), len(text)):]...)
	var got []Record
	if json.Unmarshal(text, &got) != nil || cmp.Equal(want, got) {
		return nil
	}
	if len(got) < len(want) && cmp.Equal(want[:len(got)], got) {
		return nil // a prefix of a journal is a journal
	}
	if verify(sagaID, nil, 1, got) == nil {
		return fmt.Errorf("changed to %q at %d, and not detected:\n%s", put, at, cmp.Diff(want, got))
	}
	return nil
}

func FuzzTamper(f *testing.F) {
	want := chain(f)
	text, err := Encode(want)
	if err != nil {
		f.Fatal(err)
	}
	for _, change := range [][2]string{{`"seq":2`, `"seq":3`}, {`05.678Z`, `05.679Z`}, {`"path":"a"`, `"path":"b"`}, {`"way":"do"`, `"way":"x"`},
		{`9007199254740993`, `9007199254740992`}, {`19.10`, `19.1 `}, {`"node":"m"`, `"node":"n"`}, {`succeeded`, `refused"`}, {`.678Z"`, `.6780Z`}} {
		f.Add(bytes.Index(text, []byte(change[0])), []byte(change[1]))
	}
	f.Fuzz(func(t *testing.T, at int, put []byte) {
		if at < 0 {
			return
		}
		if err := badVerifier(Verify, want, at, put); err != nil {
			t.Fatal(err)
		}
	})
}

// A verifier that checks only the seqs is detected.
func TestFuzzTamperCanFail(t *testing.T) {
	want := chain(t)
	text, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(_ uuid.UUID, _ []byte, from int64, records []Record) error {
		for i, r := range records {
			if r.Seq != from+int64(i) {
				return ErrBroken
			}
		}
		return nil
	}
	if badVerifier(numbers, want, bytes.Index(text, []byte(`19.10`)), []byte(`19.11`)) == nil {
		t.Error("not detected")
	}
}
