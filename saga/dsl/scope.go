package dsl

import (
	"fmt"
	"slices"

	"recourse/saga"
	"recourse/saga/expr"
)

// Place is the position of a template in a step. It determines which names the template may use.
type Place int

// The places. All have input, steps, vars and saga; in a compensation and in finally also output
// and error.
const (
	Plain     Place = iota
	OnResult        // and result: the answer
	InRequest       // and key: the idempotency key
	Sealed          // and key and secrets
	Bare            // input and vars only: `unique`
	Journaled       // and now(), uuid() and random(): the result is journaled, and rendered only once
	onEvent         // event only: `triggers`
	ofCall          // input only: `once` and the limits of an action
	ofSession       // input and session: `approve_when` of an action
)

// scope holds the names that the templates of a step, or of a list of steps, may use.
type scope struct {
	parent  *scope
	ids     map[string]bool // the visible steps, in addition to the parent's
	self    string          // the step, "" between steps
	undo    bool            // the scope of a compensation
	end     bool            // the scope of finally
	uses    *uses
	inner   []string              // ids of steps inside the step, visible once it has ended
	vars    map[string]*expr.Type // roots that a loop adds
	loop    string                // the loop whose iterations the list is
	event   []string              // the fields of `event`, in a trigger
	noPivot bool                  // inside a parallel, foreach or repeat
	known   map[string]expr.Fact  // facts from conditions, by path
	result  *expr.Type            // the type of the answer's body; nil: unknown
	ends    []*expr.Program       // conditions that are false if the step has succeeded
	call    Resulting             // determines the form of the answer; nil: {status, headers, body}
	gives   *expr.Type            // the type of the kind's output; nil: the answer's body
}

// uses collects the names that the templates of a compensation use.
type uses struct {
	output bool
	paths  [][]string // those of `output` that are needed
}

func (s *scope) child() *scope {
	return &scope{parent: s, ids: map[string]bool{}, undo: s.undo, end: s.end, uses: s.uses, noPivot: s.noPivot}
}

// roots lists the roots that the loops around add, the innermost first.
func (s *scope) roots() []string {
	var names []string
	for ; s != nil; s = s.parent {
		names = append(names, sortedKeys(s.vars)...)
	}
	return names
}

// in returns the scope of one step of the list that s belongs to.
func (s *scope) in(id string) *scope {
	c := s.child()
	c.self = id
	return c
}

// undoing returns the scope of the step's compensation, in which the step itself is visible.
func (s *scope) undoing() *scope {
	c := s.child()
	c.ids[s.self] = true
	c.undo, c.uses = true, &uses{}
	return c
}

func (s *scope) sees(id string) bool {
	for ; s != nil; s = s.parent {
		if s.ids[id] {
			return true
		}
	}
	return false
}

func (s *scope) visible() []string {
	var names []string
	for ; s != nil; s = s.parent {
		names = append(names, sortedKeys(s.ids)...)
	}
	return names
}

// inside reports whether the templates belong to a step or to one inside it.
func (s *scope) inside(id string) bool {
	for ; s != nil; s = s.parent {
		if s.self == id {
			return true
		}
	}
	return false
}

// check returns the compile-time counterpart of the values that a template in this place sees.
func (p *parser) check(s *scope, at Place) *expr.Check {
	if at == onEvent {
		return p.typed(&expr.Check{Roots: []string{"event"}}, s)
	}
	if at == Bare {
		return p.typed(&expr.Check{Roots: []string{"input", "vars"}}, s)
	}
	c := p.typed(&expr.Check{Roots: []string{"input", "steps", "vars", "saga"}}, s)
	if p.action != nil {
		c.Roots, c.Aliases = []string{"input", "vars"}, map[string]string{"input": saga.ActionInput}
	}
	switch at {
	case ofCall:
		c.Roots = []string{"input"}
		return c
	case ofSession:
		c.Roots = []string{"input", "session"}
		return c
	}
	if s.undo || s.end {
		c.Roots = append(c.Roots, "output", "error")
	}
	c.Roots = append(c.Roots, s.roots()...)
	switch at {
	case OnResult:
		c.Roots = append(c.Roots, "result")
	case InRequest:
		c.Roots = append(c.Roots, "key")
	case Sealed:
		c.Roots = append(c.Roots, "key")
		c.Secrets = p.secrets
	case Journaled:
		c.Journaled = true
	}
	c.Step = func(id string) error { return p.judgeStep(s, id) }
	return c
}

// judgeStep returns why a step's result cannot be read here.
func (p *parser) judgeStep(s *scope, id string) error {
	if s.sees(id) {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &expr.Error{Code: expr.CodeUnknownStep, Detail: fmt.Sprintf(format, args...)}
	}
	other := p.written[id]
	switch {
	case s.inside(id) && s.self == id:
		return refuse("%q is this step itself: its output is there only when it has ended", id)
	case s.inside(id):
		return refuse("%q is the step around this one: its output is there only when it has ended", id)
	case other == nil:
		return refuse("there is no step %q%s", id, p.suggestStep(id, s))
	case s.step() == "" && !s.end && !s.undo:
		return refuse("%q (line %d) runs in finally, when the output is already made", id, other.Line)
	case p.loops[id] != "":
		return refuse("%q (line %d) runs once for each iteration of %q, which gives what its iterations give: steps.%s.output", id, other.Line, p.loops[id], p.loops[id])
	case before(p.written[s.step()], other):
		return refuse("%q (line %d) runs later than this: move it before this step, or this step after it", id, other.Line)
	}
	return refuse("%q (line %d) is in another branch, which does not run when this one does", id, other.Line)
}

// suggestStep returns the name of a step that may be meant: a visible step, or else any. If there
// are very many names, some name is always similar.
func (p *parser) suggestStep(id string, s *scope) string {
	if len(p.written) > 1000 {
		return ""
	}
	if hint := Suggest(id, s.visible()); hint != "" {
		return hint
	}
	return Suggest(id, sortedKeys(p.written))
}

// step returns the innermost step that the scope belongs to, "" for none.
func (s *scope) step() string {
	for ; s != nil; s = s.parent {
		if s.self != "" {
			return s.self
		}
	}
	return ""
}

// before reports whether a is written before b. Outside steps it is always false.
func before(a, b *Node) bool {
	if a == nil {
		return false
	}
	return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
}

// The fields of the roots with a fixed shape.
var (
	sagaFields = []string{"id", "definition", "version", "started_at", "labels", "spent", "reserved", "status"}
	stepFields = []string{"output", "status", "error", "failed"}
	// sessionFields are those of saga.SessionRoot.
	sessionFields = []string{"calls", "spent"}
)

// refs checks the names in compiled expressions that package expr does not check.
func (p *parser) refs(n *Node, base int, text string, s *scope, refs []expr.Ref) {
	for _, r := range refs {
		switch {
		case r.Root == "vars" && len(r.Path) > 0:
			if name := r.Path[0]; !p.useVar(name) {
				p.failInside(n, base+find(text, r, 1), "unknown_var", fmt.Sprintf("there is no variable %q here or on the server (put it under vars, or start the server with RECOURSE_VAR_%s)%s", name, name, Suggest(name, sortedKeys(p.vars))))
			}
		case r.Root == "vars":
			p.failInside(n, base+find(text, r, 0), "unknown_var", "vars is read by name: vars.NAME")
		case r.Root == "saga" && len(r.Path) > 0 && !slices.Contains(sagaFields, r.Path[0]):
			p.failInside(n, base+find(text, r, 1), "unknown_field", fmt.Sprintf("saga has no %q, it has %s%s", r.Path[0], quoted(sagaFields), Suggest(r.Path[0], sagaFields)))
		case r.Root == "saga" && len(r.Path) == 0:
			p.failInside(n, base+find(text, r, 0), "unknown_field", "saga is read by field: saga.id, saga.status")
		case p.action != nil && r.Root == "session" && len(r.Path) == 0:
			p.failInside(n, base+find(text, r, 0), "unknown_field", "session is read by field: session.calls, session.spent")
		case p.action != nil && r.Root == "session" && !slices.Contains(sessionFields, r.Path[0]):
			p.failInside(n, base+find(text, r, 1), "unknown_field", fmt.Sprintf("session has no %q%s", r.Path[0], orOnly(r.Path[0], sessionFields)))
		case s.event != nil && r.Root == "event" && len(r.Path) > 0 && !slices.Contains(s.event, r.Path[0]):
			p.failInside(n, base+find(text, r, 1), "unknown_field", fmt.Sprintf("event has no %q here, it has %s%s", r.Path[0], quoted(s.event), Suggest(r.Path[0], s.event)))
		case r.Root == "steps" && len(r.Path) > 1 && !slices.Contains(stepFields, r.Path[1]):
			p.failInside(n, base+find(text, r, 2), "unknown_field", fmt.Sprintf("a step has output, status, error and failed, not %q; did you mean steps.%s.output.%s?", r.Path[1], r.Path[0], r.Path[1]))
		}
		if s.uses != nil && (r.Root == "output" || r.Root == "steps" && len(r.Path) > 0 && s.inside(r.Path[0])) {
			s.uses.output = true
		}
	}
}

// needs checks the outputs that templates and conditions need, and records the paths of `output`
// that a compensation needs. A condition may say that they are there.
func (p *parser) needs(n *Node, base int, text string, s *scope, e interface{ Needs(root string) [][]string }) {
	for _, path := range e.Needs("steps") {
		if len(path) > 1 && path[1] == "output" && !s.exists("steps", path) {
			p.needsVerified(n, base, text, expr.Ref{Root: "steps", Path: path}, path[0], 2)
		}
	}
	if !s.undo {
		return
	}
	for _, path := range e.Needs("output") {
		if !s.exists("output", path) {
			s.uses.paths = append(s.uses.paths, path)
			p.needsVerified(n, base, text, expr.Ref{Root: "output", Path: path}, s.step(), 0)
		}
	}
}

// needsVerified refuses to read a part of a step's output that its status check does not give. The
// path in the output begins at r.Path[from].
func (p *parser) needsVerified(n *Node, base int, text string, r expr.Ref, id string, from int) {
	has, why := p.notVerified(id, r.Path[from:])
	if why == "" {
		return
	}
	what := "the output"
	if id != "" { // it is a step's, not an action's
		what += fmt.Sprintf(" of %q", id)
	}
	p.failInside(n, base+find(text, r, from+has+1), expr.CodeUnknownField, "after a lost response, "+what+" is that of the status check, which "+why+": give verify an output that has what is read here")
}

// exists reports whether a condition says that a part of a path exists.
func (s *scope) exists(root string, path []string) bool {
	for i := range path {
		if s.fact(expr.PathOf(root, path[:i+1]))&expr.KindAbsent == 0 {
			return true
		}
	}
	return false
}

// useVar records that a variable is read, and reports whether it exists, as far as that is known.
func (p *parser) useVar(name string) bool {
	p.varsUsed[name] = true
	if p.options.VarNames == nil || p.action != nil { // an action's variables are checked where it is used
		return true
	}
	if p.vars == nil { // vars are declared before the first template
		p.vars = make(map[string]bool)
		for _, name := range p.options.VarNames {
			p.vars[name] = true
		}
		for _, v := range p.def.Vars {
			p.vars[v.Name] = true
		}
	}
	return p.vars[name]
}
