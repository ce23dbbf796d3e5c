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

// Updating reports whether the test should rewrite its golden files. It is for tests whose files
// hold more than the output; others call Check.
func Updating() bool { return *update }

// Check fails the test unless got is the text of testdata/<file>.
func Check(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path(file), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(Read(t, file), got); d != "" {
		t.Errorf("%s: -want +got (run with -update if it is meant):\n%s", file, d)
	}
}

// Read returns the text of testdata/<file>.
func Read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(path(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func path(file string) string { return filepath.Join("testdata", file) }
