package crash

import (
	"os"
	"testing"

	"recourse/internal/test/mutant"
	"recourse/internal/test/program"
)

// shipped builds the program as users get it.
func shipped(t *testing.T) string {
	t.Helper()
	return program.Path(t)
}

// struck builds the program with failpoints, which do nothing unless a node's environment says so.
func struck(t *testing.T) string {
	t.Helper()
	flags := []string{"-tags=failpoints"}
	if os.Getenv("RECOURSE_CRASH_RACE") != "" {
		flags = append(flags, program.Race...)
	}
	return program.Path(t, flags...)
}

// mutated builds the program with failpoints and with those deliberate bugs, one of which
// RECOURSE_MUTANT switches on.
func mutated(t *testing.T, bugs []string) string {
	t.Helper()
	list, err := mutant.Named(bugs...)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := mutant.Overlay("../../../bin/_crash", list)
	if err != nil {
		t.Fatal(err)
	}
	return program.Path(t, "-tags=failpoints", "-overlay="+overlay)
}
