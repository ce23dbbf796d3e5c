package dsl

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"recourse/idempotency"
	"recourse/saga"
)

// body compiles the part that a step, a compensation and a verify have in common: exactly one kind
// with its keys, and expect, timeout, deadline, cost, idempotency and key_window. kinds lists the
// allowed kinds, and extra the other keys of this place. It returns nil, after reporting, if the
// kind cannot be determined.
func (p *parser) body(n *Node, s *scope, what string, kinds, extra []string) *saga.Step {
	if n.Form != Map {
		p.expect(n, what+" as a map with one of "+quoted(kinds))
		return nil
	}
	kind, ok := p.kind(n, what, kinds, extra)
	if !ok {
		return nil
	}
	allowed := append(slices.Clone(extra), kind.Name)
	for _, k := range kind.Keys {
		allowed = append(allowed, k.Name)
	}
	p.keysOf(n, what, kind, allowed)
	step := &saga.Step{Kind: kind.Name, Line: n.Line, Retry: p.defaults.retry, Timeout: p.timeout(kind),
		Idempotency: idempotency.DefaultPlacement, KeyWindow: idempotency.DefaultWindow,
		InDoubt: saga.InDoubt{Policy: saga.RetrySame, Otherwise: saga.Ask}}
	step.Body = kind.Decode(&Decoder{p: p, s: s, step: n, kind: kind, into: step, keys: extra})
	s.call, _ = step.Body.(Resulting)
	has := func(key string) *Node {
		if contains(extra, key) {
			return n.Get(key)
		}
		return nil
	}
	if v := has("expect"); v != nil {
		step.Expect = p.expectation(v, s)
	}
	if v := has("timeout"); v != nil {
		step.Timeout, _ = p.duration(v, time.Millisecond)
	}
	if v := has("deadline"); v != nil {
		step.Deadline, _ = p.duration(v, time.Millisecond)
	}
	if v := has("cost"); v != nil {
		step.Cost = p.cost(v, s)
	}
	if v := has("key_window"); v != nil {
		step.KeyWindow, _ = p.duration(v, time.Second)
	}
	if v := has("idempotency"); v != nil {
		step.Idempotency, step.Key = p.idempotency(v, s)
	}
	if contains(extra, "idempotency") {
		p.keyPlace(n, step)
	}
	return step
}

// keyPlace checks that the request can carry the key, unless an action alone decides about both.
func (p *parser) keyPlace(n *Node, step *saga.Step) {
	v := n.Get("idempotency")
	c, ok := step.Body.(KeyCarrier)
	if !ok || v == nil && step.Use != nil || p.options.Stored {
		return
	}
	if err := c.CarriesKey(string(step.Idempotency.In), step.Idempotency.Name); err != nil {
		p.fail(cmp.Or(v, n.Get(step.Kind)), "key_place", err.Error())
	}
}

// timeout returns the default timeout of an attempt.
func (p *parser) timeout(kind Kind) time.Duration {
	if kind.Timeout > 0 && p.defaults.timeout > 0 {
		return p.defaults.timeout
	}
	return kind.Timeout
}

// senders lists the kinds that may send a request.
func (p *parser) senders() []string {
	return slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return !p.kinds[name].Sends })
}

// kind finds the key of the map that selects the kind. Only the kinds listed are allowed; errors in
// other kinds are reported elsewhere.
func (p *parser) kind(n *Node, what string, kinds, extra []string) (Kind, bool) {
	var found []Entry
	for _, e := range n.Entries {
		if _, ok := p.kinds[e.Name()]; ok {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return p.kinds[found[0].Name()], true
	case 0:
		at, got := p.meantKind(n, kinds, extra)
		switch hint := Suggest(got, kinds); {
		case at == nil:
			p.fail(n, "no_kind", fmt.Sprintf("%s needs exactly one of %s", what, quoted(kinds)))
		case hint != "":
			p.fail(at, "no_kind", fmt.Sprintf("there is no kind of step %q%s", clip(got, 60), hint))
		default:
			p.fail(at, "no_kind", fmt.Sprintf("there is no kind of step %q: %s needs exactly one of %s", clip(got, 60), what, quoted(kinds)))
		}
		return Kind{}, false
	}
	p.fail(found[1].Key, "two_kinds", fmt.Sprintf("%s has exactly one kind: %s and %s cannot be together", what, found[0].Name(), found[1].Name()))
	return Kind{}, false
}

// meantKind finds the key that was probably meant as the kind, in a map without one: the key most
// similar to a kind's name, or else the first unknown key. It returns nil if there is none.
func (p *parser) meantKind(n *Node, kinds, extra []string) (*Node, string) {
	var first *Node
	name := ""
	for _, e := range n.Entries {
		if contains(extra, e.Name()) || slices.ContainsFunc(p.names, func(kind string) bool { return p.kinds[kind].has(e.Name()) }) {
			continue
		}
		if Suggest(e.Name(), kinds) != "" {
			return e.Key, e.Name()
		}
		if first == nil {
			first, name = e.Key, e.Name()
		}
	}
	return first, name
}

// keysOf reports unknown keys. If a key belongs to another kind, the error says so.
func (p *parser) keysOf(n *Node, what string, kind Kind, allowed []string) {
	for _, e := range n.Entries {
		if contains(allowed, e.Name()) {
			continue
		}
		detail := fmt.Sprintf("%s of the kind %s has no key %q%s", what, kind.Name, clip(e.Name(), 60), Suggest(e.Name(), allowed))
		for _, name := range p.names {
			if slices.ContainsFunc(p.kinds[name].Keys, func(k Key) bool { return k.Name == e.Name() }) {
				detail = fmt.Sprintf("%q is a key of %s, not of %s", e.Name(), name, kind.Name)
			}
		}
		p.fail(e.Key, "unknown_key", detail)
	}
}
