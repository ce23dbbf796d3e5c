package expr

// Needs returns the paths of a root that the expression needs: whatever the other values are, it is
// an error if one of them does not exist. A path ends before the first ?. and before the first
// computed index. Paths before ?? and in a part that may not be evaluated are not among them.
func (p *Program) Needs(root string) [][]string {
	s := &needs{root: root}
	s.walk(p.root)
	return s.paths
}

// Needs returns the paths of a root that the template's expressions need, see [Program.Needs].
func (t *Template) Needs(root string) (paths [][]string) {
	if t == nil {
		return nil
	}
	for _, p := range t.parts {
		if p.Program != nil {
			paths = append(paths, p.Program.Needs(root)...)
		}
	}
	for _, item := range t.items {
		paths = append(paths, item.Needs(root)...)
	}
	for _, f := range t.fields {
		paths = append(paths, f.Value.Needs(root)...)
	}
	return paths
}

// needs collects the paths of one root.
type needs struct {
	root  string
	paths [][]string
}

func (s *needs) walk(n node) {
	switch n := n.(type) {
	case nil:
	case *rootNode, *memberNode, *sliceNode, *chainNode:
		if names, of, _ := s.path(n); of {
			s.paths = append(s.paths, names)
		}
	case *coalesceNode:
		s.path(n.left)
	case *condNode:
		s.walk(n.cond)
	case *logicNode:
		s.walk(n.left)
	case *predicateNode:
		s.walk(n.list)
	default:
		for _, child := range children(n) {
			s.walk(child)
		}
	}
}

// path returns the names on a path that have to exist, whether it is a path of the root, and
// whether no ?. or computed index has ended them. It walks the other parts of the path.
func (s *needs) path(n node) (names []string, of, open bool) {
	switch n := n.(type) {
	case *rootNode:
		return nil, n.name == s.root, true
	case *chainNode:
		return s.path(n.inner)
	case *sliceNode:
		names, of, _ = s.path(n.obj)
		s.walk(n.from)
		s.walk(n.to)
		return names, of, false
	case *memberNode:
		names, of, open = s.path(n.obj)
		s.walk(n.index)
		if open = open && !n.optional && n.index == nil; open {
			names = append(names, n.name)
		}
		return names, of, open
	}
	s.walk(n)
	return nil, false, false
}
