package postgres_test

import (
	"testing"

	"recourse/internal/testpg"
	"recourse/journal"
	"recourse/journal/journaltest"
	"recourse/journal/postgres"
)

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Options{Open: func(t *testing.T) journaltest.Subject {
		dsn := testpg.DSN(t)
		again := func(t *testing.T) journal.Store { return open(t, dsn, postgres.Options{}) }
		return journaltest.Subject{Store: open(t, dsn, postgres.Options{Migrate: true}), Again: again}
	}})
}

func BenchmarkAppend(b *testing.B) {
	journaltest.BenchmarkAppend(b, open(b, testpg.DSN(b), postgres.Options{Migrate: true}))
}

func open(tb testing.TB, dsn string, o postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
