package dsl

import (
	"fmt"

	"recourse/saga"
	"recourse/saga/expr"
)

// typed types expressions by the types in a scope. A document that was published before is not
// type-checked: knowledge of a later version of the program must not stop its sagas.
func (p *parser) typed(c *expr.Check, s *scope) *expr.Check {
	c.Lenient = p.options.Stored
	c.Type = func(root string) *expr.Type { return p.root(s, root) }
	c.Fact = s.fact
	return c
}

var (
	someText   = expr.Exactly(expr.KindString)
	someNumber = expr.Exactly(expr.KindNumber)
	// failureType is a step's error, the type of saga.Failure.
	failureType = expr.Fields(map[string]*expr.Type{"code": someText, "title": someText, "detail": someText}, nil)
	// reasonType is why a saga does not reach its goal, the type of saga.Reason.
	reasonType = expr.Fields(map[string]*expr.Type{"code": someText, "reason": someText, "step": someText, "title": someText, "detail": someText}, nil)
	sagaType   = expr.Fields(map[string]*expr.Type{"id": someText, "definition": someText, "version": someText, "started_at": someText,
		"status": someText, "spent": someNumber, "reserved": someNumber,
		"labels": expr.Fields(nil, someText.With(expr.KindAbsent, false))}, otherField) // refs checks their names
	// sessionType is the session that calls an action, the type of saga.SessionRoot. refs checks
	// the names of its fields.
	sessionType = expr.Fields(map[string]*expr.Type{"calls": expr.Exactly(expr.KindInteger), "spent": someNumber}, otherField)
	lostType    = expr.Items(expr.Fields(map[string]*expr.Type{"index": expr.Exactly(expr.KindInteger), "error": failureType,
		"in_doubt": expr.Exactly(expr.KindBool), "item": expr.Any()}, nil))
)

var otherField = expr.Any().With(expr.KindAbsent, false)

// eventType is `event` in a trigger, the type of saga.Event. A cron trigger has only the time.
func eventType(cron bool) *expr.Type {
	maybe := someText.With(expr.KindNull, true)
	if cron {
		return expr.Fields(map[string]*expr.Type{"time": someText}, otherField)
	}
	return expr.Fields(map[string]*expr.Type{"id": someText, "source": someText, "type": someText, "subject": maybe, "time": maybe, "data": expr.Any()}, otherField)
}

// root returns the type of a root in a scope.
func (p *parser) root(s *scope, name string) *expr.Type {
	switch name {
	case "input":
		return p.input
	case "steps":
		return expr.Lookup(func(id string) *expr.Type { return p.stepType(s, id) })
	case "saga":
		return sagaType
	case "session":
		if p.action != nil { // otherwise it may be a loop's variable
			return sessionType
		}
	case "key":
		return someText
	case "result":
		if s.call != nil {
			return s.call.ResultType(s.result)
		}
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
		if s.event != nil { // otherwise it may be a loop's variable
			return eventType(len(s.event) == 1)
		}
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

// stepType returns the type of steps.<id> as seen from a scope. The output of a step that was
// skipped, that failed or that is in a branch that was not taken is null. Conditions may rule that
// out.
func (p *parser) stepType(s *scope, id string) *expr.Type {
	output := p.output(id)
	if s.end || s.undo {
		output = output.With(expr.KindNull, false)
	}
	return expr.Fields(map[string]*expr.Type{"output": output, "status": someText, "error": failureType.With(expr.KindNull, false),
		"failed": lostType.With(expr.KindNull, false)}, otherField)
}

// output returns the type of a step's output.
func (p *parser) output(id string) *expr.Type {
	if t := p.outputs[id]; t != nil {
		return t
	}
	return expr.Any()
}

// sagaOutput returns the type of the output of a saga that has succeeded.
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

// conclude records the type of the output of a step whose own keys were compiled.
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
	if v := step.InDoubt.Verify; v != nil && step.InDoubt.Policy == saga.VerifyIt {
		p.verified[step.ID] = verifiedOutput(v)
	}
}

// verifiedOutput returns the type of a step's output if its status check finds the effect.
func verifiedOutput(v *saga.Verify) *expr.Type {
	switch answer, ok := v.Call.Expect.Schema.(*schema); {
	case v.Output != nil:
		return v.Output.Type()
	case v.Call.Output != nil: // of the action that it uses
		return v.Call.Output.Type()
	case ok:
		return answer.answer()
	}
	return expr.Any()
}

// notVerified returns how the output of a step lacks what is at a path if it is that of the status
// check, and how much of the path it has; "" if nothing is known to be wrong.
func (p *parser) notVerified(id string, path []string) (has int, why string) {
	t := p.verified[id]
	if t == nil || p.options.Stored {
		return 0, ""
	}
	has, lacks := t.Lacks(path)
	if lacks {
		return has, fmt.Sprintf("has no %q", path[has])
	}
	usual, _ := p.output(id).At(path).Kinds()
	other, _ := t.At(path).Kinds()
	if usual &^= expr.KindNull; usual&expr.KindScalar != 0 { // a text takes each of them
		usual |= expr.KindScalar
	}
	if usual != 0 && other != 0 && usual&other == 0 {
		return len(path) - 1, fmt.Sprintf("gives %s instead", other)
	}
	return 0, ""
}

// pass records what is known in a list after a step has succeeded. A step that cannot succeed was
// skipped. Nothing is known after a step whose failure does not end the list, as in finally.
func (s *scope) pass(step *saga.Step, in *scope) {
	switch {
	case step.Continue, s.end:
	case in.gives == expr.Never():
		s.assume(step.When, false)
	case step.When == nil:
		for _, condition := range in.ends {
			s.assume(condition, false)
		}
	}
}

// assume records what is known if a condition is true, or false.
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

// fact returns the known kinds of a path. A loop's variable hides it. In finally nothing that
// depends on steps is known.
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
