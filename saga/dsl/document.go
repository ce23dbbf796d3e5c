package dsl

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"recourse/saga"
)

var (
	sagaName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	stepName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	secretName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)
	varName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
)

// The keys of a document, in the order of the reference.
var (
	topKeys = []string{"saga", "steps", "description", "input", "input_schema", "output", "budget", "timeout", "retention", "unique",
		"vars", "secrets", "defaults", "on_failure", "finally", "triggers", "checkpoint"}
)

// document compiles the whole tree. Keys that others depend on come first.
func (p *parser) document(root *Node) {
	if root.Form != Map {
		p.expect(root, "a definition: a map with at least saga and steps")
		return
	}
	p.known(root, "a definition", topKeys)
	p.collect(root)
	p.head(root)
	p.input = p.inputs(root)
	p.declareVars(root.Get("vars"))
	p.declareSecrets(root.Get("secrets"))
	if n := root.Get("budget"); n != nil {
		p.def.Budget = p.budget(n)
	}
	if n := root.Get("defaults"); n != nil {
		p.setDefaults(n)
	}

	top := &scope{ids: map[string]bool{}}
	if n := root.Get("steps"); n != nil {
		p.def.Steps = p.steps(n, top)
		p.freshness()
	}
	if n := root.Get("output"); n != nil {
		p.def.Output = p.template(n, top, Plain)
	}
	if n := root.Get("unique"); n != nil {
		p.def.Unique = p.template(n, top, Bare)
	}
	if n := root.Get("finally"); n != nil {
		end := top.child()
		end.end = true
		p.def.Finally = p.steps(n, end)
	}
	if n := root.Get("triggers"); n != nil {
		p.def.Triggers = p.triggers(n)
	}
}

func (p *parser) head(root *Node) {
	for _, key := range []string{"saga", "steps"} {
		if root.Get(key) == nil {
			p.fail(root, "missing_key", "a definition needs the key "+key)
		}
	}
	if n := root.Get("saga"); n != nil {
		if s, ok := p.str(n, "the saga's name"); ok && !sagaName.MatchString(s) {
			p.fail(n, "bad_name", "a saga's name is a small letter, then up to 62 small letters, digits or dashes")
		} else {
			p.def.Name = s
		}
	}
	if n := root.Get("description"); n != nil {
		p.def.Description, _ = p.str(n, "text")
	}
	if n := root.Get("timeout"); n != nil {
		p.def.Timeout, _ = p.duration(n, time.Second)
	}
	if n := root.Get("retention"); n != nil {
		p.def.Retention = p.retention(n)
	}
	if n := root.Get("checkpoint"); n != nil {
		word, _ := p.oneOf(n, "step", "phase", "decision")
		p.def.Checkpoint = saga.Checkpoint(word)
	}
	if n := root.Get("on_failure"); n != nil {
		word, _ := p.oneOf(n, "compensate", "stop")
		p.def.Stop = word == "stop"
	}
}

// collect records everything that looks like a step by its id, so that errors can distinguish a
// step that runs later from a step that does not exist.
func (p *parser) collect(n *Node) {
	if id := n.Get("id"); id != nil && id.IsText() && p.written[id.value] == nil && p.looksLikeStep(n) {
		p.written[id.value] = n
	}
	for _, item := range n.Items {
		p.collect(item)
	}
	for _, e := range n.Entries {
		p.collect(e.Value)
	}
}

func (p *parser) looksLikeStep(n *Node) bool {
	if n.parent != nil && n.parent.Form == List && contains([]string{"steps", "finally"}, n.parent.token) {
		return true
	}
	for _, e := range n.Entries {
		if _, ok := p.kinds[e.Name()]; ok {
			return true
		}
	}
	return false
}

// declareVars reads the definition's own variables, which are constants.
func (p *parser) declareVars(n *Node) {
	if n == nil {
		return
	}
	if n.Form != Map {
		p.expect(n, "a map of names to values")
		return
	}
	if !p.declared(n) {
		return
	}
	for _, e := range n.Entries {
		if !varName.MatchString(e.Name()) {
			p.fail(e.Key, "bad_name", "a variable's name is a letter or _, then up to 62 letters, digits or _")
		}
		value, ok := p.constant(e.Value)
		if ok {
			p.def.Vars = append(p.def.Vars, saga.Var{Name: e.Name(), Value: value})
		}
	}
}

func (p *parser) declareSecrets(n *Node) {
	if n == nil {
		return
	}
	if n.Form != List {
		p.expect(n, "a list of names, such as [PAY_KEY]")
		return
	}
	if !p.declared(n) {
		return
	}
	for _, item := range n.Items {
		name, ok := p.str(item, "the name of a secret")
		switch {
		case !ok:
		case !secretName.MatchString(name):
			p.fail(item, "bad_name", "a secret's name is a capital letter, then up to 62 capitals, digits or _; its value is never written here")
		case contains(p.secrets, name):
			p.fail(item, "duplicate_name", name+" is listed twice: remove one")
		default:
			p.secrets = append(p.secrets, name)
			p.def.Mentions = append(p.def.Mentions, mention(item, name))
		}
	}
	p.def.Secrets = p.secrets
}

// constant returns a value without expressions, as a value of package expr.
func (p *parser) constant(n *Node) (any, bool) {
	ok := true
	switch n.Form {
	case List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			v, good := p.constant(item)
			list[i], ok = v, ok && good
		}
		return list, ok
	case Map:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			v, good := p.constant(e.Value)
			m[e.Name()], ok = v, ok && good
		}
		return m, ok
	}
	switch n.kind {
	case textScalar:
		if strings.Contains(n.value, "${") {
			p.fail(n, "not_constant", "this value is a constant: it cannot have ${…} in it")
			return nil, false
		}
		return n.value, true
	case oddNumber:
		p.fail(n, "number_form", clip(n.value, 40)+" is read as different numbers by different tools: put quotes around it for text, or write it plainly in decimal")
		return nil, false
	}
	return n.plain(), true
}

// TopKeys returns the keys of a definition, in the order of the reference.
func TopKeys() []string { return slices.Clone(topKeys) }
