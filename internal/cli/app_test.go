package cli_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// The function is called at the end of stdin, not before.
func TestWhenStdinEnds(t *testing.T) {
	stdin, parent := io.Pipe()
	a := cli.New(context.Background(), nil, stdin, io.Discard, io.Discard)
	ended := make(chan struct{})
	a.WhenStdinEnds(func() { close(ended) })
	if _, err := io.WriteString(parent, "ignored"); err != nil { // returns when it has been read
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Fatal("called before the end of stdin")
	default:
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// A remote service cannot control the terminal by a text of its own.
func TestNoteIsHarmless(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := cli.New(t.Context(), nil, nil, io.Discard, &out)
	a.Note("%s", "Approve \x1b[2Jpay 1\rpay 9\n  \u009b2Jline")
	if want := "Approve  [2Jpay 1 pay 9\n   2Jline\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
