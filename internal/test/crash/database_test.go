package crash

import (
	"path/filepath"
	"testing"

	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
)

// database is a database under test, and how to read it.
type database struct {
	url   string
	open  func(t *testing.T) journal.Store
	loses bool // a failover may lose the last commits
}

func onSQLite(t *testing.T) database {
	path := filepath.Join(t.TempDir(), "recourse.db")
	return database{url: path, open: func(t *testing.T) journal.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}

func onPostgres(t *testing.T) database {
	dsn := pgserver.DSN(t)
	return database{url: dsn, open: func(t *testing.T) journal.Store {
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}
