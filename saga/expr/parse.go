package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
)

// parsed is a syntax tree with the data that the parser does not keep.
type parsed struct {
	tree  ast.Node
	src   string
	bytes []int // byte offset of each character; the parser counts characters
}

// offset turns the parser's character position into a byte offset.
func (p *parsed) offset(char int) int {
	return p.bytes[max(0, min(char, len(p.bytes)-1))]
}

// text returns the source at a location.
func (p *parsed) text(loc file.Location) string {
	return p.src[p.offset(loc.From):p.offset(loc.To)]
}

// parse runs expr-lang's parser. Numbers are masked with zeros first and read
// back from the source by position: the parser would make int or float64 of
// them, and refuse 1e400.
func parse(src string) (p *parsed, err *Error) {
	switch {
	case len(src) > MaxSource:
		return nil, &Error{Code: CodeTooLong, Detail: fmt.Sprintf("the expression is over %d bytes; compute part of it in a set step", MaxSource)}
	case !utf8.ValidString(src):
		return nil, &Error{Code: CodeSyntax, Detail: "the expression is not valid UTF-8"}
	case strings.TrimSpace(src) == "":
		return nil, &Error{Code: CodeSyntax, Detail: "the expression is empty"}
	}
	p = &parsed{src: src, bytes: make([]int, 0, len(src)+1)}
	for i := range src {
		p.bytes = append(p.bytes, i)
	}
	p.bytes = append(p.bytes, len(src))
	masked, err := p.maskNumbers()
	if err != nil {
		return nil, err
	}
	// The parser is a library, and its input comes from users. If it panics, the expression is
	// refused, and the server continues.
	defer func() {
		if recover() != nil {
			p, err = nil, &Error{Code: CodeSyntax, Detail: "the expression cannot be read"}
		}
	}()
	tree, perr := parser.Parse(masked)
	if perr != nil {
		return nil, p.syntaxError(perr)
	}
	p.tree = tree.Node
	return p, nil
}

// maskNumbers checks every number literal and writes zeros over it, same length.
func (p *parsed) maskNumbers() (string, *Error) {
	tokens, err := lexer.Lex(file.NewSource(p.src))
	if err != nil {
		return "", p.syntaxError(err)
	}
	masked := []byte(p.src)
	for _, tok := range tokens {
		if tok.Kind != lexer.Number {
			continue
		}
		from, to := p.offset(tok.From), p.offset(tok.To)
		if !isLiteral(p.src[from:to]) {
			return "", &Error{Offset: from, Code: CodeSyntax, Detail: "write numbers as JSON does: 12, 0.5 or 1e6, without a leading zero, _ or 0x"}
		}
		for i := from; i < to; i++ {
			masked[i] = '0'
		}
	}
	return string(masked), nil
}

// syntaxError rewrites a parser error and keeps its position. The parser's text may quote a masked
// number, so the token is read from the source.
func (p *parsed) syntaxError(err error) *Error {
	var fe *file.Error
	if !errors.As(err, &fe) {
		return &Error{Code: CodeSyntax, Detail: "the expression cannot be read"}
	}
	at := p.offset(fe.From)
	return &Error{Offset: at, Code: CodeSyntax, Detail: reword(fe.Message, p.text(fe.Location), p.src, at)}
}

// braceAndKey is the start of an object that is an argument. If the parser does not expect the
// colon after it, it has read the brace as one around the expression of map() and the like.
var braceAndKey = regexp.MustCompile(`[,(]\s*\{\s*(\w+|"[^"]*"|'[^']*')\s*$`)

// reword returns our text for the parser's error at a token, whose offset is at.
func reword(message, token, src string, at int) string {
	switch {
	case strings.HasPrefix(strings.TrimSpace(src), "${"):
		return "a bare expression stands here: write it without ${ and }"
	case strings.HasSuffix(message, "token EOF"), strings.HasSuffix(message, "token EOF)"), message == "unexpected end of expression":
		return "the expression ends too early"
	case strings.Contains(message, `Operator("=")`):
		return "= does not assign here; to compare use =="
	case strings.Contains(message, "coalesce expressions"):
		return "?? cannot be mixed with another operator; put (a ?? b) in parentheses"
	case strings.HasPrefix(message, "a map key"):
		return "a key is a name, a number, a quoted string, or an expression in parentheses"
	case strings.HasPrefix(message, "expected at least"):
		return "this function takes a list and a condition over its elements, as in filter(list, # > 1)"
	case message == "literal not terminated":
		return "the string has no closing quote"
	case token == ":" && braceAndKey.MatchString(src[:at]):
		return "one pair of braces may enclose the expression over elements; for an object write two, as in map(list, {{sku: .sku}})"
	case strings.HasPrefix(message, "unexpected token"):
		return fmt.Sprintf("%q is not expected here", clip(token))
	}
	return message
}
