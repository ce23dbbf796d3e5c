package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Batches of all sizes, of starts and of steps with different numbers of records, write exactly
// their records, and their rows in order.
func TestBatches(t *testing.T) {
	ctx := t.Context()
	s := opened(t)
	type saga struct {
		id   uuid.UUID
		hash [][]byte
	}
	more := func(g *saga, n int) (out []journal.Record) {
		for range n {
			var prev []byte
			if len(g.hash) > 0 {
				prev = g.hash[len(g.hash)-1]
			}
			r := journal.Record{Seq: int64(len(g.hash) + 1), At: time.UnixMilli(5), Kind: journal.Intent, Path: fmt.Sprint(n), Node: "n"}
			journal.Seal(g.id, prev, &r)
			g.hash = append(g.hash, r.Hash)
			out = append(out, r)
		}
		return out
	}
	do := func(batch []journal.Append) []journal.Result {
		t.Helper()
		out, err := s.Append(ctx, "n", batch)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for size := 1; size <= 2*snapshotRows+3; size++ {
		var all []*saga
		var batch []journal.Append
		for i := range size {
			g := &saga{id: uuid.Must(uuid.NewV7())}
			all = append(all, g)
			a := journal.Append{Saga: g.id, Start: &journal.Start{Definition: "d"}, Records: more(g, 1+i%3)}
			switch i % 5 {
			case 3: // its records do not continue the journal
				a.Records = a.Records[1:]
				if len(a.Records) == 0 {
					a.Records = more(g, 1)
				}
				g.hash = nil
			case 4: // nothing
				a.Records, g.hash = nil, nil
			}
			batch = append(batch, a)
		}
		for i, r := range do(batch) {
			if got, want := errors.Is(r.Err, journal.ErrConflict), i%5 == 3; got != want || r.Err != nil && !got {
				t.Fatalf("size %d: start %d: %v", size, i, r.Err)
			}
		}
		for i, g := range all {
			batch[i] = journal.Append{Saga: g.id, Records: more(g, i%4)}
		}
		for i, r := range do(batch) {
			if got, want := errors.Is(r.Err, journal.ErrConflict), i%5 == 3; got != want || r.Err != nil && !got {
				t.Fatalf("size %d: step %d: %v", size, i, r.Err)
			}
		}
		for i, g := range all {
			records, err := s.Records(ctx, g.id, 0, 100)
			if i%5 == 3 {
				if !errors.Is(err, journal.ErrNotFound) {
					t.Fatalf("size %d: records of %d, which was refused: %v", size, i, err)
				}
				continue
			}
			if err != nil || len(records) != len(g.hash) || journal.Verify(g.id, nil, 1, records) != nil {
				t.Fatalf("size %d: saga %d has %d records, want %d; %v", size, i, len(records), len(g.hash), err)
			}
		}
	}
}

func TestBatchOrder(t *testing.T) {
	s := opened(t)
	start := func(key, unique string, ended time.Time) journal.Append {
		return journal.Append{Saga: uuid.Must(uuid.NewV7()), Start: &journal.Start{Definition: "d", Key: key, Unique: unique},
			Row: &journal.Row{Status: "s", EndedAt: ended}}
	}
	first := start("k1", "u", time.Time{})
	end := journal.Append{Saga: first.Saga, Row: &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(9)}, Release: true}
	before, after, third := start("k2", "u", time.Time{}), start("k3", "u", time.Time{}), start("k4", "u", time.Time{})
	key, both, over := start("k3", "", time.Time{}), start("k1", "u", time.Time{}), start("k5", "u", time.UnixMilli(9))
	if out, err := s.Append(t.Context(), "n", []journal.Append{first}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	out, err := s.Append(t.Context(), "n", []journal.Append{before, end, after, third, key, both, over})
	if err != nil {
		t.Fatal(err)
	}
	want := []journal.Result{{Err: journal.ErrUnique, Saga: first.Saga}, {}, {}, {Err: journal.ErrUnique, Saga: after.Saga},
		{Err: journal.ErrStartKey, Saga: after.Saga}, {Err: journal.ErrStartKey, Saga: first.Saga}, {}}
	for i := range want {
		if out[i] != want[i] {
			t.Errorf("append %d = %v, want %v", i, out[i], want[i])
		}
	}
}

// If a record cannot be inserted, nothing of its batch is written, not even the records before it
// in the same statement.
func TestBatchFails(t *testing.T) {
	ctx := t.Context()
	s := opened(t)
	var batch []journal.Append
	for range 3 * insertRows {
		a := journal.Append{Saga: uuid.Must(uuid.NewV7()), Start: &journal.Start{Definition: "d"}, Row: &journal.Row{Status: "s"},
			Records: []journal.Record{{Seq: 1, At: time.UnixMilli(1), Kind: journal.Started}}}
		journal.Seal(a.Saga, nil, &a.Records[0])
		batch = append(batch, a)
	}
	change := func(query string) {
		t.Helper()
		conn := turnOf(t, s)
		defer s.w.turns.give(conn)
		if _, err := conn.ExecContext(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	change(fmt.Sprintf(`CREATE TRIGGER refuses BEFORE INSERT ON journal WHEN new.saga_id = x'%x' BEGIN SELECT RAISE(FAIL, 'refused'); END`,
		batch[2*insertRows+insertRows/2].Saga.Bytes()))
	if _, err := s.Append(ctx, "n", batch); err == nil || errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("Append = %v, want a plain error", err)
	}
	if found, err := s.Sagas(ctx, journal.Filter{}); err != nil || len(found.Heads) > 0 {
		t.Fatalf("%d sagas exist, %v", len(found.Heads), err)
	}
	if orphans, err := s.Orphans(ctx, 10); err != nil || len(orphans) > 0 {
		t.Fatalf("%d sagas have records, %v", len(orphans), err)
	}
	change(`DROP TRIGGER refuses`)
	out, err := s.Append(ctx, "n", batch)
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
}

// A write whose caller has cancelled it is not committed.
func TestCallerGoesInTransaction(t *testing.T) {
	s := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.w.do(ctx, func(t *tx) error {
		cancel()
		_, err := t.exec(`INSERT INTO nodes (id, expires_at) VALUES ('gone', 0)`)
		return err
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrUnknown) {
		t.Errorf("do = %v, want context.Canceled", err)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
}

// fresh opens a new file.
func fresh(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// opened opens a new file, in which the node n is registered.
func opened(t testing.TB) *Store {
	t.Helper()
	s := fresh(t)
	if _, err := s.Register(t.Context(), "n", time.Hour); err != nil {
		t.Fatal(err)
	}
	return s
}
