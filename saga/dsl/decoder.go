package dsl

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// Decoder decodes the keys of a kind. It reports every error with its place and continues, so that
// all errors are reported at once.
type Decoder struct {
	p    *parser
	s    *scope
	step *Node // the step's map
	kind Kind
	into *saga.Step // the step that is decoded
	keys []string   // the keys of the place, in addition to the kind's
	own  *scope     // the step's scope, if s is a scope inside it
}

// Own returns the value of the key that names the kind.
func (d *Decoder) Own() *Node { return d.step.Get(d.kind.Name) }

// Get returns the value of one of the kind's keys, nil if it is absent.
func (d *Decoder) Get(key string) *Node { return d.step.Get(key) }

// InAction reports whether the step is the body of an action. Its key `input` is then the action's
// own.
func (d *Decoder) InAction() bool { return contains(d.keys, "action") }

// InCheck reports whether the step is a status check, which must have no effect.
func (d *Decoder) InCheck() bool { return contains(d.keys, "found") }

// Reads reports whether the step must have no effect, because it is a status check or is read again
// later (fresh_for).
func (d *Decoder) Reads() bool { return d.InCheck() || d.step.Get("fresh_for") != nil }

// Fail reports an error at n.
func (d *Decoder) Fail(n *Node, code, format string, args ...any) {
	d.p.fail(n, code, fmt.Sprintf(format, args...))
}

// FailInside reports an error at a byte of the value of scalar n.
func (d *Decoder) FailInside(n *Node, into int, code, format string, args ...any) {
	d.p.failInside(n, into, code, fmt.Sprintf(format, args...))
}

// Expect reports that n is not the wanted value.
func (d *Decoder) Expect(n *Node, want string) { d.p.expect(n, want) }

// Known reports the keys of map n that are not listed. It returns whether all are listed. If n is
// not a map, it reports that and returns false.
func (d *Decoder) Known(n *Node, what string, keys ...string) bool { return d.p.known(n, what, keys) }

// Template compiles any value. It never returns nil.
func (d *Decoder) Template(n *Node, at Place) *expr.Template { return d.p.template(n, d.s, at) }

// Text compiles the value of a scalar, from byte base on, as text. Numbers and bools are taken as
// written. It returns nil, after reporting, if n is not such a scalar.
func (d *Decoder) Text(n *Node, base int, at Place) *expr.Template {
	if n.Form != Scalar || n.IsNull() {
		d.p.expect(n, "text")
		return nil
	}
	return d.p.text(n, base, d.s, at, wantText)
}

// Scalar is Text for a place that also takes other kinds of values. rule is the text of the error.
func (d *Decoder) Scalar(n *Node, at Place, kinds expr.Kinds, rule string) *expr.Template {
	return d.p.text(n, 0, d.s, at, want{kinds, expr.CodeWrongType, rule})
}

// Typed is Template for a place that takes only some kinds of values. rule is the text of the
// error.
func (d *Decoder) Typed(n *Node, at Place, kinds expr.Kinds, rule string) *expr.Template {
	return d.p.typedTemplate(n, d.s, at, want{kinds, expr.CodeWrongType, rule})
}

// Gives sets the type of the step's output, unless the author writes an output. Without it, the
// output is the answer's body.
func (d *Decoder) Gives(t *expr.Type) {
	if d.own != nil {
		d.own.gives = t
		return
	}
	d.s.gives = t
}

// OutputOf returns the output type of a list of steps, which is that of the last step.
func (d *Decoder) OutputOf(steps []*saga.Step) *expr.Type {
	if len(steps) == 0 {
		return expr.Any()
	}
	return d.p.output(steps[len(steps)-1].ID)
}

// Condition compiles a bare expression. It returns nil after an error.
func (d *Decoder) Condition(n *Node, at Place) *expr.Program { return d.p.condition(n, d.s, at) }

// Str reads text without expressions.
func (d *Decoder) Str(n *Node, want string) (string, bool) { return d.p.str(n, want) }

// Duration reads a constant duration of at least `least`.
func (d *Decoder) Duration(n *Node, least time.Duration) (time.Duration, bool) {
	return d.p.duration(n, least)
}

// Schema compiles a schema as in `expect.schema`: JSON Schema, or the shorthand. ask is the schema
// to send to the remote service. For the shorthand, its objects are closed, because the remote
// service needs to know that there are no other fields; check allows more fields, because remote
// services add some. Both are nil after an error.
func (d *Decoder) Schema(n *Node) (check saga.Schema, ask json.RawMessage) {
	own := d.p.answerSchema(n)
	if own == nil {
		return nil, nil
	}
	var doc any
	if saysJSONSchema(n) {
		doc, _ = d.p.constant(n)
	} else {
		doc, _ = (&shorthand{d.p, true, false}).compile(n)
	}
	ask, err := journal.Encode(doc)
	if err != nil {
		panic("dsl: a schema that JSON cannot hold: " + err.Error()) // it was decoded from text
	}
	return own, ask
}

// Schemed returns the type of a value that has passed a schema of this package and has its
// defaults.
func (d *Decoder) Schemed(s saga.Schema) *expr.Type {
	if own, ok := s.(*schema); ok {
		return schemaType(own.doc, true, own.short)
	}
	return expr.Any()
}

// Steps compiles a list of steps that runs once inside this step.
func (d *Decoder) Steps(n *Node) []*saga.Step {
	list := d.s.child()
	steps := d.p.steps(n, list)
	d.reveal(list)
	return steps
}

// reveal makes the steps of a list visible after this step has ended.
func (d *Decoder) reveal(list *scope) {
	s := d.s
	if d.own != nil {
		s = d.own
	}
	s.inner = append(s.inner, sortedKeys(list.ids)...)
}

// Given returns a decoder for a part that is reached only if a condition holds, so that types can
// be narrowed by it.
func (d *Decoder) Given(condition *expr.Program) *Decoder {
	in := d.Inside()
	in.s.assume(condition, true)
	return in
}

// Inside returns a decoder for a part of the step. Exclude narrows the types in that part.
func (d *Decoder) Inside() *Decoder {
	in := *d
	if in.own == nil {
		in.own = d.s
	}
	in.s = d.s.child()
	in.s.self = in.own.self
	return &in
}

// Ends says that the steps of a branch never succeed. If this step succeeds, the branch's condition
// was therefore false.
func (d *Decoder) Ends(condition *expr.Program) { d.own.ends = append(d.own.ends, condition) }

// Exclude says that the rest of the decoder's part is reached only if a condition is false.
func (d *Decoder) Exclude(condition *expr.Program) { d.s.assume(condition, false) }

// Parallel compiles one step that runs inside this step, in parallel with others.
func (d *Decoder) Parallel(n *Node) []*saga.Step {
	list := d.s.child()
	list.noPivot = true
	step := d.p.step(n, list)
	d.reveal(list)
	if step == nil {
		return nil
	}
	return []*saga.Step{step}
}

// Loop returns a decoder for the part of this step that runs several times: its Steps, and
// templates that are evaluated after them in the same iteration. Their scope also has vars and
// index.
func (d *Decoder) Loop(vars map[string]*expr.Type) *Decoder {
	in := *d
	in.s = d.s.child()
	in.s.noPivot, in.s.loop = true, d.s.self
	in.s.vars = maps.Clone(vars)
	in.s.vars["index"] = expr.Exactly(expr.KindInteger)
	return &in
}

// Body compiles the steps of a Loop's decoder.
func (d *Decoder) Body(n *Node) []*saga.Step {
	steps := d.p.steps(n, d.s)
	for id := range d.s.ids { // any order
		d.p.loops[id] = d.s.loop
	}
	return steps
}

// Runs records that the step runs a definition, and checks the step's input by the definition. t is
// the compiled input. Both may be nil: then the definition gets no input.
func (d *Decoder) Runs(n *Node, target string, input *Node, t *expr.Template) {
	p := d.p
	p.def.Runs = append(p.def.Runs, mention(n, target))
	name, version, ok := saga.RunTarget(target)
	if !ok {
		return
	}
	place := "the input of definition " + target
	if name == p.def.Name && version == 0 {
		p.starts(place, p.def.Input, n, input, t)
		return
	}
	if p.options.Children == nil {
		return
	}
	if child := p.options.Children(name, version); child != nil {
		p.starts(place, child.Input, n, input, t)
		d.Gives(child.Gives)
	}
}

// Stored reports whether the document was published before. Names of things that exist only on the
// server are then not checked.
func (d *Decoder) Stored() bool { return d.p.options.Stored }

// Int reads a whole number between two limits.
func (d *Decoder) Int(n *Node, least, most int64) (int64, bool) { return d.p.whole(n, least, most) }

// OneOf reads one of some words.
func (d *Decoder) OneOf(n *Node, words ...string) (string, bool) { return d.p.oneOf(n, words...) }

// Bool reads true or false.
func (d *Decoder) Bool(n *Node) bool { return d.p.boolean(n) }

// Self returns the id of the decoded step; "" if it is not a step of a list, but the body of an
// action, a compensation or a status check.
func (d *Decoder) Self() string {
	if !contains(d.keys, "id") {
		return ""
	}
	return d.s.self
}

// Inner returns a step of the kind that the author does not write, inside the decoded step. The
// names of authors' steps have no dash, and its id is the step's with a dash and a name.
func (d *Decoder) Inner(name string, body saga.Body) *saga.Step {
	return d.inner(name, &saga.Step{Kind: d.kind.Name, Body: body, Retry: d.p.defaults.retry})
}

func (d *Decoder) inner(name string, step *saga.Step) *saga.Step {
	step.ID, step.Line = d.s.self+"-"+name, d.step.Line
	if d.p.read++; d.p.read == MaxSteps+1 {
		d.p.fail(d.step, "too_many_steps", tooManySteps)
	}
	d.p.def.ByID[step.ID], d.p.nodes[step] = step, d.step
	return step
}

// Tool returns a step that calls the action that n names, inside the decoded step, and the action;
// nil after an error. The step's input is that of each call. If a call fails, the saga goes on.
func (d *Decoder) Tool(n *Node) (*saga.Step, *saga.Action) {
	in := *d
	in.s = d.s.child()
	in.s.self = d.s.self
	in.into = &saga.Step{Retry: d.p.defaults.retry, Idempotency: idempotency.DefaultPlacement, KeyWindow: idempotency.DefaultWindow,
		InDoubt: saga.InDoubt{Policy: saga.RetrySame, Otherwise: saga.Ask}}
	a := in.use(n, expr.Map(nil))
	if a == nil {
		return nil, nil
	}
	step := in.inner(a.Name, in.into)
	step.Body, step.Continue = a.Step.Body, true
	if v := d.p.defaults.inDoubt; v != nil && !step.InDoubt.Declared {
		step.InDoubt = d.p.inDoubt(v, in.s)
	}
	if step.Compensate != nil {
		step.Compensate.ID = step.ID
	}
	return step, a
}

// Reserved reports whether a name has a meaning in every template.
func Reserved(name string) bool {
	return contains([]string{"input", "steps", "vars", "secrets", "saga", "result", "key", "output", "error", "index", "history", "true", "false", "null", "nil"}, name)
}
