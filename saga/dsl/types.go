package dsl

import (
	"recourse/saga"
	"recourse/saga/expr"
)

// typed has expressions typed by what is known in a scope. A document that was published before is
// taken as it is: what a later version of the program knows better must not stop the sagas that run
// by it.
func (p *parser) typed(c *expr.Check, s *scope) *expr.Check {
	c.Lenient = p.options.Stored
	c.Type = func(root string) *expr.Type { return p.root(s, root) }
	c.Fact = s.fact
	return c
}

var (
	someText   = expr.Exactly(expr.KindString)
	someNumber = expr.Exactly(expr.KindNumber)
	// failureType is a step's error, as saga.Failure has it.
	failureType = expr.Fields(map[string]*expr.Type{"code": someText, "title": someText, "detail": someText}, nil)
	// reasonType is why a saga does not reach its goal, as saga.Reason has it.
	reasonType = expr.Fields(map[string]*expr.Type{"code": someText, "reason": someText, "step": someText, "title": someText, "detail": someText}, nil)
	sagaType   = expr.Fields(map[string]*expr.Type{"id": someText, "definition": someText, "version": someText, "started_at": someText,
		"status": someText, "spent": someNumber, "reserved": someNumber,
		"labels": expr.Fields(nil, someText.With(expr.KindAbsent, false))}, otherField) // refs judges their names
	lostType = expr.Items(expr.Fields(map[string]*expr.Type{"index": expr.Exactly(expr.KindInteger), "error": failureType,
		"in_doubt": expr.Exactly(expr.KindBool), "item": expr.Any()}, nil))
)

var otherField = expr.Any().With(expr.KindAbsent, false)

// eventType is `event` in a trigger, as saga.Event has it: of a cron trigger there is only the
// time.
func eventType(cron bool) *expr.Type {
	maybe := someText.With(expr.KindNull, true)
	if cron {
		return expr.Fields(map[string]*expr.Type{"time": someText}, otherField)
	}
	return expr.Fields(map[string]*expr.Type{"id": someText, "source": someText, "type": someText, "subject": maybe, "time": maybe, "data": expr.Any()}, otherField)
}

// root is what is known of a root in a scope.
func (p *parser) root(s *scope, name string) *expr.Type {
	switch name {
	case "input":
		return p.input
	case "steps":
		return expr.Lookup(func(id string) *expr.Type { return p.stepType(s, id) })
	case "saga":
		return sagaType
	case "key":
		return someText
	case "result":
		body := s.result
		if body == nil {
			body = expr.Any()
		}
		return expr.Fields(map[string]*expr.Type{"status": expr.Exactly(expr.KindInteger), "body": body,
			"headers": expr.Fields(nil, someText.With(expr.KindAbsent, false))}, nil)
	case "output":
		if s.undo {
			return p.output(s.step()).With(expr.KindNull, false)
		}
	case "event":
		return eventType(len(s.event) == 1)
	case "error":
		return reasonType.With(expr.KindNull, s.end && !s.undo)
	}
	for ; s != nil; s = s.parent {
		if t := s.vars[name]; t != nil {
			return t
		}
	}
	return nil
}

// stepType is what steps.<id> is when it is read in a scope. A step that was skipped, that failed
// or that lies in a branch that was not taken has null as its output: whether it did, the reader
// may know by other means.
func (p *parser) stepType(s *scope, id string) *expr.Type {
	output := p.output(id)
	if s.end || s.undo {
		output = output.With(expr.KindNull, false)
	}
	return expr.Fields(map[string]*expr.Type{"output": output, "status": someText, "error": failureType.With(expr.KindNull, false),
		"failed": lostType.With(expr.KindNull, false)}, otherField)
}

// output is what is known of a step's output.
func (p *parser) output(id string) *expr.Type {
	if t := p.outputs[id]; t != nil {
		return t
	}
	return expr.Any()
}

// sagaOutput is what is known of the output of a saga that has succeeded.
func (p *parser) sagaOutput() *expr.Type {
	steps := p.def.Steps
	switch {
	case p.def.Output != nil:
		return p.def.Output.Type()
	case len(steps) == 0:
		return expr.Any()
	}
	return p.output(steps[len(steps)-1].ID)
}

// conclude notes what is known of the output of a step that was read.
func (p *parser) conclude(step *saga.Step, s *scope) {
	t := s.gives
	switch _, call := step.Body.(saga.Call); {
	case step.Output != nil:
		t = step.Output.Type()
	case t == nil && call && s.result != nil:
		t = s.result
	case t == nil:
		t = expr.Any()
	}
	if step.When != nil || step.Continue {
		t = t.With(expr.KindNull, false)
	}
	p.outputs[step.ID] = t
}

// pass notes what is known in the list of a step where it has ended well: of one that cannot, that
// it was skipped.
func (s *scope) pass(step *saga.Step, in *scope) {
	switch {
	case step.Continue:
	case in.gives == expr.Never():
		s.assume(step.When, false)
	case step.When == nil:
		for _, condition := range in.ends {
			s.assume(condition, false)
		}
	}
}

// assume notes what is known where a condition holds, or does not.
func (s *scope) assume(prog *expr.Program, holds bool) {
	if prog == nil {
		return
	}
	for _, f := range prog.Facts(holds) {
		if s.known == nil {
			s.known = map[string]expr.Fact{}
		}
		if old, ok := s.known[f.Path]; ok {
			f.Keep &= old.Keep
		}
		s.known[f.Path] = f
	}
}

// fact is what is known of a path, which a loop's variable hides. Nothing that the steps have found
// is known in finally.
func (s *scope) fact(path string) expr.Kinds {
	keep := ^expr.Kinds(0)
	for ; s != nil; s = s.parent {
		if f, ok := s.known[path]; ok {
			keep &= f.Keep
		}
		if s.vars[expr.RootOf(path)] != nil || s.end && !s.parent.end {
			break
		}
	}
	return keep
}
