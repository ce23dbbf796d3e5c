package packed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/journal/packed"
)

var (
	saga = uuid.Must(uuid.FromString("01a20b20-1e92-778c-bfb4-50094a5ba8a3"))
	node = "01a20b20-1e83-77cd-acc1-2d5b61463b0d"
	key  = "6a38d0bb-540a-5965-9991-312a42bf10cb"
	hash = strings.Repeat("0123456789abcdef", 4)
	at   = time.UnixMilli(1795482984334).UTC()
)

// pair are an outcome and the next intent, as an engine appends them.
func pair() []journal.Record {
	return []journal.Record{
		{Seq: 3, At: at, Kind: journal.Outcome, Path: "flight", Way: journal.Do, Attempt: 1, Class: journal.Succeeded, Node: node,
			Data: json.RawMessage(`{"status_code":201,"output":{"id":"145"}}`)},
		{Seq: 4, At: at.Add(time.Millisecond), Kind: journal.Intent, Path: "hotel", Way: journal.Do, Attempt: 1, Key: key, Node: node,
			Data: json.RawMessage(`{"request":{"method":"POST","url":"http://localhost/do/hotel","headers":{"Accept":"application/json","Content-Type":"application/json","Idempotency-Key":"` + key +
				`"},"body":{"trip":"t-1","item":"room"}},"request_hash":"` + hash + `"}`)},
	}
}

func seal(prev []byte, records []journal.Record) []journal.Record {
	for i := range records {
		journal.Seal(saga, prev, &records[i])
		prev = records[i].Hash
	}
	return records
}

func one(d *packed.Dictionary) packed.Finder {
	return func(id uint32) (*packed.Dictionary, error) {
		if d == nil || d.ID() != id {
			return nil, errors.New("no such dictionary")
		}
		return d, nil
	}
}

func decode(t *testing.T, prev []byte, row packed.Row, d *packed.Dictionary) []journal.Record {
	t.Helper()
	got, err := packed.Decode(saga, prev, row, one(d))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEncode(t *testing.T) {
	prev := bytes.Repeat([]byte{7}, 32)
	dict := packed.DictionaryOf(pair())
	data := func(s string) []journal.Record {
		return []journal.Record{{Seq: 1, At: at, Kind: journal.Started, Key: key, Data: json.RawMessage(s)}}
	}
	for _, tt := range []struct {
		name    string
		prev    []byte // given to Encode
		records []journal.Record
	}{
		{"chained", prev, seal(prev, pair())},
		{"of another chain", nil, seal(prev, pair())},
		{"hashes of other lengths", prev, []journal.Record{{Seq: 1, At: at, Hash: []byte("x")}, {Seq: 2, At: at, Hash: []byte("longer")}}},
		{"all else", prev, seal(prev, []journal.Record{{Seq: 9, At: at.Add(-time.Hour), Kind: "new", Path: "a/b", Way: "sideways", Attempt: -1, Generation: 1 << 40, Key: "k", Class: "odd", Node: "n"},
			{Seq: 10, At: at, Node: "n", Key: strings.ToUpper(key), Data: json.RawMessage("")}, {Seq: 11, At: at.Add(-time.Second), Node: ""}})},
		{"key alone", prev, seal(prev, data(key))},
		{"ids", prev, seal(prev, data(`{"a":"`+node+`","b":"`+strings.ToUpper(node)+`","c":"`+node+`0","d":"0`+node+`","e":"`+strings.ReplaceAll(node, "-", "a")+`"}`))},
		{"hashes", prev, seal(prev, data(`{"a":"`+hash+`","b":"`+hash+`0","c":"`+strings.ToUpper(hash)+`","d":"`+strings.Replace(hash, "0", "-", 1)+hash+`"}`))},
		{"control bytes", prev, seal(prev, data("\x00\x01\x02\x03\x04\x05"+node+"\x04\x04"))},
		{"large", prev, seal(prev, data(`"`+strings.Repeat("many words ", 100_000)+`"`))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range []*packed.Dictionary{nil, dict} {
				row := packed.Encode(saga, tt.prev, tt.records, d)
				if row.First != tt.records[0].Seq || row.Last != tt.records[len(tt.records)-1].Seq || !row.At.Equal(tt.records[len(tt.records)-1].At) {
					t.Errorf("row %d to %d at %s", row.First, row.Last, row.At)
				}
				got := decode(t, prev, row, d)
				want := bytes.Equal(tt.prev, prev) && journal.Verify(saga, prev, row.First, tt.records) == nil
				if last, ok := row.LastHash(); ok != want || ok && !bytes.Equal(last, got[len(got)-1].Hash) {
					t.Errorf("LastHash = %x, %v", last, ok)
				}
				if diff := cmp.Diff(tt.records, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A pair of records costs little more than its hashes and its key.
func TestSize(t *testing.T) {
	records := seal(nil, pair())
	plain := len(packed.Encode(saga, nil, records, nil).Value)
	named := len(packed.Encode(saga, nil, records, packed.DictionaryOf(pair())).Value)
	if plain > 300 || named > 160 {
		t.Errorf("%d bytes, and %d with a dictionary of its own", plain, named)
	}
}

// Decode, or the check of hashes after it, finds each change that was made in the database.
func TestChanges(t *testing.T) {
	prev := bytes.Repeat([]byte{7}, 32)
	records := seal(prev, pair())
	dict := packed.DictionaryOf(pair())
	for _, d := range []*packed.Dictionary{nil, dict} {
		row := packed.Encode(saga, prev, records, d)
		for i := range row.Value {
			for _, bit := range []byte{1, 0x80} {
				changed := row
				changed.Value = bytes.Clone(row.Value)
				changed.Value[i] ^= bit
				got, err := packed.Decode(saga, prev, changed, one(d))
				if err == nil && journal.Verify(saga, prev, row.First, got) == nil {
					t.Fatalf("byte %d ^ %x of %d is not noticed", i, bit, len(row.Value))
				}
			}
		}
		for n := range row.Value {
			cut := row
			cut.Value = row.Value[:n]
			if got, err := packed.Decode(saga, prev, cut, one(d)); err == nil {
				t.Fatalf("%d bytes of %d are read as %v", n, len(row.Value), got)
			}
		}
		other := row
		other.Last++
		if got, err := packed.Decode(saga, prev, other, one(d)); err == nil {
			t.Errorf("one record more: %v", got)
		}
	}
}

func TestDictionary(t *testing.T) {
	d := packed.NewDictionary(bytes.Repeat([]byte("long "), 20_000))
	if again := packed.NewDictionary(d.Text()); again.ID() != d.ID() {
		t.Errorf("ids %d and %d", d.ID(), again.ID())
	}
	row := packed.Encode(saga, nil, seal(nil, pair()), d)
	if _, err := packed.Decode(saga, nil, row, one(nil)); err == nil || !strings.Contains(err.Error(), "no such dictionary") {
		t.Errorf("err = %v", err)
	}
}

func FuzzEncode(f *testing.F) {
	for _, r := range pair() {
		f.Add([]byte(r.Data), r.Key, r.Path)
	}
	f.Add([]byte("\x00\x02"+node), node, "")
	dict := packed.DictionaryOf(pair())
	f.Fuzz(func(t *testing.T, data []byte, key, path string) {
		want := seal(nil, []journal.Record{{Seq: 1, At: at, Key: key, Path: path, Data: data}, {Seq: 2, At: at, Node: key, Data: nil}})
		for _, d := range []*packed.Dictionary{nil, dict} {
			got, err := packed.Decode(saga, nil, packed.Encode(saga, nil, want, d), one(d))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	row := packed.Encode(saga, nil, seal(nil, pair()), nil)
	f.Add(row.Value)
	f.Fuzz(func(_ *testing.T, value []byte) {
		changed := row
		changed.Value = value
		_, _ = packed.Decode(saga, nil, changed, one(nil)) // it must not panic
	})
}

func BenchmarkEncode(b *testing.B) {
	records := seal(nil, pair())
	d := packed.DictionaryOf(pair())
	for b.Loop() {
		packed.Encode(saga, nil, records, d)
	}
}

func BenchmarkDecode(b *testing.B) {
	d := packed.DictionaryOf(pair())
	row := packed.Encode(saga, nil, seal(nil, pair()), d)
	for b.Loop() {
		if _, err := packed.Decode(saga, nil, row, one(d)); err != nil {
			b.Fatal(err)
		}
	}
}
