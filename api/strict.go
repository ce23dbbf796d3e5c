package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// Limits of JSON bodies.
const (
	maxDepth    = 64
	maxDigits   = 4096
	maxExponent = 10_000
)

// scanner checks that a text is one JSON value according to RFC 8259. It also rejects what
// encoding/json accepts: invalid UTF-8, duplicate fields, unpaired surrogates, and values beyond
// bounds on depth and numbers. Numbers stay text and are never converted.
type scanner struct {
	body   []byte
	text   string // body as a string, so that substrings need no copy
	at     int
	path   []string // path of the value that is being read
	depth  int
	fields map[string]json.RawMessage // fields of the outermost object, as slices of body; nil if there is none
}

// strictJSON returns a problem if a body is not strict JSON.
func strictJSON(body []byte) *problem {
	_, p := strictFields(body)
	return p
}

// strictFields also returns the fields of an object, as slices of the body; nil if it is none.
func strictFields(body []byte) (map[string]json.RawMessage, *problem) {
	s := &scanner{body: body, text: string(body), path: make([]string, 0, 8)}
	if f := s.document(); f != nil {
		return nil, fail("invalid_json", "%s", f.Detail).with(*f)
	}
	return s.fields, nil
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
	for _, r := range s.text[:min(s.at, len(s.text))] {
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	pointer := ""
	for _, p := range s.path {
		pointer += "/" + expr.PointerToken(p)
	}
	return &saga.Finding{Pointer: pointer, Line: line, Column: column, Code: code, Detail: detail}
}

func (s *scanner) syntax() *saga.Finding {
	if s.at >= len(s.text) {
		return s.wrong("syntax", "the JSON ends too early: it was cut, or a bracket or quote is missing")
	}
	return s.wrong("syntax", fmt.Sprintf("%q is not allowed here in JSON", rune(s.text[s.at])))
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
	for _, literal := range []string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.at:], literal) {
			s.at += len(literal)
			return nil
		}
	}
	return s.syntax()
}

func (s *scanner) object() *saga.Finding {
	s.at++
	outermost := s.depth == 1
	if outermost {
		s.fields = map[string]json.RawMessage{}
	}
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
			return s.wrong("duplicate_field", fmt.Sprintf("the field %.60q appears twice: remove one", name))
		}
		seen[name] = true
		if s.space(); s.peek() != ':' {
			return s.syntax()
		}
		s.at++
		s.space()
		start = s.at
		if f := s.value(); f != nil {
			return f
		}
		if outermost {
			s.fields[name] = s.body[start:s.at:s.at]
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

// next skips a comma or the closing bracket.
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
