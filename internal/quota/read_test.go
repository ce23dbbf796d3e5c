package quota

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 50_000)
	for _, c := range []struct{ length, limit, expected, want int64 }{
		{0, 100, -1, 0}, {0, 100, 0, 0}, {100, 100, -1, 100}, {101, 100, -1, 101}, {500_000, 100, -1, 101}, {500_000, 100, 500_000, 101},
		{100, 100, 100, 100}, {100, 1000, 7, 100}, // the last one is longer than announced
		{Free, mib, -1, Free}, {Free + 1, mib, Free + 1, Free + 1}, {500_000, mib, -1, 500_000}, {500_000, mib, 500_000, 500_000},
		{500_000, mib, 100, 500_000}, {500_000, 499_999, -1, 500_000}, {500_000, 200_000, 100_000, 200_001},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "end with data": iotest.DataErrReader} {
			p := New(mib)
			a := p.Open()
			got, err := ReadAll(NewContext(t.Context(), a), reader(bytes.NewReader(text[:c.length])), c.limit, c.expected)
			if err != nil || !bytes.Equal(got, text[:c.want]) {
				t.Errorf("%+v %s: %d bytes, %v", c, name, len(got), err)
			}
			if want := charge(c.want); c.want <= c.limit && p.Usage().Used != want {
				t.Errorf("%+v %s: %d bytes are reserved, want %d", c, name, p.Usage().Used, want)
			}
		}
	}
}

// charge is how many bytes are reserved for so many bytes.
func charge(n int64) int64 {
	if n <= Free {
		return 0
	}
	return n
}

func TestReadAllIsInterrupted(t *testing.T) {
	p := New(mib)
	reserve(t, p.Open(), mib)
	reserve(t, p.Open(), mib)
	ctx, cancel := context.WithCancel(t.Context())
	a := p.Open()
	a.OnWait(func(bool) { cancel() })
	got, err := ReadAll(NewContext(ctx, a), bytes.NewReader(make([]byte, mib)), mib, -1)
	if !errors.Is(err, context.Canceled) || len(got) != Free {
		t.Errorf("%d bytes, %v; want what is free, and that the wait was interrupted", len(got), err)
	}
	broken := errors.New("broken")
	if _, err := ReadAll(t.Context(), iotest.ErrReader(broken), mib, -1); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
}
