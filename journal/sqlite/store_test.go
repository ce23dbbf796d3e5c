package sqlite_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

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

func TestForgetsTasks(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	s := open(t, filepath.Join(t.TempDir(), "test.db"), sqlite.Options{Migrate: true, Now: now})
	journaltest.ForgetsTasks(t, s, func(d time.Duration) { ahead.Add(int64(d)) })
}
