package machine

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

var _ expr.Journaled = (*env)(nil)

// env holds the values that a step's templates see.
type env struct {
	m           *Machine
	n           *node        // nil: the definition's output
	g           *group       // the group that the templates belong to; nil: the definition
	answer      *saga.Answer // nil: no answer, or no complete one
	call        saga.Body    // the call that it answers
	key         string
	output      json.RawMessage
	hasOutput   bool
	err         *saga.Reason
	actionInput json.RawMessage // the value that an action's templates read as `input`
	before      *node           // an approval that shows what the templates give; nil: none. What it decides is unknown
}

// env returns the values that the forward templates of n see. In `finally` they include how the
// saga ends.
func (m *Machine) env(n *node) *env {
	e := &env{m: m, n: n}
	if n != nil {
		e.g = n.in
	}
	if n != nil && n.in.final {
		e.hasOutput, e.err = true, m.reason
		if m.reason == nil {
			e.output, _ = m.result()
		}
	}
	return e
}

// envOf returns the values that the templates of a whole iteration see.
func (m *Machine) envOf(g *group) *env {
	e := m.env(g.owner)
	e.g = g
	return e
}

// Now implements expr.Journaled. It returns the time at which the step began, which is the time of
// the record before.
func (e *env) Now() string { return e.m.at.UTC().Format(journal.TimeFormat) }

// Random implements expr.Journaled. A repeated decision gets the same random bytes; another step,
// iteration or saga gets others.
func (e *env) Random(n int) [16]byte {
	h := sha256.New()
	h.Write([]byte("recourse draw\x00"))
	h.Write(e.m.id[:])
	h.Write([]byte(e.n.path + "\x00" + strconv.Itoa(n)))
	return [16]byte(h.Sum(nil)[:16])
}

// Partial implements expr.Partial: in a plan, and before an approval, values may be placeholders.
func (e *env) Partial() bool { return e.m.outline != nil || e.before != nil }

// Root implements expr.Env.
func (e *env) Root(name string) (any, bool) {
	switch name {
	case "input":
		return e.m.input, true
	case "vars":
		return e.m.vars, true
	case "steps":
		return stepsRoot{e.m, e.g, e.before}, true
	case "saga":
		return e.m.about(e.n), true
	case "result":
		if e.answer == nil {
			return nil, false
		}
		if r, ok := e.call.(saga.Resulting); ok {
			return r.Result(*e.answer), true
		}
		return resultOf(*e.answer), true
	case "key":
		return e.key, e.key != ""
	case "output":
		return raw(e.output), e.hasOutput
	case "error":
		// In a plan, steps are undone although nothing has failed.
		if e.Partial() && e.n != nil && !e.n.in.final && e.hasOutput {
			return expr.Placeholder("error"), true
		}
		return reasonRoot(e.err), e.hasOutput
	case saga.Kin:
		return e.m.kin(e.n), true
	case saga.ActionInput:
		return raw(e.actionInput), e.actionInput != nil
	}
	return e.loop(name)
}

// loop returns a name that the loops around a template define.
func (e *env) loop(name string) (any, bool) {
	for g := e.g; g != nil && g.owner != nil; g = g.owner.in {
		l := g.owner.block.layout.Loop
		_, talks := g.owner.step.Body.(saga.Conversation)
		switch {
		case l == nil:
		case talks && name == saga.Turns && l.History:
			return g.owner.block.history(g.index), true
		case talks:
		case name == "index":
			return json.Number(strconv.Itoa(g.index)), true
		case name == l.As && g.index < len(l.Items):
			return raw(l.Items[g.index]), true
		case name == "history" && l.History:
			return g.owner.block.history(g.index), true
		}
	}
	return nil, false
}

// raw returns a value that is decoded when it is read. Empty bytes are null.
func raw(b json.RawMessage) any {
	if b == nil {
		return nil
	}
	return expr.Raw(b)
}

// reasonRoot returns the root `error`.
func reasonRoot(r *saga.Reason) any {
	if r == nil {
		return nil
	}
	code := r.Error
	if code == "" {
		code = r.Code
	}
	return map[string]any{"code": code, "reason": r.Code, "step": r.Step, "title": r.Title, "detail": r.Detail}
}

// about returns the root `saga` as the templates of a step see it.
func (m *Machine) about(n *node) map[string]any {
	labels := make(map[string]any, len(m.labels))
	for k, v := range m.labels { // any order
		labels[k] = v
	}
	status := m.status(m.waitsForOthers)
	if m.reason == nil && m.forward.over() {
		status = saga.Succeeded
	} else if m.undoing && m.undone == len(m.plan) {
		status = m.endStatus()
	}
	return map[string]any{
		"id":         m.effectsOf(n).String(),
		"definition": m.started.Definition,
		"version":    m.started.Version.String(),
		"started_at": m.startedAt(n).UTC().Format(journal.TimeFormat),
		"labels":     labels,
		"status":     string(status),
		"spent":      json.Number(m.account.Spent.Decimal()),
		"reserved":   json.Number(m.account.Reserved.Decimal()),
	}
}

// stepsRoot is the root `steps`.
type stepsRoot struct {
	m      *Machine
	g      *group // the group from which it is read
	before *node  // see env
}

// Field implements expr.Object. A step that was not reached has null fields: the check of the
// definition ensures that only steps that may have run are named.
func (s stepsRoot) Field(id string) (any, bool) {
	if s.m.def.ByID[id] == nil {
		return nil, false
	}
	if s.before != nil && !s.before.known(s.m, id) {
		at := func(field string) string { return expr.Placeholder(id + "." + field) }
		return map[string]any{"output": expr.Placeholder(id), "status": at("status"), "error": at("error"), "failed": at("failed")}, true
	}
	n := s.m.seen(id, s.g)
	if n == nil {
		return map[string]any{"output": nil, "status": string(s.m.untouched(id, s.g)), "error": nil, "failed": nil}, true
	}
	if when := s.m.outline.maybe(n); when {
		return map[string]any{"output": raw(n.output), "status": expr.Placeholder(n.path + ".status"), "error": expr.Placeholder(n.path + ".error"), "failed": expr.Placeholder(n.path + ".failed")}, true
	}
	var failure any
	if f := n.forward.failure; f != nil && n.forward.state != done {
		failure = failureRoot(f)
	}
	return map[string]any{"output": raw(n.output), "status": string(s.m.stepStatus(n)), "error": failure, "failed": n.skippedItems()}, true
}

func failureRoot(f *saga.Failure) map[string]any {
	return map[string]any{"code": f.Code, "title": f.Title, "detail": f.Detail}
}

// skippedItems lists the iterations of a loop that were left out.
func (n *node) skippedItems() any {
	if n.block == nil || n.block.layout.Loop == nil {
		return nil
	}
	out := make([]any, 0, len(n.block.skippedItems))
	for _, l := range n.block.skippedItems {
		item := map[string]any{"index": json.Number(strconv.Itoa(l.Index)), "error": failureRoot(&l.Error), "in_doubt": l.InDoubt}
		if items := n.block.layout.Loop.Items; l.Index < len(items) {
			item["item"] = raw(items[l.Index])
		}
		out = append(out, item)
	}
	return out
}

// seen returns the step with this id as seen from a group: in a loop, the step of the same
// iteration. nil means that it has no records.
func (m *Machine) seen(id string, g *group) *node {
	prefix := ""
	if g != nil {
		prefix = g.prefix
	}
	for {
		if n := m.steps[prefix+id]; n != nil || prefix == "" {
			return n
		}
		was := prefix
		for ; g != nil && prefix == was; g = g.above() {
			prefix = g.prefix
		}
		if prefix == was {
			prefix = ""
		}
	}
}

// above returns the group around a group, nil at the top level.
func (g *group) above() *group {
	if g.owner == nil {
		return nil
	}
	return g.owner.in
}

// Names implements expr.Object.
func (s stepsRoot) Names() []string {
	names := make([]string, 0, len(s.m.touched))
	for _, n := range s.m.touched {
		names = append(names, n.path)
	}
	return names
}

// resultOf returns the root `result`.
func resultOf(a saga.Answer) map[string]any {
	headers := make(map[string]any, len(a.Headers))
	for k, v := range a.Headers { // any order
		headers[k] = v
	}
	return map[string]any{"status": json.Number(strconv.Itoa(a.Status)), "headers": headers, "body": raw(a.Body)}
}
