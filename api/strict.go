package api

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"recourse/saga"
)

// Limits of JSON bodies.
const (
	maxDepth    = 64
	maxDigits   = 4096
	maxExponent = 10_000
)

// scanner checks that a text is one JSON value as RFC 8259 has it, and what
// encoding/json lets pass: valid UTF-8, no field twice, no half of a surrogate
// pair, and bounds on depth and numbers. Numbers stay text and are never converted.
type scanner struct {
	text  []byte
	at    int
	path  []string // of the value being read
	depth int
}

// strictJSON says what is wrong with a body, nil for nothing.
func strictJSON(text []byte) *problem {
	s := &scanner{text: text}
	f := s.document()
	if f == nil {
		return nil
	}
	return fail("invalid_json", "%s", f.Detail).with(*f)
}

func (s *scanner) document() *saga.Finding {
	s.space()
	if s.at == len(s.text) {
		return s.wrong("empty_body", "the body is empty: send a JSON object")
	}
	if f := s.value(); f != nil {
		return f
	}
	s.space()
	if s.at < len(s.text) {
		return s.wrong("trailing_text", "there is more text after the JSON value: send one value")
	}
	return nil
}

func (s *scanner) wrong(code, detail string) *saga.Finding {
	line, column := 1, 1
	for _, r := range string(s.text[:min(s.at, len(s.text))]) {
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	pointer := ""
	for _, p := range s.path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p)
	}
	return &saga.Finding{Pointer: pointer, Line: line, Column: column, Code: code, Detail: detail}
}

func (s *scanner) syntax() *saga.Finding {
	if s.at >= len(s.text) {
		return s.wrong("syntax", "the JSON ends too early: it was cut, or a bracket or quote is missing")
	}
	return s.wrong("syntax", fmt.Sprintf("%q cannot stand here in JSON", rune(s.text[s.at])))
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) value() *saga.Finding {
	switch b := s.peek(); {
	case b == '{' || b == '[':
		if s.depth++; s.depth > maxDepth {
			return s.wrong("too_deep", "the JSON is nested deeper than "+strconv.Itoa(maxDepth)+" levels: flatten it")
		}
		defer func() { s.depth-- }()
		if b == '{' {
			return s.object()
		}
		return s.list()
	case b == '"':
		_, f := s.str()
		return f
	case b == '-' || b >= '0' && b <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(string(s.text[s.at:min(s.at+5, len(s.text))]), word) {
			s.at += len(word)
			return nil
		}
	}
	return s.syntax()
}

func (s *scanner) object() *saga.Finding {
	s.at++
	s.space()
	if s.peek() == '}' {
		s.at++
		return nil
	}
	seen := map[string]bool{}
	for {
		s.space()
		if s.peek() != '"' {
			return s.syntax()
		}
		start := s.at
		name, f := s.str()
		if f != nil {
			return f
		}
		s.path = append(s.path, name)
		if seen[name] {
			s.at = start
			return s.wrong("duplicate_field", fmt.Sprintf("the field %.60q stands here twice: remove one", name))
		}
		seen[name] = true
		if s.space(); s.peek() != ':' {
			return s.syntax()
		}
		s.at++
		s.space()
		if f := s.value(); f != nil {
			return f
		}
		s.path = s.path[:len(s.path)-1]
		if done, f := s.next('}'); done || f != nil {
			return f
		}
	}
}

func (s *scanner) list() *saga.Finding {
	s.at++
	s.space()
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for i := 0; ; i++ {
		s.path = append(s.path, strconv.Itoa(i))
		s.space()
		if f := s.value(); f != nil {
			return f
		}
		s.path = s.path[:len(s.path)-1]
		if done, f := s.next(']'); done || f != nil {
			return f
		}
	}
}

// next passes a comma, or the closing bracket.
func (s *scanner) next(closing byte) (done bool, f *saga.Finding) {
	s.space()
	switch s.peek() {
	case ',':
		s.at++
		return false, nil
	case closing:
		s.at++
		return true, nil
	}
	return false, s.syntax()
}

// str passes a string and gives its value.
func (s *scanner) str() (string, *saga.Finding) {
	s.at++
	var b strings.Builder
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return b.String(), nil
		case c == '\\':
			r, f := s.escape()
			if f != nil {
				return "", f
			}
			b.WriteRune(r)
		case c < ' ':
			return "", s.wrong("syntax", fmt.Sprintf(`a control character stands bare in a string: write it as \u%04x`, c))
		default:
			r, size := utf8.DecodeRune(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				return "", s.wrong("not_utf8", "the text is not valid UTF-8 here: encode it as UTF-8")
			}
			b.WriteRune(r)
			s.at += size
		}
	}
	return "", s.syntax()
}

func (s *scanner) escape() (rune, *saga.Finding) {
	if s.at+1 >= len(s.text) {
		s.at = len(s.text)
		return 0, s.syntax()
	}
	if i := strings.IndexByte(`"\/bfnrt`, s.text[s.at+1]); i >= 0 {
		s.at += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	unit, ok := s.hex(s.at)
	if !ok {
		return 0, s.wrong("syntax", `this is no escape of JSON: write \\ for a backslash`)
	}
	if unit < 0xd800 || unit > 0xdfff {
		s.at += 6
		return unit, nil
	}
	low, ok := s.hex(s.at + 6)
	if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, s.wrong("lone_surrogate", "this is half of a surrogate pair, which no UTF-8 text can hold: send both halves, or remove it")
	}
	s.at += 12
	return 0x10000 + (unit-0xd800)<<10 + (low - 0xdc00), nil
}

// hex reads the \uXXXX at i.
func (s *scanner) hex(i int) (rune, bool) {
	if i+6 > len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.text[i+2:i+6]), 16, 32)
	return rune(n), err == nil
}

// number passes a number.
func (s *scanner) number() *saga.Finding {
	start, digits := s.at, 0
	run := func() bool {
		from := s.at
		for s.peek() >= '0' && s.peek() <= '9' {
			s.at++
		}
		digits += s.at - from
		return s.at > from
	}
	if s.peek() == '-' {
		s.at++
	}
	zero := s.peek() == '0'
	if !run() {
		return s.syntax()
	}
	if zero && digits > 1 {
		s.at = start
		return s.wrong("syntax", "a number begins with a needless 0: JSON has no octal numbers; put quotes around it for text")
	}
	if s.peek() == '.' {
		s.at++
		if !run() {
			return s.syntax()
		}
	}
	if digits > maxDigits {
		s.at = start
		return s.wrong("number_too_long", "a number has more than "+strconv.Itoa(maxDigits)+" digits: send it as text")
	}
	if s.peek() != 'e' && s.peek() != 'E' {
		return nil
	}
	s.at++
	if s.peek() == '+' || s.peek() == '-' {
		s.at++
	}
	from := s.at
	if !run() {
		return s.syntax()
	}
	if n, err := strconv.Atoi(string(s.text[from:s.at])); err != nil || n > maxExponent {
		s.at = start
		return s.wrong("number_too_large", "a number's exponent is beyond "+strconv.Itoa(maxExponent)+": send it as text")
	}
	return nil
}
