package world_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"recourse/examples/world"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLedgerEntries(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	w := world.New(world.Config{Now: func() time.Time { return at }})
	body := `{ "amount" : 1 }`
	want(t, w, request{method: "POST", path: "/pay/charges?x=1", key: "k1", body: body}, 201)
	want(t, w, request{method: "POST", path: "/pay/charges/ch_1/refund", key: "k2"}, 200)
	hash := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	charge := world.Entry{N: 1, At: at.UTC(), Kind: "request", Service: "pay", Op: "charge", Method: "POST",
		Path: "/pay/charges?x=1", Key: "k1", BodySHA256: hash(body), Status: "201"}
	made := charge
	made.N, made.Kind, made.Request, made.EffectID = 2, "effect", 1, "ch_1"
	refund := world.Entry{N: 3, At: at.UTC(), Kind: "request", Service: "pay", Op: "refund_charge", Method: "POST",
		Path: "/pay/charges/ch_1/refund", Key: "k2", BodySHA256: hash(""), Status: "200"}
	undone := refund
	undone.N, undone.Kind, undone.Request, undone.EffectID, undone.Undoes = 4, "undo", 3, "undo_2", "ch_1"
	if diff := cmp.Diff(world.Ledger{charge, made, refund, undone}, w.Ledger()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestLedgerSelects(t *testing.T) {
	w := world.New(world.Config{})
	a := want(t, w, request{method: "POST", path: "/things", key: "a"}, 201)
	want(t, w, request{method: "POST", path: "/things", key: "b"}, 201)
	want(t, w, request{method: "POST", path: "/ship/orders"}, 201)
	want(t, w, request{method: "DELETE", path: "/things/" + a.id(t), key: "c"}, 200)
	l := w.Ledger()
	got := map[string]int{
		"requests": len(l.Requests()), "effects": len(l.Effects()), "undos": len(l.Undos()), "live": len(l.Live()),
		"key a": len(l.Key("a")), "things": len(l.Service("things")), "create": len(l.Op("things", "create").Effects()),
		"delete": len(l.Op("things", "delete")), "net": l.Balance().Net(),
	}
	wants := map[string]int{"requests": 4, "effects": 3, "undos": 1, "live": 2, "key a": 2, "things": 6, "create": 2, "delete": 2, "net": 2}
	if diff := cmp.Diff(wants, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "": 1}, l.EffectsByKey()); diff != "" {
		t.Errorf("effects by key (-want +got):\n%s", diff)
	}
}

func TestLedgerFile(t *testing.T) {
	var file bytes.Buffer
	w := world.New(world.Config{LedgerTo: &file})
	want(t, w, charge, 201)
	want(t, w, charge, 201)
	first := w.Ledger()
	w.Reset()
	want(t, w, charge, 201)
	got, err := world.ReadLedger(strings.NewReader(file.String() + `{"n":99,"torn`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(first, w.Ledger()...), got); diff != "" {
		t.Errorf("ledger read back (-want +got):\n%s", diff)
	}
	if n := bytes.Count(file.Bytes(), []byte("\n")); n != 2*len(got) {
		t.Errorf("lines: got %d, want one at arrival and one at the answer of %d entries", n, len(got))
	}
	for _, bad := range []string{"nonsense\n", "{}\n", "\n"} {
		if _, err := world.ReadLedger(strings.NewReader(bad)); !errors.Is(err, world.ErrLedgerLine) {
			t.Errorf("%q: got %v, want ErrLedgerLine", bad, err)
		}
	}
}

// badDisk fails once, at its nth line.
type badDisk struct{ lines, fails int }

func (d *badDisk) Write(p []byte) (int, error) {
	if d.lines++; d.lines == d.fails {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// A request that the ledger cannot record must have no effect, and the ledger must have no gap.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	disk := &badDisk{fails: 5}
	w := world.New(world.Config{LedgerTo: disk})
	want(t, w, charge, 201)
	for range 2 {
		want(t, w, request{method: "POST", path: "/things"}, 503)
	}
	if disk.lines != 5 {
		t.Errorf("lines: got %d, want none after the one that failed", disk.lines)
	}
	if got := len(w.Ledger().Effects()); got != 1 {
		t.Errorf("effects: got %d, want 1", got)
	}
}

// With any requests in any order and any faults, a key has at most one effect, an effect is undone
// at most once, and the balance equals that of the requests that were answered or dropped.
func TestLedgerProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := world.New(world.Config{})
		if err := w.AddFault(world.Rule{
			Skip: rapid.IntRange(0, 5).Draw(rt, "skip"), Times: rapid.IntRange(1, 9).Draw(rt, "times"),
			Do: rapid.SampledFrom([]world.Do{{Before: "status", Status: 503}, {After: "status", Status: 500}, {After: "truncate"}, {Duplicate: 1}}).Draw(rt, "do"),
		}); err != nil {
			rt.Fatal(err)
		}
		for i := range rapid.IntRange(1, 40).Draw(rt, "requests") {
			r := rapid.SampledFrom([]request{
				{method: "POST", path: "/pay/charges", body: `{"amount":1}`},
				{method: "POST", path: "/pay/charges", body: `{"amount":2}`},
				{method: "DELETE", path: "/pay/charges?idempotency_key=k1"},
				{method: "PUT", path: "/things/x", body: `1`},
				{method: "DELETE", path: "/things/x"},
				{method: "POST", path: fmt.Sprintf("/pay/charges/ch_%d/refund", rapid.IntRange(1, 9).Draw(rt, "id"))},
			}).Draw(rt, "request")
			r.key = rapid.SampledFrom([]string{"k1", "k2", "k3", "only" + fmt.Sprint(i)}).Draw(rt, "key")
			call(t, w, r)
		}
		l := w.Ledger()
		for key, n := range l.Service("pay").EffectsByKey() {
			if n > 1 {
				rt.Errorf("key %s: %d effects", key, n)
			}
		}
		undone := map[string]int{}
		for i, e := range l {
			if e.N != int64(i+1) || e.Status == "" {
				rt.Errorf("entry %d: n %d, status %q", i, e.N, e.Status)
			}
			if e.Kind != world.Request && l[e.Request-1].Kind != world.Request {
				rt.Errorf("entry %d names request %d, which is none", e.N, e.Request)
			}
			if e.Kind == world.Undo {
				undone[e.Undoes]++
			}
		}
		for id, n := range undone {
			if n > 1 {
				rt.Errorf("effect %s: undone %d times", id, n)
			}
		}
		if got := w.Balance().Net(); got != len(l.Live()) {
			rt.Errorf("net: got %d, want the %d live effects", got, len(l.Live()))
		}
	})
}
