package pty

import "testing"

func TestScreen(t *testing.T) {
	t.Parallel()
	s := &Screen{Columns: 4, Rows: 3}
	s.Write("ab\r\ncdefg\x1b[1")
	s.Write("A\r\x1b[Jx\xe2")
	s.Write("\x80\xa6")
	if got := s.Text(); got != "ab\nx…\n" || s.Wraps != 1 {
		t.Errorf("%q, %d wrapped", got, s.Wraps)
	}
	s.resize(1)
	if got := s.Text(); got != "a\nb\nx\n…\n" {
		t.Errorf("narrower: %q", got)
	}
}

// Lines scroll in a region, above lines that stay.
func TestScreenRegion(t *testing.T) {
	t.Parallel()
	s := &Screen{Columns: 10, Rows: 4}
	s.Write("a\r\n\n\x1b7\x1b[1;3r\x1b8\x1b[1A")
	s.Write("\x1b7\x1b[4;1H\x1b[2Kpanel\x1b8")
	s.Write("b\r\nc\r\nd\r\ne\r\n")
	s.Write("\x1b7\x1b[4;1H\x1b[2Kmore\x1b8")
	if got := s.Text(); got != "a\nb\nc\nd\ne\n\nmore\n" {
		t.Errorf("%q", got)
	}
	s.Write("\x1b7\x1b[r\x1b8\x1b[Jend\r\n")
	if got := s.Text(); got != "a\nb\nc\nd\ne\nend\n" || len(s.Unknown) > 0 {
		t.Errorf("%q %q", got, s.Unknown)
	}
}
