package expr

// predicates are the functions that evaluate an expression for each element of a list.
var predicates = map[string]predicate{
	"all":    {usage: "all(list, condition)", run: runAll, gives: givesOf(KindBool)},
	"any":    {usage: "any(list, condition)", run: runAny, gives: givesOf(KindBool)},
	"count":  {usage: "count(list, condition)", run: runCount, gives: givesOf(KindInteger)},
	"filter": {usage: "filter(list, condition)", run: runFilter, gives: givesFiltered},
	"find":   {usage: "find(list, condition)", run: runFind, gives: givesFound},
	"map":    {usage: "map(list, expression)", run: runMap, value: true, gives: givesMapped},
	"none":   {usage: "none(list, condition)", run: runNone, gives: givesOf(KindBool)},
	"one":    {usage: "one(list, condition)", run: runOne, gives: givesOf(KindBool)},
}

type predicateNode struct {
	name string
	fn   predicate
	list node
	body node
}

func (n *predicateNode) eval(s *state) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	v, err := evalOpen(s, n.list)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fail(CodeWrongType, "%s: argument 1 must be a list, not %s", n.name, kind(v))
	}
	return n.fn.run(s, list, func(i int) (any, error) { return n.at(s, list[i], i) })
}

// at runs the body for one element.
func (n *predicateNode) at(s *state, value any, i int) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	s.elems = append(s.elems, element{value: value, index: i})
	defer func() { s.elems = s.elems[:len(s.elems)-1] }()
	if n.fn.value {
		return n.body.eval(s)
	}
	return evalBool(s, n.body, "the condition of "+n.name+"()")
}

// matches calls hit for each element the condition holds for, in order, until
// hit says stop.
func matches(list []any, at func(int) (any, error), hit func(i int) (more bool)) error {
	for i := range list {
		v, err := at(i)
		if err != nil {
			return err
		}
		if v == true && !hit(i) {
			return nil
		}
	}
	return nil
}

// countMatches stops counting at limit.
func countMatches(list []any, at func(int) (any, error), limit int) (int, error) {
	n := 0
	err := matches(list, at, func(int) bool { n++; return n < limit })
	return n, err
}

func runAll(_ *state, list []any, at func(int) (any, error)) (any, error) {
	for i := range list {
		if v, err := at(i); err != nil || v != true {
			return false, err
		}
	}
	return true, nil
}

func runAny(_ *state, list []any, at func(int) (any, error)) (any, error) {
	n, err := countMatches(list, at, 1)
	return n == 1, err
}

func runNone(_ *state, list []any, at func(int) (any, error)) (any, error) {
	n, err := countMatches(list, at, 1)
	return n == 0, err
}

func runOne(_ *state, list []any, at func(int) (any, error)) (any, error) {
	n, err := countMatches(list, at, 2)
	return n == 1, err
}

func runCount(_ *state, list []any, at func(int) (any, error)) (any, error) {
	n, err := countMatches(list, at, len(list)+1)
	return intNumber(n), err
}

func runFilter(s *state, list []any, at func(int) (any, error)) (any, error) {
	out := []any{}
	err := matches(list, at, func(i int) bool { out = append(out, list[i]); return true })
	if err != nil {
		return nil, err
	}
	return out, s.burn(len(out))
}

func runFind(_ *state, list []any, at func(int) (any, error)) (any, error) {
	var found any
	err := matches(list, at, func(i int) bool { found = list[i]; return false })
	return found, err
}

func runMap(s *state, list []any, at func(int) (any, error)) (any, error) {
	if err := s.burn(len(list)); err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i := range list {
		v, err := at(i)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}
