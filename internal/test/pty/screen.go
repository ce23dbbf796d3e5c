package pty

import (
	"slices"
	"strconv"
	"strings"
)

// Screen implements the part of a terminal that the program needs: wrapped lines and cursor
// movements (ECMA-48).
type Screen struct {
	Columns, Rows int
	Lines         [][]rune
	row, col      int
	bottom        int    // last line of the scrolling region; 0: that of the screen
	saved         [2]int // a cursor: its line on the screen, and its column
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
			if len(text) > 1 && (text[1] == '7' || text[1] == '8') {
				s.cursor(text[1])
				text = text[2:]
				continue
			}
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
		s.newline()
		return
	case '\r':
		s.col = 0
		return
	}
	if s.col == s.Columns {
		s.newline()
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

// top returns the index of the screen's first line.
func (s *Screen) top() int { return max(len(s.Lines)-s.Rows, 0) }

// newline moves the cursor to the next line. At the end of the scrolling region, which begins with
// the screen's first line, that line scrolls away.
func (s *Screen) newline() {
	if s.bottom > 0 && s.row == s.top()+s.bottom-1 {
		s.Lines = slices.Insert(s.Lines, s.row+1, nil)
	}
	s.row, s.col = s.row+1, 0
	s.grow()
}

// cursor saves the cursor (DECSC), or restores it (DECRC).
func (s *Screen) cursor(which byte) {
	if which == '7' {
		s.saved = [2]int{s.row - s.top(), s.col}
		return
	}
	s.row, s.col = s.top()+s.saved[0], s.saved[1]
	s.grow()
}

func (s *Screen) grow() {
	for len(s.Lines) <= s.row {
		s.Lines = append(s.Lines, nil)
	}
}

// escape applies a sequence. The number is 1 if it has none.
func (s *Screen) escape(args string, final byte) {
	first, second, _ := strings.Cut(args, ";")
	n, _ := strconv.Atoi(first) // 0 for none, and for the names of modes
	m, _ := strconv.Atoi(second)
	s.grow()
	switch final {
	case 'A':
		s.row = max(s.row-max(n, 1), s.top()) // the cursor cannot reach lines that have scrolled away
	case 'H':
		s.row, s.col = s.top()+max(n, 1)-1, max(m, 1)-1
		s.grow()
	case 'r':
		for s.bottom = m; m > 0 && len(s.Lines) < s.Rows; {
			s.Lines = append(s.Lines, nil)
		}
		s.row, s.col = s.top(), 0
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
