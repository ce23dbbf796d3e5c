// Package http is the step kind that sends an HTTP request.
//
// Decoding, rendering and judging are pure: they determine the request and the meaning of an
// answer. Package client sends the requests.
package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"recourse/idempotency"
	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// DefaultTimeout is the timeout of one attempt, including its answer's body.
const DefaultTimeout = 30 * time.Second

// Kind describes the kind.
func Kind() dsl.Kind {
	text := json.RawMessage(`{"type": "object"}`)
	return dsl.Kind{
		Name:  "http",
		Value: json.RawMessage(`{"type": "string", "pattern": "^(GET|HEAD|POST|PUT|PATCH|DELETE) +\\S"}`),
		Keys: []dsl.Key{
			{Name: "query", Schema: text},
			{Name: "headers", Schema: text},
			{Name: "body", Schema: json.RawMessage(`true`)},
			{Name: "auth", Schema: json.RawMessage(`{"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": false,
				"properties": {"bearer": {"type": "string"}, "header": {"type": "string"}, "value": {"type": "string"},
					"basic": {"type": "object", "additionalProperties": false, "required": ["user"], "properties": {"user": {"type": "string"}, "password": {"type": "string"}}}}}]}`)},
		},
		Doc: "Sends one HTTP request: `METHOD url`, with `query`, `headers`, `body` and `auth`. The output is the parsed body; " +
			"`result` is `{status, headers, body}`. GET and HEAD leave no effect, so they are never in doubt.",
		Timeout: DefaultTimeout,
		Sends:   true,
		Fails:   dsl.ByAccident,
		Decode:  decode,
	}
}

// Body is an http step: its shape is [saga.Call]. It is immutable, except that it remembers a URL
// that it has checked.
type Body struct {
	method  string
	url     *expr.Template
	places  []place     // of each part of the URL
	fixed   []expr.Part // the parts of the URL before data; nil: there is no data in it
	origin  string      // scheme, host and port as written, for messages
	inURL   []string    // the parameters in the URL as written
	query   []pair
	headers []pair
	auth    *credential
	media   string         // the type of the body; "" if it is not constant
	body    *expr.Template // nil: none
	object  bool           // the body is, or may be, an object
	fields  []string       // of a body that is written as a map

	checked atomic.Pointer[string] // a URL that passed the check
}

// pair is a header or a parameter. A parameter written as a list has several values.
type pair struct {
	name   string
	value  *expr.Template
	sealed bool // it contains a secret, so it is text
}

// credential is the header that auth sets.
type credential struct {
	name, prefix string
	value        *expr.Template
	basic        bool           // basic authentication: value is the password
	user         *expr.Template // for basic
}

var (
	_ saga.Call      = (*Body)(nil)
	_ dsl.KeyCarrier = (*Body)(nil)
	_ dsl.Unsafe     = (*Body)(nil)
)

// ReadOnly implements saga.Call: GET and HEAD (RFC 9110, section 9.2.1).
func (b *Body) ReadOnly() bool { return b.method == "GET" || b.method == "HEAD" }

// Repeatable implements dsl.Unsafe: the idempotent methods (RFC 9110, section 9.2.2).
func (b *Body) Repeatable() bool { return b.method != "POST" && b.method != "PATCH" }

// CarriesKey implements dsl.KeyCarrier.
func (b *Body) CarriesKey(in, name string) error {
	switch idempotency.In(in) {
	case idempotency.Header:
		if !httptext.Settable(name) {
			return fmt.Errorf("the key cannot be sent as the header %q: choose another name", name)
		}
	case idempotency.Body:
		if b.body == nil || !b.object {
			return errors.New("the key goes into a field of the body, so the step needs a body that is a map")
		}
		if b.media != "" && !httptext.IsJSON(b.media) {
			return fmt.Errorf("the key goes into a field of JSON, not into a body of the type %s: send it in a header, or write ${key} into the body and idempotency: none", b.media)
		}
	}
	if key := b.sets(idempotency.In(in), name); key != "" {
		return fmt.Errorf("%s has %q already, where the idempotency key goes: choose another name for it, or write a key of your own as idempotency: {key: …} instead", key, name)
	}
	return nil
}

// sets returns the key of the step that sets a header, parameter or field; "" if none does.
func (b *Body) sets(in idempotency.In, name string) string {
	switch {
	case in == idempotency.Header && slices.ContainsFunc(b.headers, func(h pair) bool { return strings.EqualFold(h.name, name) }):
		return "headers"
	case in == idempotency.Header && b.auth != nil && strings.EqualFold(b.auth.name, name):
		return "auth"
	case in == idempotency.Query && slices.ContainsFunc(b.query, func(q pair) bool { return q.name == name }):
		return "query"
	case in == idempotency.Query && slices.Contains(b.inURL, name):
		return "the URL"
	case in == idempotency.Body && slices.Contains(b.fields, name):
		return "body"
	}
	return ""
}

func decode(d *dsl.Decoder) saga.Body {
	b := &Body{}
	b.target(d)
	b.query = pairs(d, "query")
	for _, q := range b.query {
		if q.name == "" {
			d.Fail(d.Get("query"), "bad_name", "a parameter needs a name")
		}
	}
	b.headers = pairs(d, "headers")
	b.checkHeaders(d)
	b.media = b.constantType()
	if n := d.Get("auth"); n != nil {
		b.auth = auth(d, n)
		b.checkAuth(d, n)
	}
	if n := d.Get("body"); n != nil && !n.IsNull() {
		b.decodeBody(d, n)
	}
	return b
}

// decodeBody compiles the body. If it is not JSON, its type limits what it can be made from.
func (b *Body) decodeBody(d *dsl.Decoder, n *dsl.Node) {
	switch b.object = n.Form == dsl.Map; {
	case b.media == "" || httptext.IsJSON(b.media):
		b.body = d.Template(n, dsl.Sealed)
	case b.media == formType:
		b.body = b.textOr(d, n, expr.KindObject, "a map, or text")
	default:
		b.body = b.textOr(d, n, 0, "text")
	}
	b.object = b.object || n.IsText() && !b.body.IsConst()
	for _, e := range n.Entries {
		b.fields = append(b.fields, e.Name())
	}
}

// textOr compiles a body that must be text, or an object if other has that kind.
func (b *Body) textOr(d *dsl.Decoder, n *dsl.Node, other expr.Kinds, want string) *expr.Template {
	if !n.IsText() && !(b.object && other != 0) && !d.Stored() {
		d.Expect(n, want+" as a body of the type "+b.media+", or another Content-Type")
	}
	return d.Typed(n, dsl.Sealed, expr.KindString|other, "a body of the type "+b.media+" is "+want)
}

func pairs(d *dsl.Decoder, key string) []pair {
	n := d.Get(key)
	if n == nil {
		return nil
	}
	if n.Form != dsl.Map {
		d.Expect(n, "a map of names to values")
		return nil
	}
	var out []pair
	for _, e := range n.Entries {
		p := pair{name: e.Name()}
		switch {
		case e.Value.Form == dsl.Map, e.Value.Form == dsl.List && key == "headers":
			d.Expect(e.Value, "text, a number or true/false")
			continue
		case e.Value.Form == dsl.List:
			p.value = items(d, e.Value)
		case e.Value.IsNull():
			p.value = d.Template(e.Value, dsl.InRequest)
		case key == "query":
			p.value = d.Scalar(e.Value, dsl.Sealed, expr.KindAny&^expr.KindObject, "a parameter is a string, a number, a bool, a list of these or null")
			p.sealed = hasSecret(p.value)
		default:
			p.value = d.Text(e.Value, 0, dsl.Sealed)
			p.sealed = hasSecret(p.value)
		}
		out = append(out, p)
	}
	return out
}

// items compiles the items of a parameter that is written as a list.
func items(d *dsl.Decoder, n *dsl.Node) *expr.Template {
	const rule = "an item of a parameter is a string, a number, a bool or null"
	parts := make([]*expr.Template, len(n.Items))
	for i, item := range n.Items {
		if parts[i] = d.Typed(item, dsl.InRequest, expr.KindScalar|expr.KindNull, rule); item.Form != dsl.Scalar && !d.Stored() {
			d.Fail(item, "wrong_type", rule)
		}
	}
	return expr.List(parts)
}

// constantType returns the media type of the body; "" if it is not constant.
func (b *Body) constantType() string {
	for _, h := range b.headers {
		if !strings.EqualFold(h.name, "Content-Type") || h.value == nil {
			continue
		}
		if !h.value.IsConst() {
			return ""
		}
		text, _ := h.value.Text(expr.MapEnv{})
		return httptext.MediaType(text)
	}
	return httptext.JSON
}

func hasSecret(t *expr.Template) bool {
	return slices.ContainsFunc(t.Refs(), func(r expr.Ref) bool { return r.Root == "secrets" })
}

func (b *Body) checkHeaders(d *dsl.Decoder) {
	seen := map[string]bool{}
	n := d.Get("headers")
	for _, h := range b.headers {
		low := strings.ToLower(h.name)
		at := n
		for _, e := range n.Entries {
			if e.Name() == h.name {
				at = e.Key
			}
		}
		switch {
		case !httptext.IsToken(h.name):
			d.Fail(at, "bad_header", "%q is no name for a header: letters, digits and - only", h.name)
		case !httptext.Settable(low):
			d.Fail(at, "bad_header", "the header %s is set by the client itself: remove it", h.name)
		case seen[low]:
			d.Fail(at, "bad_header", "the header %s is set twice: header names do not differ by case", h.name)
		}
		if v := n.Get(h.name); v != nil && v.IsNull() {
			d.Expect(v, "a header's value as text")
		}
		seen[low] = true
	}
}

// auth reads a token, {bearer: token}, {basic: {user, password}} or {header: name, value: text}.
func auth(d *dsl.Decoder, n *dsl.Node) *credential {
	if n.Form == dsl.Scalar {
		return &credential{name: "Authorization", prefix: "Bearer ", value: d.Text(n, 0, dsl.Sealed)}
	}
	if !d.Known(n, "auth", "bearer", "basic", "header", "value") {
		return nil
	}
	basic := n.Get("basic")
	if basic != nil && len(n.Entries) == 1 {
		return basicAuth(d, basic)
	}
	bearer, header, value := n.Get("bearer"), n.Get("header"), n.Get("value")
	switch {
	case basic != nil: // with another key
	case bearer != nil && header == nil && value == nil:
		return &credential{name: "Authorization", prefix: "Bearer ", value: d.Text(bearer, 0, dsl.Sealed)}
	case bearer == nil && header != nil && value != nil:
		name, ok := d.Str(header, "a header's name")
		if ok && (!httptext.Settable(name)) {
			d.Fail(header, "bad_header", "%q cannot be a header of a request", name)
		}
		return &credential{name: name, value: d.Text(value, 0, dsl.Sealed)}
	}
	d.Fail(n, "bad_auth", "auth is a token, {bearer: token}, {basic: {user, password}}, or {header: name, value: text}")
	return nil
}

// basicAuth reads {user, password} (RFC 7617). A missing password is empty.
func basicAuth(d *dsl.Decoder, n *dsl.Node) *credential {
	whole := d.Known(n, "basic", "user", "password")
	user := n.Get("user")
	switch {
	case n.Form != dsl.Map || !whole:
		return nil
	case user == nil:
		d.Fail(n, "bad_auth", "basic is {user, password}; the password may be left out")
		return nil
	}
	c := &credential{name: "Authorization", basic: true, user: d.Text(user, 0, dsl.Sealed)}
	if password := n.Get("password"); password != nil {
		c.value = d.Text(password, 0, dsl.Sealed)
	}
	return c
}

func (b *Body) checkAuth(d *dsl.Decoder, n *dsl.Node) {
	if b.auth == nil {
		return
	}
	for _, h := range b.headers {
		if strings.EqualFold(h.name, b.auth.name) {
			d.Fail(n, "bad_auth", "auth and headers both set %s: keep one", b.auth.name)
		}
	}
}
