package dsl

import (
	"slices"

	"recourse/saga"
)

// The keys of an action in addition to those of its kind, in the order of the reference: the
// document's own keys, and keys that a step has, too. A step that uses the action may override the
// latter.
var (
	actionOwnKeys   = []string{"action", "description", "input", "input_schema", "secrets", "agents", "once", "irreversible"}
	actionStepKeys  = []string{"output", "expect", "retry", "timeout", "deadline", "cost", "idempotency", "in_doubt", "key_window", "compensate"}
	laterActionKeys = []string{"approval"}
)

// ActionKeys returns the keys of an action, in the order of the reference.
func ActionKeys() []string { return slices.Concat(actionOwnKeys, actionStepKeys) }

// ParseAction compiles an action, as Parse compiles a definition.
func ParseAction(file string, src []byte, o Options) (*saga.Action, *Errors) {
	p := newParser(file, src, o)
	p.action = &saga.Action{Source: p.def.Source, SHA256: p.def.SHA256}
	p.compile(p.actionDocument)
	if errs := p.failed(); errs != nil {
		return nil, errs
	}
	a := p.action
	a.Input, a.Secrets, a.Mentions, a.Description = p.def.Input, p.def.Secrets, p.def.Mentions, p.def.Description
	a.VarsUsed, a.Currency, a.Warnings = sortedKeys(p.varsUsed), p.currency, p.warns
	return a, nil
}

// IsAction reports whether a document is an action. A document that cannot be read is not one.
func IsAction(src []byte) (is bool) {
	p := newParser("", src, Options{})
	p.compile(func(root *Node) { is = root.Get("action") != nil && root.Get("saga") == nil })
	return is
}

// actionDocument compiles the document of an action.
func (p *parser) actionDocument(root *Node) {
	// An action does not use another one.
	p.names = slices.DeleteFunc(p.senders(), func(name string) bool { return p.kinds[name].Fails != ByAccident })
	if root.Form != Map {
		p.expect(root, "an action: a map with at least action and one of "+quoted(p.names))
		return
	}
	root = p.announced(root, laterActionKeys)
	p.actionName(root)
	p.input = p.inputs(root)
	p.declareSecrets(root.Get("secrets"))
	s := (&scope{ids: map[string]bool{}}).child()
	step := p.body(root, s, "an action", p.names, ActionKeys())
	if step == nil {
		return
	}
	if _, ok := step.Body.(saga.Call); step.Body != nil && !ok {
		p.fail(root, "action_sends_nothing", "an action sends a request: "+step.Kind+" stays in the definition")
		return
	}
	p.common(root, s, step)
	p.action.Step = step
	p.forAgents(root, s)
	for _, key := range actionStepKeys {
		if root.Get(key) != nil {
			p.action.Keys = append(p.action.Keys, key)
		}
	}
	p.nodes[step] = root
}

func (p *parser) actionName(root *Node) {
	n := root.Get("action")
	if n == nil {
		p.fail(root, "missing_key", "an action needs the key action, its name")
		return
	}
	if s, ok := p.str(n, "the action's name"); ok && !sagaName.MatchString(s) {
		p.fail(n, "bad_name", "an action's name is a small letter, then up to 62 small letters, digits or dashes")
	} else {
		p.action.Name = s
	}
	if n := root.Get("description"); n != nil {
		p.def.Description, _ = p.str(n, "text")
	}
}

// announced reports keys that a later release will have, and returns the map without them.
func (p *parser) announced(n *Node, names []string) *Node {
	rest := *n
	rest.Entries = nil
	for _, e := range n.Entries {
		if !contains(names, e.Name()) {
			rest.Entries = append(rest.Entries, e)
			continue
		}
		p.fail(e.Key, "not_available", e.Name()+" comes with a later release; remove it")
	}
	return &rest
}
