package dsl

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// source finds places in the text of a document.
type source struct {
	text  []byte
	lines []int // byte offset of each line's beginning
}

func newSource(text []byte) *source {
	s := &source{text: text, lines: []int{0}}
	for i, b := range text {
		if b == '\n' || b == '\r' && !bytes.HasPrefix(text[i+1:], []byte("\n")) {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// place returns the line and column of a byte offset, both from 1. Columns count characters.
func (s *source) place(offset int) (line, column int) {
	lo, hi := 0, len(s.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; s.lines[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, utf8.RuneCount(s.text[s.lines[lo]:min(offset, len(s.text))]) + 1
}

// offset is the reverse of place.
func (s *source) offset(line, column int) int {
	if line < 1 || line > len(s.lines) {
		return len(s.text)
	}
	at := s.lines[line-1]
	for ; column > 1 && at < len(s.text); column-- {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at
}

// within returns the place of byte `into` of a scalar's value. It walks the value and its written
// form in parallel, so that escapes, folding and indentation do not shift the place. If they cannot
// be matched it stays at the last match.
func (s *source) within(n *Node, into int) (line, column int) {
	at := s.offset(n.Line, n.Column)
	double := n.style&yaml.DoubleQuotedStyle != 0
	switch {
	case n.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if nl := bytes.IndexByte(s.text[at:], '\n'); nl >= 0 {
			at += nl + 1
		}
	case double || n.style&yaml.SingleQuotedStyle != 0:
		at++
	}
	for i := 0; i < into && i < len(n.value); {
		at = s.skip(at, n.value[i])
		if at >= len(s.text) {
			return n.Line, n.Column
		}
		took, wrote := 1, 1
		if double && s.text[at] == '\\' {
			took, wrote = escape(s.text[at:], n.value[i:])
		}
		i, at = i+wrote, at+took
	}
	if into < len(n.value) {
		at = s.skip(at, n.value[into])
	}
	return s.place(at)
}

// skip skips bytes that are written but not part of the value: the line break and indentation
// before b, and the first of two single quotes.
func (s *source) skip(at int, b byte) int {
	if at >= len(s.text) || s.text[at] == b || s.text[at] == '\\' {
		return at
	}
	if b != ' ' && b != '\n' {
		for at < len(s.text) && strings.IndexByte(" \t\r\n'", s.text[at]) >= 0 && s.text[at] != b {
			at++
		}
		return at
	}
	for at+1 < len(s.text) && s.text[at] != b && strings.IndexByte(" \t\r\n", s.text[at]) >= 0 {
		at++
	}
	return at
}

// escape returns the length of an escape sequence of a double-quoted scalar, and of the part of the
// value that it stands for.
func escape(text []byte, value string) (took, wrote int) {
	took = 2
	if len(text) > 1 {
		took += map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[1]]
	}
	_, wrote = utf8.DecodeRuneInString(value)
	return took, wrote
}
