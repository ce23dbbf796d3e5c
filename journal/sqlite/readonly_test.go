package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"recourse/journal/sqlite"
)

// A read-only store sees what a server writes. It writes nothing and creates no file.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true}); err == nil {
		t.Error("a file that does not exist was opened")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("opening a file read-only created it")
	}
	server := open(t, path, sqlite.Options{Migrate: true})
	defer server.Close()
	if _, err := server.Register(t.Context(), "n1", time.Minute); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := open(t, path, sqlite.Options{ReadOnly: true, Migrate: true})
	nodes, err := reader.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Node != "n1" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if err := reader.Release(t.Context(), "n1"); err == nil {
		t.Error("it wrote")
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if _, err := server.Renew(t.Context(), "n1", time.Minute); err != nil {
		t.Errorf("the server's lease: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the file changed")
	}
}
