package api

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"recourse/saga"
)

// str skips a string and returns its value.
func (s *scanner) str() (string, *saga.Finding) {
	s.at++
	var b strings.Builder
	from := s.at // start of the text that is not in b yet
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			rest := s.text[from:s.at]
			s.at++
			if b.Len() == 0 {
				return rest, nil
			}
			b.WriteString(rest)
			return b.String(), nil
		case c == '\\':
			b.WriteString(s.text[from:s.at])
			r, f := s.escape()
			if f != nil {
				return "", f
			}
			b.WriteRune(r)
			from = s.at
		case c < ' ':
			return "", s.wrong("syntax", fmt.Sprintf(`a string contains a raw control character: write it as \u%04x`, c))
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, size := utf8.DecodeRuneInString(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				return "", s.wrong("not_utf8", "the text is not valid UTF-8 here: encode it as UTF-8")
			}
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
		return 0, s.wrong("syntax", `this is not a JSON escape: write \\ for a backslash`)
	}
	if unit < 0xd800 || unit > 0xdfff {
		s.at += 6
		return unit, nil
	}
	low, ok := s.hex(s.at + 6)
	if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, s.wrong("lone_surrogate", "this is half of a surrogate pair, which UTF-8 cannot encode: send both halves, or remove it")
	}
	s.at += 12
	return 0x10000 + (unit-0xd800)<<10 + (low - 0xdc00), nil
}

// hex reads the \uXXXX at i.
func (s *scanner) hex(i int) (rune, bool) {
	if i+6 > len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s.text[i+2:i+6], 16, 32)
	return rune(n), err == nil
}

// number skips a number.
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
		return s.wrong("syntax", "a number begins with an unnecessary 0: JSON has no octal numbers; put quotes around it for text")
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
	if n, err := strconv.Atoi(s.text[from:s.at]); err != nil || n > maxExponent {
		s.at = start
		return s.wrong("number_too_large", "a number's exponent is beyond "+strconv.Itoa(maxExponent)+": send it as text")
	}
	return nil
}
