package dsl

import (
	"regexp"
	"slices"
	"time"

	"recourse/idempotency"
	"recourse/saga"
	"recourse/saga/expr"
)

// keyName limits the names of headers, fields and parameters that carry idempotency keys. Kinds may
// limit them further.
var keyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,126}$`)

// idempotency reads header, none, or {header|body|query: name, key: template}.
func (p *parser) idempotency(n *Node, s *scope) (idempotency.Placement, *expr.Template) {
	place := idempotency.DefaultPlacement
	if n.Form != Map {
		if word, _ := p.oneOf(n, "header", "none"); word == "none" {
			place = idempotency.Placement{In: idempotency.None}
		}
		return place, nil
	}
	p.known(n, "idempotency", []string{"header", "body", "query", "key"})
	var found *Node
	for _, in := range []idempotency.In{idempotency.Header, idempotency.Body, idempotency.Query} {
		v := n.Get(string(in))
		if v == nil {
			continue
		}
		if found != nil {
			p.fail(v, "two_places", "the key goes into one place: keep one of header, body and query")
			continue
		}
		found = v
		if name, ok := p.str(v, "the name under which the key is sent"); ok && !keyName.MatchString(name) {
			p.fail(v, "bad_name", "this is no name for a header, field or parameter: letters, digits, _, . and - only")
		} else {
			place = idempotency.Placement{In: in, Name: name}
		}
	}
	v := n.Get("key")
	if v == nil {
		if found == nil {
			p.fail(n, "missing_key", "idempotency needs one of header, body, query or key")
		}
		return place, nil
	}
	if v.Form != Scalar || v.IsNull() {
		p.expect(v, "text with ${…} in it")
		return place, nil
	}
	key := p.text(v, 0, s, Plain, wantText)
	if p.constantKey(key) {
		example := "${saga.id} or ${input.…}"
		if p.action != nil {
			example = "${input.…}"
		}
		p.fail(v, "constant_key", "a remote service refuses the same key from every saga but the first: use "+example+" in it")
	}
	return place, key
}

// constantKey reports whether a key is the same for all sagas. Vars are, but a document that was
// published before may have a key of only these.
func (p *parser) constantKey(key *expr.Template) bool {
	varies := func(r expr.Ref) bool { return r.Root != "vars" }
	return key.IsConst() || !p.options.Stored && !slices.ContainsFunc(key.Refs(), varies)
}

// inDoubt reads retry, ask, fail, or {verify, otherwise}.
func (p *parser) inDoubt(n *Node, s *scope) saga.InDoubt {
	d := saga.InDoubt{Policy: saga.RetrySame, Otherwise: saga.Ask, Declared: true}
	if n.Form != Map {
		if n.Form == Scalar && n.value == "verify" {
			p.fail(n, "unknown_value", "verify needs its status check: in_doubt: {verify: {http: GET …, found: …}}")
			return d
		}
		if word, ok := p.oneOf(n, "retry", "ask", "fail"); ok {
			d.Policy = saga.Policy(word)
		}
		return d
	}
	p.known(n, "in_doubt", []string{"verify", "otherwise"})
	d.Policy = saga.VerifyIt
	if v := n.Get("verify"); v != nil {
		d.Verify = p.verify(v, s.child())
	} else {
		p.fail(n, "missing_key", "in_doubt as a map needs verify; or write retry, ask or fail")
	}
	if v := n.Get("otherwise"); v != nil {
		if word, ok := p.oneOf(v, "retry", "ask", "fail"); ok {
			d.Otherwise = saga.Policy(word)
		}
	}
	return d
}

// DefaultAfter is how long after an attempt's timeout its request is assumed to still arrive.
const DefaultAfter = 5 * time.Second

var verifyKeys = []string{"found", "output", "after", "expect", "timeout"}

// verify reads a status check: a read-only call and the meaning of its answer.
func (p *parser) verify(n *Node, s *scope) *saga.Verify {
	call := p.body(n, s, "verify", p.senders(), verifyKeys)
	if call == nil {
		return nil
	}
	v := &saga.Verify{Call: call, After: DefaultAfter}
	if c, ok := call.Body.(saga.Call); call.Body != nil && (!ok || !c.ReadOnly()) {
		p.fail(n, "verify_writes", "verify asks without changing anything: use GET or HEAD, or a read-only tool")
	} else if _, priced := call.Body.(saga.Priced); priced {
		p.fail(n, "verify_writes", "a status check costs nothing, so it cannot ask a model: use GET or HEAD, or a read-only tool")
	}
	if f := n.Get("found"); f != nil {
		v.Found = p.condition(f, s, OnResult)
	} else {
		p.fail(n, "missing_key", "verify needs found, an expression over result: did the lost request take effect?")
	}
	if o := n.Get("output"); o != nil {
		v.Output = p.template(o, s, OnResult)
	}
	if a := n.Get("after"); a != nil {
		v.After, _ = p.duration(a, 0)
	}
	return v
}
