package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
)

var sagaID = uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001"))

func chain(t testing.TB) []Record {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	records := []Record{
		{Kind: Started, Node: "n", Data: json.RawMessage(`{"input":9007199254740993,"html":"<a&b>","nul":"\u0000"}`)},
		{Kind: Intent, Path: "a", Way: Do, Attempt: 1, Key: "k", Node: "n", Data: json.RawMessage(`{"x":19.10}`)},
		{Kind: Outcome, Path: "a", Way: Do, Attempt: 1, Generation: 2, Class: Succeeded, Node: "m"},
	}
	var prev []byte
	for i := range records {
		records[i].Seq, records[i].At = int64(i+1), at.Add(time.Duration(i)*time.Second)
		Seal(sagaID, prev, &records[i])
		prev = records[i].Hash
	}
	return records
}

func TestVerify(t *testing.T) {
	if err := Verify(sagaID, nil, 1, chain(t)); err != nil {
		t.Fatal(err)
	}
	tail := chain(t)
	if err := Verify(sagaID, tail[0].Hash, 2, tail[1:]); err != nil {
		t.Errorf("a tail with the hash of the record before it: %v", err)
	}
}

// Verify detects a change of any field of any record, a gap, a swap and another saga's id.
func TestVerifyFindsEveryChange(t *testing.T) {
	changes := map[string]func(r *Record){
		"seq": func(r *Record) { r.Seq++ }, "at": func(r *Record) { r.At = r.At.Add(time.Millisecond) },
		"kind": func(r *Record) { r.Kind = Woke }, "path": func(r *Record) { r.Path += "x" }, "way": func(r *Record) { r.Way = Undo },
		"attempt": func(r *Record) { r.Attempt++ }, "generation": func(r *Record) { r.Generation++ }, "key": func(r *Record) { r.Key += "x" },
		"class": func(r *Record) { r.Class = Refused }, "node": func(r *Record) { r.Node += "x" },
		"data": func(r *Record) { r.Data = append(slices.Clip(r.Data), ' ') },
		"hash": func(r *Record) { r.Hash = bytes.Repeat([]byte{1}, 32) },
	}
	// Decoded is not part of the record.
	if fields := reflect.TypeFor[Record]().NumField() - 1; fields != len(changes) {
		t.Fatalf("Record has %d fields, %d are tested", fields, len(changes))
	}
	for name, change := range changes {
		for i := range chain(t) {
			records := chain(t)
			change(&records[i])
			if err := Verify(sagaID, nil, 1, records); !errors.Is(err, ErrBroken) {
				t.Errorf("%s of record %d changed: %v, want ErrBroken", name, i+1, err)
			}
		}
	}
	swapped := chain(t)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	other := uuid.Must(uuid.NewV4())
	for name, err := range map[string]error{
		"swap": Verify(sagaID, nil, 1, swapped), "gap": Verify(sagaID, nil, 1, chain(t)[1:]), "other saga": Verify(other, nil, 1, chain(t)),
	} {
		if !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v, want ErrBroken", name, err)
		}
	}
}

// Moving a character from one field to the next changes the hash.
func TestHashKeepsFieldsApart(t *testing.T) {
	a := Record{Seq: 1, Kind: "ab", Path: "c"}
	b := Record{Seq: 1, Kind: "a", Path: "bc"}
	Seal(sagaID, nil, &a)
	Seal(sagaID, nil, &b)
	if bytes.Equal(a.Hash, b.Hash) {
		t.Error("two different records share a hash")
	}
}

// An exported journal decodes to the same records, also after pretty-printing.
func TestWire(t *testing.T) {
	want := chain(t)
	b, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "   "); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"compact": b, "pretty": pretty.Bytes()} {
		var got []Record
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if err := Verify(sagaID, nil, 1, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !bytes.Contains(b, []byte(`"<a&b>"`)) || !bytes.Contains(b, []byte(`9007199254740993`)) {
		t.Errorf("encoding changed the data: %s", b)
	}
}

// The size of an append, which bounds commits, includes all data that can be large.
func TestSize(t *testing.T) {
	const n = 1 << 20
	large := make([]byte, n)
	for what, a := range map[string]Append{
		"record":      {Records: []Record{{Data: large}}},
		"summary":     {Row: &Row{Summary: large}},
		"inbox entry": {Row: &Row{Inbox: []Entry{{Data: large}}}},
		"blob":        {Blobs: []Blob{{Data: large}}},
		"task":        {Tasks: []Task{{Input: large}}},
		"event":       {Events: []Event{{Data: large}}},
		"message":     {Messages: []Message{{Data: large}}},
	} {
		if got := a.Size(); got < n || got > n+4096 {
			t.Errorf("an append with a %s of %d bytes has the size %d", what, n, got)
		}
	}
}

// The record before the rest of an append is the last one that is not in the rest.
func TestPrevOf(t *testing.T) {
	a := Append{Prev: []byte("prev"), Records: []Record{{Seq: 5, Hash: []byte("5")}, {Seq: 6, Hash: []byte("6")}, {Seq: 7, Hash: []byte("7")}}}
	for i, want := range []string{"prev", "5", "6", "7"} {
		if got := string(a.PrevOf(a.Records[i:])); got != want {
			t.Errorf("before the last %d records: %s, want %s", len(a.Records)-i, got, want)
		}
	}
}
