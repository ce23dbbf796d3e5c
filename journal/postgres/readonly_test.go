package postgres_test

import (
	"testing"
	"time"

	"recourse/internal/test/pgserver"
	"recourse/journal/postgres"
)

// A read-only store sees what nodes write, and writes nothing.
func TestReadOnly(t *testing.T) {
	dsn := pgserver.DSN(t)
	if _, err := postgres.Open(t.Context(), dsn, postgres.Options{ReadOnly: true, Migrate: true}); err == nil {
		t.Error("an empty database was opened")
	}
	server := open(t, dsn, postgres.Options{Migrate: true})
	defer server.Close()
	if _, err := server.Register(t.Context(), "n1", time.Minute); err != nil {
		t.Fatal(err)
	}
	reader := open(t, dsn, postgres.Options{ReadOnly: true})
	defer reader.Close()
	if nodes, err := reader.Nodes(t.Context()); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if err := reader.Release(t.Context(), "n1"); err == nil {
		t.Error("it wrote")
	}
	if _, err := server.Renew(t.Context(), "n1", time.Minute); err != nil {
		t.Errorf("the server's lease: %v", err)
	}
}
