package http

import (
	"encoding/json"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// Request implements saga.Call. Secrets stay references; an error is a
// *saga.Failure or an *expr.EvalError and means that nothing can be sent.
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

// Once asks an environment for each root a single time, however many templates a request has.
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

// Root implements expr.Env.
func (o *once) Root(name string) (any, bool) {
	for _, r := range o.roots { // a few
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

// address renders the URL and appends the query.
func (b *Body) address(env expr.Env) (string, error) {
	sealed, err := b.url.SealedText(env)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(sealed, "$${", "${")
	if err := b.check(text, env); err != nil {
		return "", err
	}
	params, err := b.parameters(env)
	if err != nil || len(params) == 0 {
		return sealed, err
	}
	sep := "?"
	if strings.Contains(sealed, "?") {
		sep = "&"
	}
	return sealed + sep + strings.Join(params, "&"), nil
}

// check refuses what data or variables could have made of a URL. Most URLs of a step are the same.
func (b *Body) check(text string, env expr.Env) error {
	if last := b.checked.Load(); last != nil && *last == text {
		return nil
	}
	if err := checkAddress(text); err != nil {
		return err
	}
	if err := b.checkHost(text, env); err != nil {
		return err
	}
	if b.fixed == nil { // else it is the variables as well that make it right
		b.checked.Store(&text)
	}
	return nil
}

// checkAddress refuses what data could have made of a URL. Its details do not show
// the data.
func checkAddress(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return unsendable("the URL has a space, a backslash or a control character in it: urlencode() what may have some")
	}
	if strings.Contains(text, "#") {
		return unsendable("the URL has a # in it: urlencode() what may have one")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" {
		return unsendable("the URL is not an http or https URL with a host: look at the variable it begins with")
	}
	if u.User != nil {
		return unsendable("the URL has a user in it: use auth with a secret")
	}
	for _, segment := range strings.Split(u.Path, "/") {
		if segment == "." || segment == ".." {
			return unsendable("the URL's path has a . or .. segment, which would lead to another path: urlencode() does not help, refuse such data before")
		}
	}
	return nil
}

// checkHost holds the rule of host_not_fixed once more when the variables have
// their values: a variable such as "https:/" would let data name the host.
func (b *Body) checkHost(text string, env expr.Env) error {
	if b.fixed == nil {
		return nil
	}
	var begin strings.Builder
	for _, p := range b.fixed {
		if p.Program == nil {
			begin.WriteString(p.Text)
			continue
		}
		v, err := p.Program.Eval(env)
		if err != nil {
			return err
		}
		fmt.Fprint(&begin, v)
	}
	want, err := url.Parse(begin.String())
	got, err2 := url.Parse(text)
	if err != nil || err2 != nil || want.Host == "" || want.Host != got.Host || want.Scheme != got.Scheme {
		return unsendable("the URL's host is not the one that its variables name: give the variable a whole origin, such as https://pay.example")
	}
	return nil
}

func (b *Body) parameters(env expr.Env) ([]string, error) {
	var out []string
	for _, q := range b.query {
		name := percentEncode(q.name)
		if q.sealed {
			text, err := q.value.SealedText(env)
			if err != nil {
				return nil, err
			}
			out = append(out, name+"="+encodeSealed(text))
			continue
		}
		values, err := scalars(q, env)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			out = append(out, name+"="+percentEncode(v))
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
		if hasControl(text) {
			return unsendable("the header %s has a line break or a control character in its value", h.name)
		}
		headers[textproto.CanonicalMIMEHeaderKey(h.name)] = text
	}
	if b.auth == nil {
		return nil
	}
	text, err := b.auth.value.SealedText(env)
	if err != nil {
		return err
	}
	if hasControl(text) {
		return unsendable("auth has a line break or a control character in its value")
	}
	headers[textproto.CanonicalMIMEHeaderKey(b.auth.name)] = b.auth.prefix + text
	return nil
}
