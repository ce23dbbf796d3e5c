package main

import (
	"os"
	"path/filepath"
	"testing"

	"recourse/internal/cli"
)

// A wrong command neither makes a database nor migrates one, which nodes may be using.
func TestWrongKeyLeavesTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "none.db")
	for _, wrong := range [][]string{{"--expires", "soon"}, {"--source", ""}, {"--models", "gpt-5"}} {
		r := run(t, nil, append([]string{"keys", "create", "--database", db, "--role", "viewer"}, wrong...)...)
		if _, err := os.Stat(db); r.code != cli.Usage || !os.IsNotExist(err) {
			t.Errorf("%v: exit %d, the file: %v", wrong, r.code, err)
		}
	}
}
