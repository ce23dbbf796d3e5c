package sqlite

import (
	"path/filepath"
	"testing"
)

// A new file has small pages, because a commit writes each page that it changes.
func TestPageSize(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	conn := turnOf(t, s)
	defer s.w.turns.give(conn)
	for pragma, want := range map[string]string{"page_size": "1024", "journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "4000"} {
		var got string
		if err := conn.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", pragma, got, err, want)
		}
	}
}
