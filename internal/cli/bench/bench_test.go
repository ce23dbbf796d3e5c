package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// A directory that is there already is somebody else's: bench refuses it instead of removing it.
func TestBenchKeepsDirectories(t *testing.T) {
	t.Parallel()
	c := Command{Database: filepath.Join(t.TempDir(), "b")}
	dbs, drop, err := c.databases(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, drop, err := c.databases(t.Context(), t.TempDir()); cli.ExitCode(err) != cli.Usage || !strings.Contains(err.Error(), "b.bench") {
		t.Errorf("exit %d: %v", cli.ExitCode(err), err)
		drop()
	}
	if _, err := os.Stat(filepath.Dir(dbs.engine)); err != nil {
		t.Error(err)
	}
	drop()
	if _, err := os.Stat(filepath.Dir(dbs.engine)); !os.IsNotExist(err) {
		t.Errorf("after the end: %v", err)
	}
}
