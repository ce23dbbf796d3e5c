package cli_test

import (
	"context"
	"io"
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
