package expr

import (
	"errors"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

func (c *compiler) isRoot(name string) bool {
	return c.chk != nil && slices.Contains(c.chk.Roots, name)
}

// rootNames lists the allowed names, for "did you mean".
func (c *compiler) rootNames() []string {
	names := slices.Clone(c.lets)
	if c.chk != nil {
		names = append(names, c.chk.Roots...)
		if len(c.chk.Secrets) > 0 {
			names = append(names, "secrets")
		}
	}
	return names
}

// identifier compiles a name without members. member compiles a root with members.
func (c *compiler) identifier(n *ast.IdentifierNode) node {
	if n.Value == "null" {
		return &constNode{}
	}
	return c.root(n, nil)
}

// root compiles a name at the start of a path whose static part is path.
func (c *compiler) root(n *ast.IdentifierNode, path []string) node {
	if slot := slices.Index(c.lets, n.Value); slot >= 0 {
		return &varNode{name: n.Value, slot: slot}
	}
	switch {
	case n.Value == "secrets":
		return c.secret(n, path)
	case !c.isRoot(n.Value):
		return c.bad(n, CodeUnknownRoot, "%s means nothing here%s", clip(n.Value), didYouMean(n.Value, c.rootNames()))
	case n.Value == "steps":
		if len(path) == 0 {
			return c.bad(n, CodeUnknownStep, "name one step, as in steps.charge.output: which steps are used must be known when the definition is published")
		}
		if c.chk.Step != nil {
			c.judge(n, CodeUnknownStep, c.chk.Step(path[0]))
		}
	}
	c.refs = append(c.refs, foundRef{offset: c.offset(n.Location().From), ref: Ref{Root: n.Value, Path: path}})
	root := &rootNode{name: n.Value, key: n.Value}
	if key, ok := c.chk.Aliases[n.Value]; ok {
		root.key = key
	}
	return root
}

// judge records the error of a Check function.
func (c *compiler) judge(n ast.Node, code string, err error) {
	if err == nil {
		return
	}
	detail := err.Error()
	if e, ok := errors.AsType[*Error](err); ok {
		code, detail = e.Code, e.Detail
	}
	c.bad(n, code, "%s", detail)
}

// secret compiles secrets.<NAME>. Whether it is the whole of a ${…} is checked after compiling.
func (c *compiler) secret(n *ast.IdentifierNode, path []string) node {
	switch {
	case c.chk == nil || c.chk.Secrets == nil:
		return c.bad(n, CodeSecretNotAllowed, "secrets may only be used in query, headers, auth and body of a request")
	case len(path) != 1 || !isSecretName(path[0]):
		return c.bad(n, CodeSecretInExpr, "name one secret, as in ${secrets.API_KEY}")
	case !slices.Contains(c.chk.Secrets, path[0]):
		return c.bad(n, CodeUnknownSecret, "%s", undeclared(path[0], c.chk.Secrets))
	}
	c.secrets = append(c.secrets, foundSecret{offset: c.offset(n.Location().From), name: path[0]})
	c.refs = append(c.refs, foundRef{offset: c.offset(n.Location().From), ref: Ref{Root: "secrets", Path: path}})
	return &secretNode{name: path[0]}
}

// undeclared says how to declare a secret that the document does not list.
func undeclared(name string, listed []string) string {
	if near := nearest(name, listed); near != "" {
		return "there is no secret " + clip(name) + didYouMean(name, listed)
	}
	return "the secret " + clip(name) + " is not declared: add `secrets: [" + strings.Join(append(slices.Clone(listed), clip(name)), ", ") + "]` at the top of the document; the server takes its value from RECOURSE_SECRET_" + clip(name) + ", or from a file " + clip(name) + " in --secret-dir"
}

// bareSecret wraps secrets.X[0] so that it is not a reference, and compile refuses it: only
// secrets.X itself is a reference.
func (c *compiler) bareSecret(n *ast.MemberNode, start node) node {
	_, bare := n.Node.(*ast.IdentifierNode)
	if _, static := n.Property.(*ast.StringNode); !bare || !static {
		return &memberNode{obj: start}
	}
	return start
}

// unwind follows members to the root and returns the names on the path: input.a["b"] is (input, [a
// b]). ok is false if the path does not start with a name. A numeric or computed index ends the
// names but not the path.
func unwind(n ast.Node) (root *ast.IdentifierNode, names []string, ok bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n, nil, n.Value != "null"
	case *ast.ChainNode:
		return unwind(n.Node)
	case *ast.MemberNode:
		root, names, ok = unwind(n.Node)
		if !ok {
			return nil, nil, false
		}
		if p, static := n.Property.(*ast.StringNode); static && !endsStatic(n.Node) {
			names = append(names, p.Value)
		}
		return root, names, true
	}
	return nil, nil, false
}

// endsStatic reports whether some index in the path n is not a name.
func endsStatic(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ChainNode:
		return endsStatic(n.Node)
	case *ast.MemberNode:
		if _, static := n.Property.(*ast.StringNode); !static {
			return true
		}
		return endsStatic(n.Node)
	}
	return false
}

// member compiles obj.name, obj["name"] and obj[index]. The outermost member of a path compiles its
// root, because it knows the whole static path.
func (c *compiler) member(n *ast.MemberNode) node {
	if n.Method {
		return c.bad(n, CodeUnsupported, "values have no methods; write f(x) instead of x.f()")
	}
	root, names, ok := unwind(n)
	var start node
	if ok {
		start = c.root(root, names)
		if _, secret := start.(*secretNode); secret {
			return c.bareSecret(n, start)
		}
	}
	return c.access(n, start)
}

// access compiles one step of a path, and records where it begins. start is the compiled root, or
// nil if the path does not start with a name.
func (c *compiler) access(n ast.Node, start node) node {
	out := c.step(n, start)
	c.place(out, n)
	return out
}

func (c *compiler) step(n ast.Node, start node) node {
	c.depth++
	defer func() { c.depth-- }()
	if c.visited++; c.depth > MaxDepth {
		return c.node(n) // reports it
	}
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if start != nil {
			return start
		}
	case *ast.ChainNode:
		if start != nil {
			return c.wrap(c.access(n.Node, start))
		}
	case *ast.MemberNode:
		obj, chained := unchain(c.access(n.Node, start))
		m := &memberNode{obj: obj, optional: n.Optional}
		c.place(m, n)
		if p, static := n.Property.(*ast.StringNode); static {
			m.name = p.Value
		} else {
			m.index = c.node(n.Property)
		}
		if chained {
			return c.wrap(m)
		}
		return m
	}
	return c.node(n)
}

// unchain removes a chain, because the path after a ?. belongs to it: a?.b["c"] is null if a?.b.c
// is.
func unchain(n node) (node, bool) {
	if ch, ok := n.(*chainNode); ok {
		return ch.inner, true
	}
	return n, false
}

// wrap puts a chain around n, once.
func (c *compiler) wrap(n node) node {
	inner, _ := unchain(n)
	if p, ok := inner.(pathNode); ok {
		return &chainNode{inner: p}
	}
	return n
}

func (c *compiler) chain(n *ast.ChainNode) node { return c.wrap(c.node(n.Node)) }

func (c *compiler) slice(n *ast.SliceNode) node {
	obj, chained := unchain(c.node(n.Node))
	s := &sliceNode{obj: obj}
	c.place(s, n)
	if n.From != nil {
		s.from = c.node(n.From)
	}
	if n.To != nil {
		s.to = c.node(n.To)
	}
	if chained {
		return c.wrap(s)
	}
	return s
}
