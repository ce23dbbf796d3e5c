package expr

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Limits of one expression and one evaluation (docs/expressions.md: limited length, depth and
// fuel).
const (
	MaxSource   = 4096    // bytes of one expression, and parts of its tree
	MaxDepth    = 64      // nesting of one expression
	DefaultFuel = 100_000 // units of one evaluation or of one template's rendering
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	src   string
	root  node
	refs  []Ref
	typ   *Type
	facts [2][]Fact // the facts if it is false, and if it is true
}

// Ref is a static reference: steps.charge.output.id is
// {Root: "steps", Path: ["charge", "output", "id"]}. The path ends at the
// first numeric index or computed key. A secret is {"secrets", [NAME]}.
type Ref struct {
	Root string
	Path []string
}

// Compile parses and checks a bare expression, as in when, that, found, until and if. On failure
// the program is nil, and all errors are returned in source order (for a syntax error there is
// one). Secrets are refused, because they are allowed only alone in a ${…} of a request: see
// [ParseText].
func Compile(src string, chk *Check) (*Program, []*Error) {
	return compile(src, chk, false, false)
}

// compile is Compile. alone says that a secret may be the whole expression, inText that the value
// is inserted into a text.
func compile(src string, chk *Check, alone, inText bool) (*Program, []*Error) {
	p, err := parse(src)
	if err != nil {
		return nil, []*Error{err}
	}
	c := &compiler{parsed: p, chk: chk, at: map[node]int{}}
	root := c.node(p.tree)
	if _, ok := root.(*secretNode); !ok || !alone {
		for _, s := range c.secrets {
			c.errs = append(c.errs, &Error{Offset: s.offset, Code: CodeSecretInExpr,
				Detail: "secrets." + s.name + " must be the whole of a ${…} in a request; nothing can be computed from a secret"})
		}
	}
	out := &Program{src: src, root: root, refs: sortRefs(c.refs), typ: anyType}
	if len(c.errs) == 0 && chk != nil && chk.Type != nil {
		t := &typer{chk: chk, at: c.at}
		out.typ = t.whole(root, inText)
		if c.errs = t.errs; chk.Lenient && len(t.errs) > 0 {
			out.typ, c.errs = anyType, nil
		}
		if !alone && len(c.errs) == 0 { // only a bare expression is a condition
			out.facts = [2][]Fact{exported(t.implied(root, false)), exported(t.implied(root, true))}
		}
	}
	if len(c.errs) > 0 {
		slices.SortStableFunc(c.errs, func(a, b *Error) int { return cmp.Compare(a.Offset, b.Offset) })
		return nil, c.errs
	}
	return out, nil
}

// Type returns the type of the expression's value, as far as [Check.Type] knows its roots.
func (p *Program) Type() *Type { return p.typ }

// Facts returns what is known if the expression, a condition, is true, or false.
func (p *Program) Facts(holds bool) []Fact {
	if holds {
		return p.facts[1]
	}
	return p.facts[0]
}

// sortRefs puts references in source order and drops repeated ones.
func sortRefs(found []foundRef) []Ref {
	slices.SortStableFunc(found, func(a, b foundRef) int { return cmp.Compare(a.offset, b.offset) })
	refs := make([]Ref, 0, len(found))
	for _, f := range found {
		refs = append(refs, f.ref)
	}
	return uniqueRefs(refs)
}

func uniqueRefs(refs []Ref) []Ref {
	seen := make(map[string]bool, len(refs))
	out := refs[:0]
	for _, r := range refs {
		id := r.Root + "\x00" + strings.Join(r.Path, "\x00")
		if !seen[id] {
			seen[id] = true
			out = append(out, r)
		}
	}
	return out
}

// Eval returns the value of the expression: nil, bool, string, json.Number, []any or
// map[string]any, fully decoded. Errors are *[EvalError].
func (p *Program) Eval(env Env) (any, error) {
	s := newState(env)
	v, err := p.run(s)
	if err != nil {
		return nil, err
	}
	if v, err = s.plain(v); err != nil {
		return nil, p.located(err)
	}
	return v, nil
}

// run evaluates within a larger rendering and returns a value that may be Raw.
func (p *Program) run(s *state) (any, error) {
	s.src = p.src
	v, err := s.part(p.root)
	if err != nil {
		return nil, p.located(err)
	}
	return v, nil
}

// located adds the source to an error that has none yet.
func (p *Program) located(err error) error {
	if e, ok := errors.AsType[*EvalError](err); ok && e.Expr == "" {
		return &EvalError{Code: e.Code, Detail: e.Detail, Expr: strings.TrimSpace(p.src)}
	}
	return err
}

// Bool is Eval for a condition. A value that is not a bool is a not_a_bool error that names its
// type. In a [Partial] environment the error may be [ErrUnknown].
func (p *Program) Bool(env Env) (bool, error) {
	b, err := evalBool(newState(env), p.root, "the condition")
	return b, p.located(err)
}

// Refs returns the static references, in source order, each once. The caller must not change them.
func (p *Program) Refs() []Ref { return p.refs }

// Source returns the text given to Compile.
func (p *Program) Source() string { return p.src }
