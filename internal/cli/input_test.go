package cli_test

import (
	"io"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/saga/dsl"
)

// Too much on stdin is refused: the part that would be left could be a definition, or JSON.
func TestTooMuchOnStdin(t *testing.T) {
	t.Parallel()
	for bytes, fits := range map[int]bool{dsl.MaxBytes: true, dsl.MaxBytes + 1: false} {
		text := "1" + strings.Repeat(" ", bytes-1)
		src, err := cli.New(t.Context(), nil, strings.NewReader(text), io.Discard, io.Discard).ReadSource("-")
		if fits != (err == nil) || fits && len(src) != bytes || !fits && cli.ExitCode(err) != cli.Usage {
			t.Errorf("a definition of %d bytes: %d bytes, %v", bytes, len(src), err)
		}
		src, err = cli.New(t.Context(), nil, strings.NewReader(text), io.Discard, io.Discard).JSONArg("--input", "-")
		if fits != (err == nil) || fits && len(src) != bytes || !fits && cli.ExitCode(err) != cli.Usage {
			t.Errorf("JSON of %d bytes: %d bytes, %v", bytes, len(src), err)
		}
	}
}
