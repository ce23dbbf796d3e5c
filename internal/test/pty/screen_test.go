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
