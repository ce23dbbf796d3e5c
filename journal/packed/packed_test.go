package packed_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/journal/packed"
)

var (
	saga  = uuid.Must(uuid.FromString("01a20b20-1e92-778c-bfb4-50094a5ba8a3"))
	node  = "01a20b20-1e83-77cd-acc1-2d5b61463b0d"
	key   = "6a38d0bb-540a-5965-9991-312a42bf10cb"
	hash  = hashOf("POST", "http://localhost/do/hotel", `{"trip":"t-1","item":"room"}`)
	known = strings.Repeat("0123456789abcdef", 4)
	at    = time.UnixMilli(1795482984334).UTC()
)

// hashOf returns the hash of an HTTP request, as docs/format.md describes it.
func hashOf(method, url, body string) string {
	sum := sha256.Sum256([]byte(method + "\n" + url + "\n" + body))
	return hex.EncodeToString(sum[:])
}

// pair are an outcome and the next intent, as an engine appends them.
func pair() []journal.Record { return pairOf(saga) }

func pairOf(saga uuid.UUID) []journal.Record {
	key := idempotency.Key(saga, "hotel", journal.Do, 0)
	return []journal.Record{
		{Seq: 3, At: at, Kind: journal.Outcome, Path: "flight", Way: journal.Do, Attempt: 1, Class: journal.Succeeded, Node: node,
			Data: json.RawMessage(`{"status_code":201,"output":{"id":"145"}}`)},
		{Seq: 4, At: at.Add(time.Millisecond), Kind: journal.Intent, Path: "hotel", Way: journal.Do, Attempt: 1, Key: key, Node: node,
			Data: intent(key, `{"trip":"t-1","item":"room"}`, hash)},
	}
}

func intent(key, body, hash string) json.RawMessage {
	return json.RawMessage(`{"request":{"method":"POST","url":"http://localhost/do/hotel","headers":{"Accept":"application/json","Content-Type":"application/json","Idempotency-Key":"` + key +
		`"},"body":` + body + `},"request_hash":"` + hash + `"}`)
}

// sample are records of the dictionary of a definition whose hash is known.
func sample() []journal.Record {
	return append(pairOf(uuid.Nil), journal.Record{Seq: 1, Kind: journal.Started, Data: json.RawMessage(`{"definition":"d","sha256":"` + known + `"}`)})
}

func seal(prev []byte, records []journal.Record) []journal.Record {
	for i := range records {
		journal.Seal(saga, prev, &records[i])
		prev = records[i].Hash
	}
	return records
}

// among finds the dictionaries that are not nil.
func among(dictionaries ...*packed.Dictionary) packed.Finder {
	return func(id uint32) (*packed.Dictionary, error) {
		for _, d := range dictionaries {
			if d != nil && d.ID() == id {
				return d, nil
			}
		}
		return nil, errors.New("no such dictionary")
	}
}

func decode(t *testing.T, prev []byte, row packed.Row, dictionaries ...*packed.Dictionary) []journal.Record {
	t.Helper()
	got, err := packed.Decode(saga, prev, row, among(dictionaries...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEncode(t *testing.T) {
	prev := bytes.Repeat([]byte{7}, 32)
	dict := packed.DictionaryOf(sample())
	name := packed.NewDictionary([]byte(node))
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
		{"known hashes", prev, seal(prev, data(`{"sha256":"`+known+`","again":"`+known+`"}`))},
		{"derived keys", prev, seal(prev, []journal.Record{
			{Seq: 1, At: at, Path: "a", Way: journal.Undo, Generation: 3, Key: idempotency.Key(saga, "a", journal.Undo, 3)},
			{Seq: 2, At: at, Path: "a", Way: journal.Undo, Generation: 3, Key: idempotency.Key(uuid.Nil, "a", journal.Undo, 3)},
			{Seq: 3, At: at, Path: "", Way: "", Key: idempotency.Key(saga, "", "", 0)}})},
		{"nodes", prev, seal(prev, []journal.Record{{Seq: 1, At: at, Node: node}, {Seq: 2, At: at, Node: key}, {Seq: 3, At: at, Node: node}, {Seq: 4, At: at, Node: node}})},
		{"the hash of another request", prev, seal(prev, data(string(intent(key, `1`, hash))))},
		{"a request without body", prev, seal(prev, data(`{"request":{"method":"GET","url":"/a"},"request_hash":"`+hashOf("GET", "/a", "")+`"}`))},
		{"a request without URL", prev, seal(prev, data(`{"request":{"method":"GET"},"request_hash":"`+hashOf("GET", "", "")+`"}`))},
		{"an escaped URL", prev, seal(prev, data(`{"request":{"method":"GET","url":"/\\""},"request_hash":"`+hashOf("GET", `/\"`, "")+`"}`))},
		{"a long body", prev, seal(prev, data(string(intent(key, long, hashOf("POST", "http://localhost/do/hotel", long)))))},
		{"headers alone", prev, seal(prev, data(`{"request":{"method":"GET","url":"/","headers":{"A":"\"}"}},"request_hash":"`+hashOf("GET", "/", "")+`"}`))},
		{"control bytes", prev, seal(prev, data("\x00\x01\x02\x03\x04\x05"+node+"\x04\x04\x04\x05\x04\x06"))},
		{"large", prev, seal(prev, data(`"`+strings.Repeat("many words ", 100_000)+`"`))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range []*packed.Dictionary{nil, dict} {
				row := packed.Encode(saga, tt.prev, tt.records, d, name)
				if row.First != tt.records[0].Seq || row.Last != tt.records[len(tt.records)-1].Seq || !row.At.Equal(tt.records[len(tt.records)-1].At) {
					t.Errorf("row %d to %d at %s", row.First, row.Last, row.At)
				}
				got := decode(t, prev, row, d, name)
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

var long = `"` + strings.Repeat("x", 5000) + `"`

// A pair of records costs little more than the hash of the last one.
func TestSize(t *testing.T) {
	records := seal(nil, pair())
	plain := len(packed.Encode(saga, nil, records, nil, nil).Value)
	named := len(packed.Encode(saga, nil, records, packed.DictionaryOf(sample()), packed.NewDictionary([]byte(node))).Value)
	if plain > 230 || named > 80 {
		t.Errorf("%d bytes, and %d with dictionaries of its own", plain, named)
	}
}

// Rows that were written before are read, whatever Encode writes today.
func TestFormat(t *testing.T) {
	started := sample()[2:]
	for _, tt := range []struct {
		what, value, dictionary string // in hexadecimal
		want                    []journal.Record
	}{
		{"a derived key, the hash of a request and a node with a dictionary", `028796cb7521ac74825eb46265872a837c58d5c23120c71e45a0d994d3ce04897404090fba90a1023c020201010200030006666c` +
			`6967687401422e0046130254313435227d7d00000101000200000105686f74656c01ca4b01202f646f2f686f74656ca64e01312b1500315c74726970223a22742d31222c226974656d223a22726f6f6d412115000810` +
			`0405227d00`, "", pair()},
		{"a hash in the dictionary", `035ac2248c98cad70f2cdfb0f24f3577055127ec37e9e35bebf147f2e7b6a3a4540cd25069004b15003c1889abcdef227d00`,
			`000000000000000000017b22646566696e6974696f6e223a2264222c22736861323536223a2204060123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef227d00`, started},
	} {
		value, err := hex.DecodeString(tt.value)
		text, err2 := hex.DecodeString(tt.dictionary)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		want := seal(nil, tt.want)
		last := want[len(want)-1]
		got := decode(t, nil, packed.Row{First: want[0].Seq, Last: last.Seq, At: last.At, Value: value}, packed.NewDictionary(text), packed.NewDictionary([]byte(node)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tt.what, diff)
		}
	}
}

// A key, a hash or a node that a row leaves out takes fewer bytes than another.
func TestLeftOut(t *testing.T) {
	name, d := packed.NewDictionary([]byte(node)), packed.DictionaryOf(sample())
	size := func(r journal.Record) int {
		return len(packed.Encode(saga, nil, seal(nil, []journal.Record{r}), d, name).Value)
	}
	intended := pair()[1]
	intended.Seq = 1
	another := strings.Repeat("fedcba9876543210", 4)
	started := func(sha256 string) journal.Record {
		return journal.Record{Seq: 1, Kind: journal.Started, Node: node, Data: json.RawMessage(`{"definition":"d","sha256":"` + sha256 + `"}`)}
	}
	otherKey, otherHash, otherNode := intended, intended, intended
	otherKey.Key, otherKey.Data = key, intent(key, `{"trip":"t-1","item":"room"}`, hash)
	otherHash.Data = intent(intended.Key, `{"trip":"t-1","item":"room"}`, another)
	otherNode.Node = key
	for _, tt := range []struct {
		what        string
		less, other journal.Record
		by          int
	}{
		{"a derived key", intended, otherKey, 16},
		{"the hash of a request", intended, otherHash, 32},
		{"a node with a dictionary", intended, otherNode, 12},
		{"a hash in the dictionary", started(known), started(another), 28},
	} {
		if by := size(tt.other) - size(tt.less); by < tt.by {
			t.Errorf("%s takes %d bytes less than another, want %d", tt.what, by, tt.by)
		}
	}
}

// Decode, or the check of hashes after it, finds each change that was made in the database.
func TestChanges(t *testing.T) {
	prev := bytes.Repeat([]byte{7}, 32)
	records := seal(prev, pair())
	dict, name := packed.DictionaryOf(sample()), packed.NewDictionary([]byte(node))
	for _, d := range []*packed.Dictionary{nil, dict} {
		row := packed.Encode(saga, prev, records, d, name)
		for i := range row.Value {
			for _, bit := range []byte{1, 0x80} {
				changed := row
				changed.Value = bytes.Clone(row.Value)
				changed.Value[i] ^= bit
				got, err := packed.Decode(saga, prev, changed, among(d, name))
				if err == nil && journal.Verify(saga, prev, row.First, got) == nil {
					t.Fatalf("byte %d ^ %x of %d is not noticed", i, bit, len(row.Value))
				}
			}
		}
		for n := range row.Value {
			cut := row
			cut.Value = row.Value[:n]
			if got, err := packed.Decode(saga, prev, cut, among(d, name)); err == nil {
				t.Fatalf("%d bytes of %d are read as %v", n, len(row.Value), got)
			}
		}
		other := row
		other.Last++
		if got, err := packed.Decode(saga, prev, other, among(d, name)); err == nil {
			t.Errorf("one record more: %v", got)
		}
	}
}

func TestDictionary(t *testing.T) {
	d := packed.NewDictionary(bytes.Repeat([]byte("long "), 20_000))
	if again := packed.NewDictionary(d.Text()); again.ID() != d.ID() {
		t.Errorf("ids %d and %d", d.ID(), again.ID())
	}
	row := packed.Encode(saga, nil, seal(nil, pair()), d, nil)
	if _, err := packed.Decode(saga, nil, row, among()); err == nil || !strings.Contains(err.Error(), "no such dictionary") {
		t.Errorf("err = %v", err)
	}
}

func FuzzEncode(f *testing.F) {
	for _, r := range pair() {
		f.Add([]byte(r.Data), r.Key, r.Path)
	}
	f.Add([]byte("\x00\x02"+node), node, "")
	dict := packed.DictionaryOf(sample())
	f.Fuzz(func(t *testing.T, data []byte, key, path string) {
		want := seal(nil, []journal.Record{{Seq: 1, At: at, Key: key, Path: path, Data: data}, {Seq: 2, At: at, Node: key, Data: nil}})
		for _, d := range []*packed.Dictionary{nil, dict} {
			got, err := packed.Decode(saga, nil, packed.Encode(saga, nil, want, d, nil), among(d))
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
	row := packed.Encode(saga, nil, seal(nil, pair()), nil, nil)
	f.Add(row.Value)
	f.Fuzz(func(_ *testing.T, value []byte) {
		changed := row
		changed.Value = value
		_, _ = packed.Decode(saga, nil, changed, among()) // it must not panic
	})
}

func BenchmarkEncode(b *testing.B) {
	records := seal(nil, pair())
	d := packed.DictionaryOf(sample())
	for b.Loop() {
		packed.Encode(saga, nil, records, d, nil)
	}
}

func BenchmarkDecode(b *testing.B) {
	d := packed.DictionaryOf(sample())
	row := packed.Encode(saga, nil, seal(nil, pair()), d, nil)
	for b.Loop() {
		if _, err := packed.Decode(saga, nil, row, among(d)); err != nil {
			b.Fatal(err)
		}
	}
}
