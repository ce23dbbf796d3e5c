package sqlite

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// If the disk is full, an append is refused completely with a plain error, and succeeds once there
// is space.
func TestFullDisk(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "full.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Register(ctx, "n", time.Hour); err != nil {
		t.Fatal(err)
	}
	pages := func(pragma string) {
		t.Helper()
		conn := turnOf(t, s)
		defer s.w.turns.give(conn)
		if _, err := conn.ExecContext(ctx, pragma); err != nil {
			t.Fatal(err)
		}
	}
	saga := uuid.Must(uuid.NewV7())
	r := journal.Record{Seq: 1, At: time.UnixMilli(1), Kind: journal.Started, Data: noise(1 << 20)}
	journal.Seal(saga, nil, &r)
	batch := []journal.Append{{Saga: saga, Start: &journal.Start{Definition: "d"}, Records: []journal.Record{r}}}

	pages(`PRAGMA max_page_count = 60`)
	for range 2 {
		_, err := s.Append(ctx, "n", batch)
		if err == nil || errors.Is(err, journal.ErrUnknown) || errors.Is(err, journal.ErrFenced) {
			t.Fatalf("Append on a full disk = %v, want a plain error", err)
		}
	}
	if _, err := s.Saga(ctx, saga); !errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("Saga = %v, want ErrNotFound: a part was written", err)
	}
	pages(`PRAGMA max_page_count = 100000`)
	out, err := s.Append(ctx, "n", batch)
	if err != nil || out[0].Err != nil {
		t.Fatalf("Append once there is space = %v, %v", out, err)
	}
}

// A ping commits, because only a commit detects a full disk, and leaves no rows.
func TestPingCommits(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "ping.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := s.r.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	commits := func() (n int) { // changes when another connection commits
		t.Helper()
		if err := other.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := commits()
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	after := commits()
	if after == before {
		t.Error("nothing was committed")
	}
	s.pingEvery = time.Hour
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if commits() != after {
		t.Error("a ping soon after another was committed")
	}
	s.pingEvery = 0
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if commits() == after {
		t.Error("a later ping was not committed")
	}
	if nodes, err := s.Nodes(ctx); err != nil || len(nodes) != 0 {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
}

// noise returns bytes that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}
