package sqlite_test

import (
	"path/filepath"
	"testing"

	"recourse/journal"
	"recourse/journal/journaltest"
	"recourse/journal/sqlite"
)

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Options{Exclusive: true, Open: func(t *testing.T) journaltest.Subject {
		path := filepath.Join(t.TempDir(), "re%20course ?#.db")
		again := func(t *testing.T) journal.Store { return open(t, path, sqlite.Options{}) }
		return journaltest.Subject{Store: open(t, path, sqlite.Options{Migrate: true}), Again: again}
	}})
}

func BenchmarkAppend(b *testing.B) {
	journaltest.BenchmarkAppend(b, open(b, filepath.Join(b.TempDir(), "bench.db"), sqlite.Options{Migrate: true}))
}

func open(tb testing.TB, path string, o sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
