package main

import (
	"strings"
	"testing"

	"recourse/internal/test/golden"
)

// TestGoldenFilesSpeakOfCommands: no error of a server in the golden file contains terms of the
// API.
func TestGoldenFilesSpeakOfCommands(t *testing.T) {
	t.Parallel()
	for line := range strings.SplitSeq(golden.Read(t, "server.txt"), "\n") {
		if strings.HasPrefix(line, "recourse: ") && (strings.Contains(line, "/v1/") || strings.Contains(line, "Idempotency-Key")) {
			t.Error(line)
		}
	}
}
