package pty

import (
	"strings"
)

// Screen implements the part of a terminal that the program needs: wrapped lines and cursor
// movements (ECMA-48).
type Screen struct {
	Columns, Rows int
	Lines         [][]rune
	row, col      int
	Wraps         int    // lines that were too long
	rest          string // an incomplete escape sequence or character
	Colours       int
	Unknown       []string
}

func (s *Screen) Write(text string) {
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

func (s *Screen) put(r rune) {
	switch r {
	case '\n':
		s.row, s.col = s.row+1, 0
		s.grow()
		return
	case '\r':
		s.col = 0
		return
	}
	if s.col == s.Columns {
		s.row, s.col = s.row+1, 0
		s.Wraps++
	}
	s.grow()
	line := s.Lines[s.row]
	for len(line) <= s.col {
		line = append(line, ' ')
	}
	line[s.col] = r
	s.Lines[s.row] = line
	s.col++
}

func (s *Screen) grow() {
	for len(s.Lines) <= s.row {
		s.Lines = append(s.Lines, nil)
	}
}

// escape applies a sequence. The number is 1 if it has none.
func (s *Screen) escape(args string, final byte) {
	n := 0
	for _, c := range args {
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
		}
	}
	s.grow()
	switch final {
	case 'A':
		top := max(len(s.Lines)-s.Rows, 0) // the cursor cannot reach lines that have scrolled away
		s.row = max(s.row-max(n, 1), top)
	case 'H':
		s.row, s.col = max(len(s.Lines)-s.Rows, 0), 0
	case 'J':
		s.Lines = s.Lines[:s.row+1]
		fallthrough
	case 'K':
		s.Lines[s.row] = s.Lines[s.row][:min(s.col, len(s.Lines[s.row]))]
	case 'm':
		s.Colours++
	case 'h', 'l': // modes do not change the text
	default:
		s.Unknown = append(s.Unknown, args+string(final))
	}
}

// resize wraps lines that are too long, as terminals do, and keeps the cursor at its text.
func (s *Screen) resize(columns int) {
	var lines [][]rune
	row := 0
	for i, line := range s.Lines {
		if i == s.row {
			row = len(lines)
		}
		for len(line) > columns {
			lines = append(lines, line[:columns:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
	}
	s.Columns, s.Lines, s.row = columns, lines, row
}

func (s *Screen) Text() string {
	var b strings.Builder
	for _, line := range s.Lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
