package postgres

import (
	"errors"
	"testing"

	"recourse/internal/test/pgserver"
	"recourse/migrations"
)

// The connection that would migrate a database is checked before it does, as all others are: it is
// another one, and may reach another server.
func TestMigrationChecksItsServer(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, pgserver.DSN(t), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.lineage.mu.Lock()
	s.lineage.system = "1" // of another cluster, from which the open connections are
	s.lineage.mu.Unlock()
	if err := s.Ping(ctx); err != nil {
		t.Fatalf("an open connection is checked again: %v", err)
	}
	empty := pgserver.DSN(t)
	if err := s.prepare(ctx, empty, Options{Migrate: true}); !errors.Is(err, ErrWentBack) {
		t.Errorf("err = %v, want ErrWentBack", err)
	}
	if at, _, err := migrations.Version(ctx, migrations.Postgres(empty)); err != nil || at != 0 {
		t.Errorf("the database was migrated to step %d, %v", at, err)
	}
}
