package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxErrors ends the parsing of a text. Finding and formatting more errors takes time and helps
// nobody.
const maxErrors = 100

// ParseText parses a scalar that may contain ${…}. If it is exactly one ${…}, it keeps the value's
// type; anything else is text. "$${" stands for a literal "${". A ${secrets.NAME} is allowed if
// chk.Secrets is not nil. Offsets of errors count from the start of src. The errors of all
// expressions are returned, but at most maxErrors.
func ParseText(src string, chk *Check) (*Template, []*Error) {
	t := &Template{form: formText}
	if !utf8.ValidString(src) {
		return nil, []*Error{{Code: CodeSyntax, Detail: "the text is not valid UTF-8"}}
	}
	var errs []*Error
	var lit strings.Builder
	for i := 0; i < len(src); {
		rest := src[i:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			lit.WriteString("${")
			i += 3
		case strings.HasPrefix(rest, "${"):
			t.addText(&lit)
			n := expressionEnd(rest[2:])
			if n < 0 {
				return nil, append(errs, &Error{Offset: i, Code: CodeSyntax, Detail: "${ is not closed by }; write $${ for a literal ${"})
			}
			mixed := len(t.parts) > 0 || 2+n+1 < len(rest)
			p, found := compile(rest[2:2+n], chk, true, mixed)
			for _, e := range found {
				e.Offset += i + 2
			}
			if errs = append(errs, found...); len(errs) >= maxErrors {
				return nil, errs
			}
			t.parts = append(t.parts, Part{Program: p})
			i += 2 + n + 1
		default:
			next := strings.IndexByte(rest[1:], '$')
			if next < 0 {
				next = len(rest) - 1
			}
			lit.WriteString(rest[:1+next])
			i += 1 + next
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if t.addText(&lit); len(t.parts) == 0 {
		t.parts = []Part{{}}
	}
	return t, nil
}

func (t *Template) addText(lit *strings.Builder) {
	if lit.Len() > 0 {
		t.parts = append(t.parts, Part{Text: lit.String()})
		lit.Reset()
	}
}

// expressionEnd returns the index of the } that closes an expression, skipping braces, strings and
// comments inside it; -1 if there is none.
func expressionEnd(src string) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '{':
			depth++
		case c == '}':
			if depth == 0 {
				return i
			}
			depth--
		case c == '"' || c == '\'' || c == '`':
			n := quotedEnd(src[i+1:], c)
			if n < 0 {
				return -1
			}
			i += 1 + n
		case strings.HasPrefix(src[i:], "/*"):
			n := strings.Index(src[i+2:], "*/")
			if n < 0 {
				return -1
			}
			i += n + 3
		case strings.HasPrefix(src[i:], "//"):
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				return -1
			}
			i += n
		}
	}
	return -1
}

// quotedEnd returns the index of the closing quote; ` strings have no escapes.
func quotedEnd(src string, quote byte) int {
	for i := 0; i < len(src); i++ {
		switch {
		case src[i] == '\\' && quote != '`':
			i++
		case src[i] == quote:
			return i
		}
	}
	return -1
}

// piece is a part of rendered text: text, or a secret by name.
type piece struct{ text, secret string }

// pieces renders the parts of a text, neighbours that are not secrets joined.
func (t *Template) pieces(s *state) ([]piece, error) {
	if len(t.parts) == 1 && t.parts[0].Program == nil {
		text := t.parts[0].Text
		return []piece{{text: text}}, s.burnBytes(len(text))
	}
	var out []piece
	var run strings.Builder
	for _, part := range t.parts {
		if part.Program == nil {
			run.WriteString(part.Text)
			if err := s.burnBytes(len(part.Text)); err != nil {
				return nil, err
			}
			continue
		}
		v, err := part.Program.run(s)
		if err != nil {
			return nil, err
		}
		if secret, ok := v.(Secret); ok {
			text := run.String()
			if strings.HasSuffix(text, "$") {
				return nil, part.Program.located(fail(CodeDollarBeforeSeal, "the text before secrets.%s ends in $; put something between them", secret.Name))
			}
			out = append(out, piece{text: text, secret: secret.Name})
			run.Reset()
			continue
		}
		text, err := s.asText(v)
		if err != nil {
			return nil, part.Program.located(err)
		}
		run.WriteString(text)
	}
	return append(out, piece{text: run.String()}), nil
}

// join writes pieces out, each text through form.
func join(pieces []piece, sealed bool, form func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range pieces {
		text := form(p.text)
		if sealed {
			text = seal(text)
		}
		if len(pieces) == 1 { // the most frequent case; it has no secret
			return text, nil
		}
		b.WriteString(text)
		if p.secret == "" {
			continue
		}
		if !sealed {
			return "", errPlainSecret(p.secret)
		}
		fmt.Fprintf(&b, "${secrets.%s}", p.secret)
	}
	return b.String(), nil
}
