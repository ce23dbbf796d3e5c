package evidence

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

// The test vectors are those of the reference implementations of RFC 6962.
func TestRoot(t *testing.T) {
	inputs := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	want := []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var leaves []string
	for n := range want {
		if sum := root(leaves); hex.EncodeToString(sum[:]) != want[n] {
			t.Errorf("root of %d leaves: %x, want %s", n, sum, want[n])
		}
		if n < len(inputs) {
			raw, err := hex.DecodeString(inputs[n])
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, string(raw))
		}
	}
}

// key returns one of two keys.
func key(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func public(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func TestKeys(t *testing.T) {
	private, err := x509.MarshalPKCS8PrivateKey(key(1))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := x509.MarshalPKIXPublicKey(public(1))
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	if k, err := ParseKey(text("PRIVATE KEY", private)); err != nil || !k.Equal(key(1)) {
		t.Errorf("the private key is not read: %v", err)
	}
	if k, err := ParsePublic(text("PUBLIC KEY", shared)); err != nil || !k.Equal(public(1)) {
		t.Errorf("the public key is not read: %v", err)
	}
	for name, bad := range map[string][]byte{"none": nil, "text": []byte("hello"), "public": text("PUBLIC KEY", shared), "cut": text("PRIVATE KEY", private[:20]), "type": text("EC PRIVATE KEY", private)} {
		if _, err := ParseKey(bad); err == nil || !strings.Contains(err.Error(), "openssl genpkey") {
			t.Errorf("%s as a private key: %v", name, err)
		}
	}
	for name, bad := range map[string][]byte{"none": nil, "private": text("PRIVATE KEY", private), "cut": text("PUBLIC KEY", shared[:20])} {
		if _, err := ParsePublic(bad); err == nil || !strings.Contains(err.Error(), "openssl pkey") {
			t.Errorf("%s as a public key: %v", name, err)
		}
	}
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// saga returns one of some ids.
func saga(n byte) uuid.UUID { return uuid.UUID{14: 1, 15: n} }

// written returns a journal of n records, with an amount in the third.
func written(id uuid.UUID, n int, amount string) []journal.Record {
	list := make([]journal.Record, n)
	var prev []byte
	for i := range list {
		r := journal.Record{Seq: int64(i) + 1, At: noon, Kind: journal.Outcome, Path: "pay", Node: "n", Data: []byte(`{}`)}
		if i == 2 {
			r.Data = []byte(`{"amount":"` + amount + `"}`)
		}
		journal.Seal(id, prev, &r)
		list[i], prev = r, r.Hash
	}
	return list
}

// head returns the end of the first n records of a journal.
func head(id uuid.UUID, n int) Head {
	return Head{Saga: id, Seq: int64(n), Hash: written(id, n, "10.50")[n-1].Hash}
}

// chained returns the anchors of a process: saga 1 has 2 records and then 5, saga 2 has 4, which
// retention may delete an hour later.
func chained() []Line {
	c := NewChain(key(1), "c")
	ended := head(saga(2), 4)
	ended.DeleteAt = noon.Add(time.Hour)
	return []Line{
		c.Sign("n", noon, []Head{head(saga(1), 2)}, false),
		c.Sign("n", noon.Add(time.Minute), nil, false),
		c.Sign("n", noon.Add(2*time.Minute), []Head{head(saga(1), 5), ended}, true),
	}
}

// file returns anchors as a file has them.
func file(t *testing.T, lines ...Line) string {
	t.Helper()
	var text strings.Builder
	for _, l := range lines {
		b, err := journal.Encode(l)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s\n", b)
	}
	return text.String()
}

// problems checks both sagas, and returns the texts of all problems.
func problems(t *testing.T, text string, journals map[uuid.UUID][]journal.Record, now time.Time) (list []string) {
	t.Helper()
	s := NewSet([]ed25519.PublicKey{public(1)})
	if err := s.Read("a", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	found := s.Problems()
	for _, id := range []uuid.UUID{saga(1), saga(2)} {
		if records, ok := journals[id]; ok {
			found = append(found, s.Check(id, records)...)
		}
	}
	for _, p := range append(found, s.Missing(now)...) {
		where := ""
		if !p.Saga.IsNil() {
			where = fmt.Sprintf("%d/%d ", p.Saga[15], p.Seq)
		}
		list = append(list, where+p.Text)
	}
	return list
}

func TestSet(t *testing.T) {
	good := func() map[uuid.UUID][]journal.Record {
		return map[uuid.UUID][]journal.Record{saga(1): written(saga(1), 6, "10.50"), saga(2): written(saga(2), 4, "10.50")}
	}
	for _, tt := range []struct {
		name string
		do   func(lines []Line, journals map[uuid.UUID][]journal.Record) []Line
		now  time.Time
		want []string
	}{
		{name: "nothing changed"},
		{name: "a record rewritten, and the chain hashed again", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			j[saga(1)] = written(saga(1), 6, "99.50")
			return l
		}, want: []string{"1/3 one of the records 3 to 5 was changed after it was anchored at 2026-11-26T12:02:00.000Z"}},
		{name: "the last record rewritten, which is not anchored", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			last := &j[saga(1)][5]
			last.Data = []byte(`{"n":1}`)
			journal.Seal(saga(1), j[saga(1)][4].Hash, last)
			return l
		}},
		{name: "a tail cut", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			j[saga(1)] = j[saga(1)][:3]
			return l
		}, want: []string{"1/4 its records from 4 on are missing: it had 5 at 2026-11-26T12:02:00.000Z, when it was anchored"}},
		{name: "a saga deleted", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			delete(j, saga(1))
			return l
		}, want: []string{"1/0 it is gone: it had 5 records at 2026-11-26T12:02:00.000Z, when it was anchored, and no anchor says that retention may delete it"}},
		{name: "a saga deleted early", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			delete(j, saga(2))
			return l
		}, want: []string{"2/0 it is gone: it had 4 records at 2026-11-26T12:02:00.000Z, when it was anchored, and is to be kept until 2026-11-26T13:00:00.000Z"}},
		{name: "a saga expired", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			delete(j, saga(2))
			return l
		}, now: noon.Add(time.Hour)},
		{name: "an anchor missing", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			return []Line{l[0], l[2]}
		}, want: []string{"anchor 2 of c is missing, so that what it covered is not checked: give all files of anchors"}},
		{name: "the first anchors missing", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			return l[2:]
		}, want: []string{"anchors 1 to 2 of c are missing, so that what they covered is not checked: give all files of anchors"}},
		{name: "twice and in disorder", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			return []Line{l[2], l[0], l[1], l[0]}
		}},
		{name: "forged with another key", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			j[saga(1)] = written(saga(1), 6, "99.50")
			c := NewChain(key(2), "c")
			return []Line{l[0], l[1], c.Sign("n", noon, nil, true)}
		}, want: []string{"line 3 of a (anchor 1 of c) is not valid: its key " + KeyID(public(2)) + " is not one that you trust"}},
		{name: "the text changed", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			l[1].Anchor = strings.Replace(l[1].Anchor, "12:01", "12:02", 1)
			return l[:2]
		}, want: []string{"line 2 of a (anchor 2 of c) is not valid: its signature is not valid: it was forged, or changed"}},
		{name: "a leaf changed", do: func(l []Line, j map[uuid.UUID][]journal.Record) []Line {
			forged := head(saga(1), 2)
			forged.Hash = written(saga(1), 2, "1")[0].Hash
			l[0].Leaves[0] = forged.leaf()
			return l[:1]
		}, want: []string{"line 1 of a (anchor 1 of c) is not valid: its leaves are not those that were signed"}},
		{name: "a leaf removed", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			l[0].Leaves = nil
			return l[:1]
		}, want: []string{"line 1 of a (anchor 1 of c) is not valid: its leaves are not those that were signed"}},
		{name: "two chains mixed", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			c := NewChain(key(1), "c")
			c.Sign("n", noon, nil, false)
			return []Line{l[0], c.Sign("n", noon.Add(time.Minute), nil, true)}
		}, want: []string{"anchor 2 of c does not follow the anchor before it: one of them is not from that process"}},
		{name: "one number twice", do: func(l []Line, _ map[uuid.UUID][]journal.Record) []Line {
			return []Line{l[0], l[1], NewChain(key(1), "c").Sign("n", noon.Add(time.Second), nil, false), l[2]}
		}, want: []string{"line 3 of a is a second anchor 1 of c: the key has signed both, so somebody else has it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, journals := chained(), good()
			if tt.do != nil {
				lines = tt.do(lines, journals)
			}
			now := tt.now
			if now.IsZero() {
				now = noon.Add(10 * time.Minute)
			}
			got := problems(t, file(t, lines...), journals, now)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("problems (-want +got)\n%s", d)
			}
		})
	}
}

// Of two anchors of the same end of a journal, one may not say when it may be deleted, in either
// order: the row from which it was made was older.
func TestSameEndTwice(t *testing.T) {
	unknown, ended := head(saga(1), 4), head(saga(1), 4)
	ended.DeleteAt = noon.Add(time.Hour)
	earlier := head(saga(1), 3)
	earlier.DeleteAt = noon
	for n, heads := range [][]Head{{unknown, ended}, {ended, unknown}, {unknown, earlier, ended}, {ended, earlier, unknown}} {
		c := NewChain(key(1), "c")
		lines := make([]Line, len(heads))
		var all Heads
		for i, h := range heads {
			lines[i] = c.Sign("n", noon, []Head{h}, false)
			all.Add(h)
		}
		if got := problems(t, file(t, lines...), nil, noon.Add(2*time.Hour)); len(got) > 0 {
			t.Errorf("order %d: %v", n, got)
		}
		if got := problems(t, file(t, lines...), nil, noon.Add(time.Minute)); len(got) != 1 || !strings.Contains(got[0], "is to be kept until") {
			t.Errorf("order %d, before that: %v", n, got)
		}
		if got := all.Take(); len(got) != 1 || got[0].Seq != 4 || !got[0].DeleteAt.Equal(ended.DeleteAt) {
			t.Errorf("order %d: %v is anchored", n, got)
		}
	}
}

// A file has lines as a sink got them: events, also other ones. A line that a crash has cut is
// ignored, and its anchor's number is missing.
func TestRead(t *testing.T) {
	lines := chained()
	one := strings.TrimSpace(file(t, lines[0]))
	text := `{"specversion":"1.0","type":"recourse.evidence.anchor","data":` + one + "}\n\n" +
		`{"specversion":"1.0","type":"com.shop.sold","data":{"n":1}}` + "\n" + one[:40] + "\n" + file(t, lines[1:]...)
	s := NewSet([]ed25519.PublicKey{public(2), public(1)})
	if err := s.Read("a", strings.NewReader(text)); err != nil || len(s.Problems()) > 0 {
		t.Fatalf("%v, problems %v", err, s.Problems())
	}
	s.Check(saga(1), written(saga(1), 6, "10.50"))
	s.Check(saga(2), written(saga(2), 4, "10.50"))
	s.Check(saga(3), written(saga(3), 4, "10.50"))
	if d := cmp.Diff(Count{Anchors: 3, Damaged: 1, Whole: 1, Partly: 1, Unsigned: 1}, s.Count()); d != "" {
		t.Error(d)
	}
	if ends := s.Ends(); len(ends) != 1 || !ends[0].Last || ends[0].Number != 3 {
		t.Errorf("the chains end with %+v", ends)
	}
	for _, bad := range []string{`{}`, `{"anchor":1}`, `{"type":"recourse.evidence.anchor","data":3}`, `{"anchor":"{}","leaves":[]}`} {
		s := NewSet(nil)
		if err := s.Read("a", strings.NewReader(bad)); err != nil || len(s.Problems())+s.Count().Damaged != 1 {
			t.Errorf("%s: %v, problems %v", bad, err, s.Problems())
		}
	}
	if err := NewSet(nil).Read("a", strings.NewReader(strings.Repeat("x", maxLine+1))); err == nil {
		t.Error("a line of a megabyte is accepted")
	}
}

func TestLeaf(t *testing.T) {
	h := head(saga(1), 3)
	h.DeleteAt = noon.Add(3 * time.Millisecond)
	got, err := readLeaf(h.leaf())
	if d := cmp.Diff(h, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	text := h.leaf()
	for _, bad := range []string{"", "a b c", text + " x", strings.Replace(text, " 3 ", " 0 ", 1), text[1:], strings.Replace(text, "2026", "x", 1), text[:60]} {
		if _, err := readLeaf(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
