package dsl

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

var actionRef = regexp.MustCompile(`^([a-z][a-z0-9-]{0,62})(?:@([1-9][0-9]{0,8}))?$`)

// Use makes the decoded step use an action, and returns the action's body; nil after an error. name
// is `refund` or `refund@3`. with, which may be nil, is the action's input.
func (d *Decoder) Use(name, with *Node) saga.Body {
	p := d.p
	at := Plain
	if !contains(d.keys, "id") { // in a compensation or a status check, the step's key is derived
		at = InRequest
	}
	given := expr.Map(nil)
	if with != nil {
		given = p.template(with, d.s, at)
	}
	a := d.use(name, given)
	if a == nil {
		return nil
	}
	p.fits("the input of action "+a.Name, a.Input, name, with, given)
	return a.Step.Body
}

// use makes the decoded step use an action with an input; nil after an error.
func (d *Decoder) use(name *Node, given *expr.Template) *saga.Action {
	p := d.p
	a := p.used(name)
	if a == nil {
		return nil
	}
	d.adopt(a, given)
	for _, v := range a.VarsUsed {
		if !p.useVar(v) {
			p.fail(name, "unknown_var", fmt.Sprintf("action %s reads the variable %q, which is neither here nor on the server: put it under vars, or start the server with RECOURSE_VAR_%s", a.Name, v, v))
		}
	}
	for _, secret := range a.Secrets {
		if !contains(p.def.Secrets, secret) {
			p.def.Secrets = append(slices.Clip(p.def.Secrets), secret)
			p.def.Mentions = append(p.def.Mentions, mention(name, secret))
		}
	}
	if p.currency == "" {
		p.currency = a.Currency
	}
	if a.Currency != "" && a.Currency != p.currency {
		p.fail(name, "currency_mixed", fmt.Sprintf("the amounts of action %s are in %s, others in %s: all amounts of a definition must be in one currency", a.Name, a.Currency, p.currency))
	}
	return a
}

// used finds the action that `use` names.
func (p *parser) used(n *Node) *saga.Action {
	if p.action != nil {
		p.fail(n, "bad_use", "an action does not use another one: write its request out here")
		return nil
	}
	text, ok := p.str(n, "the name of an action")
	if !ok {
		return nil
	}
	m := actionRef.FindStringSubmatch(text)
	if m == nil {
		p.fail(n, "bad_use", fmt.Sprintf("%q names no action: write its name, or name@3 for its version 3", clip(text, 80)))
		return nil
	}
	if p.options.Actions == nil {
		p.fail(n, "unknown_action", fmt.Sprintf("no actions are known here, so %s cannot be used", m[1]))
		return nil
	}
	version, _ := strconv.Atoi(m[2]) // the pattern allows only digits; none: 0
	a, err := p.options.Actions(m[1], version)
	if err != nil {
		p.fail(n, "unknown_action", err.Error())
		return nil
	}
	if version == 0 {
		if p.def.Pins == nil {
			p.def.Pins = make(map[string]int)
		}
		p.def.Pins[a.Name] = a.Version
	}
	return a
}

// adopt copies the keys that the action sets to the step, as far as the place has them. The rest is
// as for any step of its kind.
func (d *Decoder) adopt(a *saga.Action, with *expr.Template) {
	to, from := d.into, a.Step
	to.Kind, to.Timeout = from.Kind, d.p.timeout(d.p.kinds[from.Kind])
	to.Use = &saga.Use{Action: a.Name, Version: a.Version, With: with, Input: a.Input}
	for _, key := range a.Keys {
		if !contains(d.keys, key) {
			continue
		}
		switch key {
		case "output":
			to.Output = from.Output
		case "expect":
			to.Expect = from.Expect
			if answer, ok := from.Expect.Schema.(*schema); ok {
				d.s.result = answer.answer()
			}
		case "retry":
			to.Retry = from.Retry
		case "timeout":
			to.Timeout = from.Timeout
		case "deadline":
			to.Deadline = from.Deadline
		case "cost":
			to.Cost = from.Cost
		case "idempotency":
			to.Idempotency, to.Key = from.Idempotency, from.Key
		case "in_doubt":
			to.InDoubt = from.InDoubt
		case "key_window":
			to.KeyWindow = from.KeyWindow
		case "compensate":
			to.NoCompensation = from.NoCompensation
			if from.Compensate != nil {
				c := *from.Compensate
				c.ID = d.s.self
				to.Compensate = &c
			}
		}
	}
}

// undoneByAction checks that the output which a step has in place of its action's has what the
// action's compensation reads.
func (p *parser) undoneByAction(n *Node, step *saga.Step) {
	at := cmp.Or(n.Get("output"), n.Get("expect"), n.Get("in_doubt"))
	if step.Use == nil || step.Compensate == nil || at == nil || p.options.Stored {
		return
	}
	for _, path := range step.Compensate.OutputPaths {
		if has, lacks := p.output(step.ID).Lacks(path); lacks {
			p.fail(at, expr.CodeUnknownField, fmt.Sprintf("the compensation of action %s reads output.%s, and with this the output has no %q: keep it in the output, or write compensate, too", step.Use.Action, strings.Join(path, "."), path[has]))
			return
		}
		if _, why := p.notVerified(step.ID, path); why != "" {
			p.fail(cmp.Or(n.Get("in_doubt"), at), expr.CodeUnknownField, fmt.Sprintf("the compensation of action %s reads output.%s, and after a lost response the output is that of the status check, which %s: give verify an output that has it, or write compensate, too", step.Use.Action, strings.Join(path, "."), why))
			return
		}
	}
}
