package sqlite

import "testing"

// A new file has small pages, because a commit writes each page that it changes.
func TestPageSize(t *testing.T) {
	s := fresh(t)
	conn := turnOf(t, s)
	defer s.w.turns.give(conn)
	for pragma, want := range map[string]string{"page_size": "1024", "journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "4000"} {
		var got string
		if err := conn.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", pragma, got, err, want)
		}
	}
}
