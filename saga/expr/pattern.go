package expr

import (
	"regexp"
	"regexp/syntax"
)

// Limits of a pattern for matches: RE2 runs in time linear in text × program.
const (
	maxPattern     = 1024 // bytes
	maxPatternSize = 2000 // instructions of the compiled program
)

// pattern is a compiled RE2 expression and its number of instructions.
type pattern struct {
	re   *regexp.Regexp
	size int
}

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fail(CodeBadPattern, "the pattern is over %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fail(CodeBadPattern, "not a pattern as RE2 writes it (https://github.com/google/re2/wiki/Syntax)")
	}
	tree = tree.Simplify()
	if leastSize(tree, maxPatternSize) > maxPatternSize {
		return nil, errLargePattern()
	}
	prog, err := syntax.Compile(tree)
	if err != nil || len(prog.Inst) > maxPatternSize {
		return nil, errLargePattern()
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fail(CodeBadPattern, "not a pattern as RE2 writes it")
	}
	return &pattern{re: re, size: len(prog.Inst)}, nil
}

func errLargePattern() *EvalError {
	return fail(CodeBadPattern, "the pattern is too large; use smaller repetition counts")
}

// leastSize returns how many instructions a simplified pattern has at least, but stops counting
// above the limit. Compiling a pattern only to see that it is too large would take up to a second.
func leastSize(re *syntax.Regexp, limit int) int {
	n := 1
	switch re.Op {
	case syntax.OpConcat, syntax.OpAlternate, syntax.OpNoMatch:
		n = 0
	case syntax.OpLiteral:
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n > limit {
			return n
		}
		n += leastSize(sub, limit-n)
	}
	return n
}

// compilePattern compiles a computed pattern. Its cost depends on its size.
func (s *state) compilePattern(text string) (*pattern, error) {
	p, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return p, s.burn(10 + p.size)
}
