package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// compiler turns a syntax tree into nodes and collects every error.
type compiler struct {
	*parsed
	chk     *Check
	errs    []*Error
	at      map[node]int // where a node begins in the source
	refs    []foundRef
	secrets []foundSecret
	lets    []string // names of let in scope, innermost last
	depth   int
	randoms []ast.Node // calls of uuid() and random()
	preds   int        // the number of predicates around this place
	visited int
}

type foundRef struct {
	offset int
	ref    Ref
}

type foundSecret struct {
	offset int
	name   string
}

// bad records an error and returns a node so that compiling can continue.
func (c *compiler) bad(n ast.Node, code, format string, args ...any) node {
	c.errs = append(c.errs, &Error{Offset: c.offset(n.Location().From), Code: code, Detail: fmt.Sprintf(format, args...)})
	return &constNode{}
}

// node compiles any node, and records where it begins.
func (c *compiler) node(n ast.Node) node {
	out := c.compiled(n)
	c.place(out, n)
	return out
}

// place records where a node begins.
func (c *compiler) place(out node, n ast.Node) {
	if _, ok := c.at[out]; !ok {
		c.at[out] = c.offset(first(n).Location().From)
	}
}

// first returns the leftmost part of a node.
func first(n ast.Node) ast.Node {
	for {
		switch at := n.(type) {
		case *ast.MemberNode:
			n = at.Node
		case *ast.ChainNode:
			n = at.Node
		case *ast.SliceNode:
			n = at.Node
		case *ast.BinaryNode:
			n = at.Left
		case *ast.ConditionalNode:
			n = at.Cond
		default:
			return n
		}
	}
}

// compiled compiles any node. A node that occurs twice (a < b < c) counts twice, so the count
// limits the work, and not only the length of the source.
func (c *compiler) compiled(n ast.Node) node {
	c.depth++
	defer func() { c.depth-- }()
	if c.visited++; c.visited > MaxSource || c.depth > MaxDepth {
		if slices.ContainsFunc(c.errs, func(e *Error) bool { return e.Code == CodeTooDeep }) {
			return &constNode{}
		}
		return c.bad(n, CodeTooDeep, "the expression is nested deeper than %d or has over %d parts; compute part of it in a set step", MaxDepth, MaxSource)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return &constNode{}
	case *ast.BoolNode:
		return &constNode{value: n.Value}
	case *ast.IntegerNode, *ast.FloatNode:
		return &constNode{value: json.Number(c.text(n.Location()))}
	case *ast.StringNode:
		return &constNode{value: n.Value}
	case *ast.ArrayNode:
		return &listNode{items: c.nodes(n.Nodes)}
	case *ast.MapNode:
		return c.mapLiteral(n)
	case *ast.IdentifierNode:
		return c.identifier(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.ChainNode:
		return c.chain(n)
	case *ast.SliceNode:
		return c.slice(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return &condNode{cond: c.node(n.Cond), yes: c.node(n.Exp1), no: c.node(n.Exp2)}
	case *ast.VariableDeclaratorNode:
		return c.let(n)
	case *ast.CallNode:
		return c.call(n)
	case *ast.BuiltinNode:
		return c.function(n, n.Name, n.Arguments)
	case *ast.SequenceNode:
		return c.bad(n, CodeUnsupported, "an expression has one value; ; only follows a let")
	case *ast.BytesNode:
		return c.bad(n, CodeUnsupported, "there are no byte strings; write the text without the b")
	case *ast.PredicateNode:
		return c.bad(n, CodeUnsupported, "a condition over elements only stands in filter(), map(), any(), all(), none(), one(), count() and find()")
	}
	return c.bad(n, CodeUnsupported, "this syntax is not part of the language")
}

func (c *compiler) nodes(list []ast.Node) []node {
	out := make([]node, len(list))
	for i, n := range list {
		out[i] = c.node(n)
	}
	return out
}

// mapLiteral compiles {a: 1, "b": 2, (expr): 3}. A key written as a number was
// masked, so it is read from the source.
func (c *compiler) mapLiteral(n *ast.MapNode) node {
	m := &mapNode{entries: make([]mapEntry, 0, len(n.Pairs))}
	for _, p := range n.Pairs {
		pair, ok := p.(*ast.PairNode)
		if !ok {
			return c.bad(p, CodeUnsupported, "this is not a key and a value")
		}
		key := c.node(pair.Key)
		if _, plain := pair.Key.(*ast.StringNode); plain {
			if text := c.text(pair.Key.Location()); isLiteral(text) {
				key = &constNode{value: text}
			}
		}
		m.entries = append(m.entries, mapEntry{key: key, value: c.node(pair.Value)})
	}
	return m
}

func (c *compiler) pointer(n *ast.PointerNode) node {
	switch {
	case c.preds == 0:
		return c.bad(n, CodeUnsupported, "# is the element inside filter(), map(), any() and the like")
	case n.Name == "" || n.Name == "index":
		return &elemNode{index: n.Name == "index"}
	}
	return c.bad(n, CodeUnsupported, "#%s means nothing; # is the element, #index its place", n.Name)
}

func (c *compiler) unary(n *ast.UnaryNode) node {
	switch n.Operator {
	case "!", "not":
		return &notNode{x: c.node(n.Node)}
	case "-", "+":
		return &signNode{x: c.node(n.Node), minus: n.Operator == "-"}
	}
	return c.bad(n, CodeUnsupported, "the operator %s is not part of the language", n.Operator)
}

func (c *compiler) binary(n *ast.BinaryNode) node {
	switch op := n.Operator; op {
	case "&&", "and", "||", "or":
		return &logicNode{op: op, and: op == "&&" || op == "and", left: c.node(n.Left), right: c.node(n.Right)}
	case "??":
		return &coalesceNode{left: c.node(n.Left), right: c.node(n.Right)}
	case "==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "..", "+", "-", "*", "/", "%":
		return &binaryNode{op: op, left: c.node(n.Left), right: c.node(n.Right)}
	case "**", "^":
		return &binaryNode{op: "**", left: c.node(n.Left), right: c.node(n.Right)}
	case "matches":
		return c.matches(n)
	}
	return c.bad(n, CodeUnsupported, "the operator %s is not part of the language", n.Operator)
}

// matches compiles a constant pattern at once, so that a wrong one is reported.
func (c *compiler) matches(n *ast.BinaryNode) node {
	b := &binaryNode{op: "matches", left: c.node(n.Left), right: c.node(n.Right)}
	if lit, ok := n.Right.(*ast.StringNode); ok {
		p, err := compilePattern(lit.Value)
		if err != nil {
			e, _ := errors.AsType[*EvalError](err)
			return c.bad(n.Right, e.Code, "%s", e.Detail)
		}
		b.pattern = p
	}
	return b
}

// let compiles "let x = value; body".
func (c *compiler) let(n *ast.VariableDeclaratorNode) node {
	if n.Name == "secrets" || c.isRoot(n.Name) || slices.Contains(c.lets, n.Name) || strings.HasPrefix(n.Name, "$") {
		return c.bad(n, CodeUnsupported, "let cannot name a variable %s: that name has a meaning here", clip(n.Name))
	}
	value := c.node(n.Value)
	c.lets = append(c.lets, n.Name)
	body := c.node(n.Expr)
	c.lets = c.lets[:len(c.lets)-1]
	return &letNode{value: value, body: body}
}

func (c *compiler) call(n *ast.CallNode) node {
	name, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return c.bad(n, CodeUnsupported, "values have no methods; write f(x) instead of x.f()")
	}
	return c.function(n, name.Value, n.Arguments)
}

func (c *compiler) function(n ast.Node, name string, args []ast.Node) node {
	if p, ok := predicates[name]; ok {
		return c.predicate(n, name, p, args)
	}
	fn, ok := functions[name]
	if kept, is := journaled[name]; is {
		if err := c.journaled(n, name); err != nil {
			return err
		}
		fn, ok = kept, true
	}
	if !ok {
		hint := didYouMean(name, functionNames())
		if other, ok := renamed[name]; ok {
			hint = "; use " + other
		}
		return c.bad(n, CodeUnknownFunction, "there is no function %s%s", clip(name), hint)
	}
	if least, most := fn.arity(); len(args) < least || most >= 0 && len(args) > most {
		return c.bad(n, CodeWrongArguments, "%s() got %d arguments; it is %s", name, len(args), fn.usage)
	}
	return &callNode{name: name, fn: &fn, args: c.nodes(args)}
}

// journaled returns an error if a journaled function may not be used here.
func (c *compiler) journaled(n ast.Node, name string) node {
	switch {
	case c.chk == nil || !c.chk.Journaled:
		return c.bad(n, CodeNotJournaled, "%s() is only in a set step, whose value the journal keeps: put it in one and read steps.<id>.output", name)
	case name != "now" && slices.Contains(c.randoms, n): // a < b < c contains b twice
		return c.bad(n, CodeUnsupported, "%s() would be called twice here: write let x = %s; and compare x", name, journaled[name].usage)
	}
	c.randoms = append(c.randoms, n)
	return nil
}

func (c *compiler) predicate(n ast.Node, name string, p predicate, args []ast.Node) node {
	if len(args) != 2 {
		return c.bad(n, CodeWrongArguments, "%s() got %d arguments; it is %s", name, len(args), p.usage)
	}
	body, ok := args[1].(*ast.PredicateNode)
	if !ok {
		return c.bad(n, CodeWrongArguments, "the second argument of %s() is a condition over elements; it is %s", name, p.usage)
	}
	list := c.node(args[0])
	c.preds++
	defer func() { c.preds-- }()
	return &predicateNode{name: name, fn: p, list: list, body: c.node(body.Node)}
}
