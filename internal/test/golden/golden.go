// Package golden compares the output of tests with files in their testdata, which go test -update
// rewrites.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check fails the test unless got is the text of testdata/<name>.txt.
func Check(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path(name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(Read(t, name), got); d != "" {
		t.Errorf("-want +got (run with -update if it is meant):\n%s", d)
	}
}

// Read returns the text of testdata/<name>.txt.
func Read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func path(name string) string { return filepath.Join("testdata", name+".txt") }
