package http

import (
	"encoding/json"
	"fmt"
	"net/textproto"
	"strings"

	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/expr"
)

// Request implements saga.Call. Secrets stay references. An error is a *saga.Failure or an
// *expr.EvalError and means that nothing can be sent.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	env = Once(env)
	r := saga.Request{Method: b.method, Headers: map[string]string{"Accept": "application/json"}}
	var err error
	if r.URL, err = b.address(env); err != nil {
		return saga.Request{}, err
	}
	if err := b.setHeaders(r.Headers, env); err != nil {
		return saga.Request{}, err
	}
	if r.Body, err = b.content(r.Headers, env); err != nil {
		return saga.Request{}, err
	}
	return r, nil
}

// Once returns an environment that reads each root of env only once, however many templates a
// request has.
func Once(env expr.Env) expr.Env { return &once{env: env} }

type once struct {
	env   expr.Env
	roots []rootValue
}

type rootValue struct {
	name  string
	value any
	ok    bool
}

// Partial implements expr.Partial.
func (o *once) Partial() bool { return expr.IsPartial(o.env) }

// Root implements expr.Env.
func (o *once) Root(name string) (any, bool) {
	for _, r := range o.roots { // there are only a few
		if r.name == name {
			return r.value, r.ok
		}
	}
	v, ok := o.env.Root(name)
	o.roots = append(o.roots, rootValue{name, v, ok})
	return v, ok
}

func unsendable(format string, args ...any) error {
	return &saga.Failure{Code: "bad_request", Title: "the request cannot be sent", Detail: fmt.Sprintf(format, args...)}
}

// encoderIn returns the percent-encoding of a request's text. In a plan it leaves placeholders
// readable.
func encoderIn(env expr.Env) func(string) string {
	if !expr.IsPartial(env) {
		return httptext.PercentEncode
	}
	return func(text string) string { return expr.EncodeKnown(text, httptext.PercentEncode) }
}

func (b *Body) parameters(env expr.Env) ([]string, error) {
	var out []string
	for _, q := range b.query {
		name, encode := httptext.PercentEncode(q.name), encoderIn(env)
		if q.sealed {
			text, err := q.value.SealedText(env)
			if err != nil {
				return nil, err
			}
			out = append(out, name+"="+encodeSealed(text, encode))
			continue
		}
		values, err := scalars(q, env)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			out = append(out, name+"="+encode(v))
		}
	}
	return out, nil
}

// scalars renders a parameter: a scalar once, a list once for each item, null not at all.
func scalars(q pair, env expr.Env) ([]string, error) {
	v, err := q.value.Value(env)
	if err != nil {
		return nil, err
	}
	items, list := v.([]any)
	if !list {
		items = []any{v}
	}
	var out []string
	for _, item := range items {
		switch one := item.(type) {
		case nil:
		case string:
			out = append(out, one)
		case bool:
			out = append(out, fmt.Sprint(one))
		case json.Number:
			out = append(out, one.String())
		default:
			return nil, unsendable("the parameter %q is an object or a list within a list: use json()", q.name)
		}
	}
	return out, nil
}

func (b *Body) setHeaders(headers map[string]string, env expr.Env) error {
	for _, h := range b.headers {
		text, err := h.value.SealedText(env)
		if err != nil {
			return err
		}
		if httptext.HasControl(text) {
			return unsendable("the header %s has a line break or a control character in its value", h.name)
		}
		headers[textproto.CanonicalMIMEHeaderKey(h.name)] = text
	}
	if b.auth == nil {
		return nil
	}
	text, err := b.auth.text(env)
	if err != nil {
		return err
	}
	if httptext.HasControl(text) {
		return unsendable("auth has a line break or a control character in its value")
	}
	headers[textproto.CanonicalMIMEHeaderKey(b.auth.name)] = b.auth.prefix + text
	return nil
}

// text renders the header's value after the prefix.
func (c *credential) text(env expr.Env) (string, error) {
	if !c.basic {
		return c.value.SealedText(env)
	}
	user, err := c.user.SealedText(env)
	if err != nil {
		return "", err
	}
	if strings.Contains(user, ":") {
		return "", unsendable("the user of auth's basic has a colon, which RFC 7617 does not allow")
	}
	password := ""
	if c.value != nil {
		if password, err = c.value.SealedText(env); err != nil {
			return "", err
		}
	}
	return BasicOpen + user + ":" + password + BasicClose, nil
}

// The value of a header with basic credentials is Basic base64(user:password) in a request, so that
// a journal shows which secrets they contain. The client encodes the user and the password after it
// has inserted the secrets.
const (
	BasicOpen  = "Basic base64("
	BasicClose = ")"
)
