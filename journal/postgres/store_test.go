package postgres_test

import (
	"testing"
	"time"

	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/journaltest"
	"recourse/journal/postgres"
)

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Options{Open: func(t *testing.T) journaltest.Subject {
		dsn := pgserver.DSN(t)
		again := func(t *testing.T) journal.Store { return open(t, dsn, postgres.Options{}) }
		return journaltest.Subject{Store: open(t, dsn, postgres.Options{Migrate: true}), Again: again}
	}})
}

func BenchmarkAppend(b *testing.B) {
	journaltest.BenchmarkAppend(b, open(b, pgserver.DSN(b), postgres.Options{Migrate: true}))
}

func open(tb testing.TB, dsn string, o postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestForgetsTasks(t *testing.T) {
	dsn := pgserver.DSN(t)
	s, conn := open(t, dsn, postgres.Options{Migrate: true}), connect(t, dsn)
	journaltest.ForgetsTasks(t, s, func(d time.Duration) {
		_, err := conn.Exec(t.Context(), `UPDATE tasks SET ended_at = ended_at - $1`, d.Milliseconds())
		must(t, err)
	})
}
