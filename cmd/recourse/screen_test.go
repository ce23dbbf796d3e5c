package main

import (
	"strings"
	"testing"
)

// screen implements the part of a terminal that the program needs: wrapped lines and cursor
// movements (ECMA-48).
type screen struct {
	columns, rows int
	lines         [][]rune
	row, col      int
	wraps         int    // lines that were too long
	rest          string // an incomplete escape sequence or character
	colours       int
	unknown       []string
}

func (s *screen) write(text string) {
	text = s.rest + text
	s.rest = ""
	for len(text) > 0 {
		if text[0] == 0x1b {
			end := strings.IndexFunc(text[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
			if end < 0 {
				s.rest = text
				return
			}
			s.escape(text[2:end+1], text[end+1])
			text = text[end+2:]
			continue
		}
		for i, r := range text {
			if r == 0xfffd && len(text)-i < 4 {
				s.rest = text[i:]
				return
			}
			s.put(r)
			text = text[i+len(string(r)):]
			break
		}
	}
}

func (s *screen) put(r rune) {
	switch r {
	case '\n':
		s.row, s.col = s.row+1, 0
		s.grow()
		return
	case '\r':
		s.col = 0
		return
	}
	if s.col == s.columns {
		s.row, s.col = s.row+1, 0
		s.wraps++
	}
	s.grow()
	line := s.lines[s.row]
	for len(line) <= s.col {
		line = append(line, ' ')
	}
	line[s.col] = r
	s.lines[s.row] = line
	s.col++
}

func (s *screen) grow() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
}

// escape applies a sequence. The number is 1 if it has none.
func (s *screen) escape(args string, final byte) {
	n := 0
	for _, c := range args {
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
		}
	}
	s.grow()
	switch final {
	case 'A':
		top := max(len(s.lines)-s.rows, 0) // the cursor cannot reach lines that have scrolled away
		s.row = max(s.row-max(n, 1), top)
	case 'H':
		s.row, s.col = max(len(s.lines)-s.rows, 0), 0
	case 'J':
		s.lines = s.lines[:s.row+1]
		fallthrough
	case 'K':
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
	case 'm':
		s.colours++
	case 'h', 'l': // modes do not change the text
	default:
		s.unknown = append(s.unknown, args+string(final))
	}
}

// resize wraps lines that are too long, as terminals do, and keeps the cursor at its text.
func (s *screen) resize(columns int) {
	var lines [][]rune
	row := 0
	for i, line := range s.lines {
		if i == s.row {
			row = len(lines)
		}
		for len(line) > columns {
			lines = append(lines, line[:columns:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
	}
	s.columns, s.lines, s.row = columns, lines, row
}

func (s *screen) text() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func TestScreen(t *testing.T) {
	t.Parallel()
	s := &screen{columns: 4, rows: 3}
	s.write("ab\r\ncdefg\x1b[1")
	s.write("A\r\x1b[Jx\xe2")
	s.write("\x80\xa6")
	if got := s.text(); got != "ab\nx…\n" || s.wraps != 1 {
		t.Errorf("%q, %d wrapped", got, s.wraps)
	}
	s.resize(1)
	if got := s.text(); got != "a\nb\nx\n…\n" {
		t.Errorf("narrower: %q", got)
	}
}
