package dsl

import (
	"strings"

	"recourse/saga/expr"
)

// find returns the offset of a reference in the text that contains it: of its root, or of the
// path's part number `part` if the path is written with dots.
func find(text string, r expr.Ref, part int) int {
	want := r.Root
	at := strings.Index(text, want)
	if part == 0 { // the root by itself, not followed by a path
		for rest := at; rest >= 0; {
			if end := at + len(want); end == len(text) || strings.IndexByte(".?[_", text[end]) < 0 {
				return at
			}
			if rest = strings.Index(text[at+1:], want); rest >= 0 {
				at += 1 + rest
			}
		}
	}
	for i := 0; i < part && i < len(r.Path); i++ {
		want += "." + r.Path[i]
		next := strings.Index(text, want)
		if next < 0 {
			return max(at, 0)
		}
		at = next
	}
	return max(at, 0)
}

// template compiles any value.
func (p *parser) template(n *Node, s *scope, at Place) *expr.Template {
	switch n.Form {
	case List:
		items := make([]*expr.Template, len(n.Items))
		for i, item := range n.Items {
			items[i] = p.template(item, s, at)
		}
		return expr.List(items)
	case Map:
		fields := make([]expr.Field, len(n.Entries))
		for i, e := range n.Entries {
			fields[i] = expr.Field{Name: e.Name(), Value: p.template(e.Value, s, at)}
		}
		return expr.Map(fields)
	}
	switch {
	case n.kind == oddNumber:
		p.fail(n, "number_form", clip(n.value, 40)+" is read as different numbers by different tools: put quotes around it for text, or write it plainly in decimal")
		return expr.Const(jsonText(n.value))
	case n.kind != textScalar:
		return expr.Const(n.literal())
	case !strings.Contains(n.value, "$"):
		return expr.Const(jsonText(n.value))
	}
	return p.text(n, 0, s, at, want{})
}

// typedTemplate compiles a value that must be of some kinds.
func (p *parser) typedTemplate(n *Node, s *scope, at Place, w want) *expr.Template {
	if !n.IsText() {
		return p.template(n, s, at)
	}
	errs := len(p.errs)
	t := p.text(n, 0, s, at, w)
	if parts := t.Parts(); len(p.errs) == errs && !p.options.Stored && w.kinds&expr.KindString == 0 && (len(parts) != 1 || parts[0].Program == nil) {
		p.fail(n, w.code, w.rule+", not text: write one ${…} and nothing around it")
	}
	return t
}

// want is the required type of a template, and the error for another type.
type want struct {
	kinds      expr.Kinds // 0: any
	code, rule string
}

// wantText is the type of values that are rendered as text.
var wantText = want{expr.KindScalar, expr.CodeNotText, "only a string, a number or a bool can stand here"}

// text compiles a scalar's value from byte base on as text that may contain ${…}. It never returns
// nil.
func (p *parser) text(n *Node, base int, s *scope, at Place, w want) *expr.Template {
	chk := p.check(s, at)
	chk.Want, chk.WantCode, chk.Rule = w.kinds, w.code, w.rule
	t, errs := expr.ParseText(n.value[base:], chk)
	if len(errs) > 0 {
		p.exprErrors(n, base, errs)
		return expr.Const(jsonText(""))
	}
	p.refs(n, base, n.value[base:], s, t.Refs())
	p.reads(s, at, t.Refs())
	p.depends(s, t.Refs())
	p.needs(n, base, n.value[base:], s, t)
	return t
}

// condition compiles a bare expression whose result is a bool.
func (p *parser) condition(n *Node, s *scope, at Place) *expr.Program {
	switch {
	case n.Form != Scalar || n.kind != textScalar && n.kind != boolScalar:
		p.fail(n, "expected_expression", "a condition is an expression such as input.amount > 100, not "+n.what())
		return nil
	case strings.HasPrefix(strings.TrimSpace(n.value), "${"):
		p.fail(n, "expression_braces", "a condition is written without ${ }: it is an expression as a whole")
		return nil
	}
	text := n.value
	if n.kind == boolScalar {
		text = string(n.literal())
	}
	chk := p.check(s, at)
	chk.Want, chk.WantCode, chk.Rule = expr.KindBool, expr.CodeNotABool, "a condition must be true or false"
	prog, errs := expr.Compile(text, chk)
	if len(errs) > 0 {
		p.exprErrors(n, 0, errs)
		return nil
	}
	p.refs(n, 0, text, s, prog.Refs())
	for _, r := range prog.Refs() {
		if r.Root == "steps" && len(r.Path) > 0 {
			p.def.Decides[r.Path[0]] = true
		}
	}
	p.depends(s, prog.Refs())
	p.needs(n, 0, text, s, prog)
	return prog
}

// expression compiles one bare expression of some type. It may also be written as ${…}.
func (p *parser) expression(n *Node, s *scope, at Place, w want) *expr.Program {
	if n.Form != Scalar || n.kind == nullScalar {
		p.fail(n, "expected_expression", "write an expression here, such as result.body.cost, not "+n.what())
		return nil
	}
	text, base := n.value, 0
	if inner, ok := strings.CutPrefix(text, "${"); ok && strings.HasSuffix(inner, "}") {
		text, base = strings.TrimSuffix(inner, "}"), 2
	}
	chk := p.check(s, at)
	chk.Want, chk.WantCode, chk.Rule = w.kinds, w.code, w.rule
	prog, errs := expr.Compile(text, chk)
	if len(errs) > 0 {
		p.exprErrors(n, base, errs)
		return nil
	}
	p.refs(n, base, text, s, prog.Refs())
	p.reads(s, at, prog.Refs())
	p.depends(s, prog.Refs())
	p.needs(n, base, text, s, prog)
	return prog
}
