package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// started creates sagas that node n owns, with a number of records each.
func started(t testing.TB, s *Store, sagas, records int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, sagas)
	batch := make([]journal.Append, sagas)
	for i := range batch {
		ids[i] = uuid.Must(uuid.NewV7())
		a := journal.Append{Saga: ids[i], Start: &journal.Start{Definition: "trip", Version: 3}}
		var prev []byte
		for seq := range int64(records) {
			r := journal.Record{
				Seq: seq + 1, At: time.UnixMilli(5), Kind: journal.Intent, Path: "book", Way: journal.Do, Attempt: 1, Key: "key", Node: "n",
				Data: fmt.Appendf(nil, `{"method":"POST","url":"http://127.0.0.1:8080/do/s2","body":{"seat":"%dA"}}`, i),
			}
			journal.Seal(a.Saga, prev, &r)
			prev, a.Records = r.Hash, append(a.Records, r)
		}
		batch[i] = a
	}
	if _, err := s.Append(t.Context(), "n", batch); err != nil {
		t.Fatal(err)
	}
	return ids
}

// orphan releases all sagas and makes them due.
func orphan(t testing.TB, s *Store) {
	t.Helper()
	err := s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET owner = NULL, claims = 0, wake_at = 0`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Sagas that a Claim with an unknown result may have taken are claimed by the next Claim, whether
// the first one took them or not, unless they are no longer due. Each is counted once.
func TestClaimAfterUnknown(t *testing.T) {
	s := opened(t)
	ids := started(t, s, 5, 1)
	orphan(t, s)
	ids, parked, quarantined := ids[:3], ids[3], ids[4]
	err := s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET wake_at = ? WHERE id = ?`, s.clock()+time.Hour.Milliseconds(), parked.Bytes())
		if err == nil {
			_, err = t.exec(`UPDATE sagas SET wake_at = NULL, status = 'stuck', claims = 8 WHERE id = ?`, quarantined.Bytes())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	took, err := s.Claim(t.Context(), "n", 2)
	if err != nil {
		t.Fatal(err)
	}
	m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: ids[1], Kind: "signal", Data: []byte(`{}`)}
	if err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// Three of these were not taken, and one was deleted.
	s.lost = slices.Clip(took)
	for _, id := range []uuid.UUID{ids[2], parked, quarantined, uuid.Must(uuid.NewV7())} {
		s.lost = append(s.lost, journal.Claimed{Saga: id})
	}
	again, err := s.Claim(t.Context(), "n", 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []uuid.UUID
	for _, c := range again {
		got = append(got, c.Saga)
		if c.Claims != 1 || c.Definition != "trip" || c.Version != 3 || c.Messages > 0 != (c.Saga == m.Saga) {
			t.Errorf("claimed %+v", c)
		}
	}
	if !slices.Equal(got, ids) || s.lost != nil {
		t.Errorf("claimed %v, lost %v; want %v", got, s.lost, ids)
	}
}

// A node that registers does not claim what the node before it may have taken.
func TestRegisterForgetsUnknownClaims(t *testing.T) {
	s := opened(t)
	s.lost = []journal.Claimed{{Saga: started(t, s, 1, 1)[0]}}
	if _, err := s.Register(t.Context(), "next", time.Minute); err != nil {
		t.Fatal(err)
	}
	if s.lost != nil {
		t.Errorf("lost %v", s.lost)
	}
}

// Begins reads more sagas than one statement does, in any order, and ignores sagas that do not
// exist.
func TestBegins(t *testing.T) {
	s := opened(t)
	ids := started(t, s, 2*beginsRows+1, 3)
	asked := append(slices.Clone(ids), uuid.Must(uuid.NewV7()))
	slices.Reverse(asked)
	begins, err := s.Begins(t.Context(), asked, 2, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(begins) != len(ids) {
		t.Errorf("%d sagas, want %d", len(begins), len(ids))
	}
	for _, id := range ids {
		if r := begins[id]; len(r) != 2 || journal.Verify(id, nil, 1, r) != nil {
			t.Errorf("saga %s: %+v", id, r)
		}
	}
}

// BenchmarkTakeOn claims the sagas of a dead node and reads their journals, as the engine does.
func BenchmarkTakeOn(b *testing.B) {
	const sagas, claim, read = 2048, 256, 32
	s := opened(b)
	started(b, s, sagas, 4)
	var claiming, reading time.Duration
	for b.Loop() {
		b.StopTimer()
		orphan(b, s)
		b.StartTimer()
		for range sagas / claim {
			began := time.Now()
			claimed, err := s.Claim(b.Context(), "n", claim)
			if err != nil || len(claimed) != claim {
				b.Fatal(len(claimed), err)
			}
			claiming += time.Since(began)
			began = time.Now()
			for some := range slices.Chunk(claimed, read) {
				ids := make([]uuid.UUID, len(some))
				for i, c := range some {
					ids[i] = c.Saga
				}
				if begins, err := s.Begins(b.Context(), ids, read, 1<<30); err != nil || len(begins) != len(ids) {
					b.Fatal(len(begins), err)
				}
			}
			reading += time.Since(began)
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*sagas) }
	b.ReportMetric(per(claiming), "claim-ns/saga")
	b.ReportMetric(per(reading), "read-ns/saga")
}
