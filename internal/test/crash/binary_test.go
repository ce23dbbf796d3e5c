package crash

import (
	"os"
	"testing"

	"recourse/internal/test/program"
)

// shipped builds the program as users get it.
func shipped(t *testing.T) string {
	t.Helper()
	return program.Path(t)
}

// struck builds the program with failpoints and with deliberate bugs, neither of
// which does anything unless a node's environment says so.
func struck(t *testing.T) string {
	t.Helper()
	flags := []string{"-tags=failpoints,mutants"}
	if os.Getenv("RECOURSE_CRASH_RACE") != "" {
		flags = append(flags, program.Race...)
	}
	return program.Path(t, flags...)
}
