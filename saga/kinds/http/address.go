package http

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"recourse/saga/expr"
)

// place is the part of a URL in which a part of its template is, and so determines its encoding.
type place int

const (
	front place = iota // scheme, host and a prefix, from literal text and vars, inserted as they are
	inPath
	inQuery
)

// places returns the place of each part. A value never changes it: only literal text begins a path
// or a query.
func places(parts []expr.Part) []place {
	out, at := make([]place, len(parts)), front
	for i, p := range parts {
		if out[i] = at; p.Program != nil {
			continue
		}
		text := p.Text
		if at == front {
			if _, rest, ok := strings.Cut(text, "://"); ok && i == 0 {
				text = rest
			}
			end := strings.IndexAny(text, "/?")
			if end < 0 {
				continue
			}
			at, text = inPath, text[end:]
		}
		if strings.Contains(text, "?") {
			at = inQuery
		}
	}
	return out
}

// names returns the parameters of a query, as far as it can be read.
func names(query string) []string {
	values, _ := url.ParseQuery(query)
	return slices.Sorted(maps.Keys(values))
}

// address renders the URL and appends the query.
func (b *Body) address(env expr.Env) (string, error) {
	text, err := b.location(env)
	if err != nil {
		return "", err
	}
	if !expr.IsPartial(env) || !expr.HasPlaceholder(text) {
		if err := b.check(text, env); err != nil {
			return "", err
		}
	}
	sealed := expr.Seal(text)
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

// location renders the URL as written. In the path an expression is one segment, or several if it
// is path(); in the query it is one component.
func (b *Body) location(env expr.Env) (string, error) {
	if b.url.IsConst() {
		return b.url.Text(env)
	}
	pieces, err := b.url.Pieces(env)
	if err != nil {
		return "", err
	}
	encode := encoderIn(env)
	var out strings.Builder
	var data [][2]int // the ranges of data in the path
	for i, p := range pieces {
		from := out.Len()
		switch {
		case b.places[i] == front || b.url.Parts()[i].Program == nil || p.Encoded:
			out.WriteString(p.Text)
		default:
			out.WriteString(encode(p.Text))
		}
		if b.places[i] == inPath && b.url.Parts()[i].Program != nil {
			data = append(data, [2]int{from, out.Len()})
		}
	}
	text := out.String()
	if expr.IsPartial(env) && expr.HasPlaceholder(text) {
		return text, nil // it is checked when the values are known
	}
	for _, d := range data {
		if err := checkSegments(text, d[0], d[1]); err != nil {
			return "", err
		}
	}
	return text, nil
}

// checkSegments refuses data, between from and to, whose segments would lead to another route:
// empty segments, and dots that appear only after a second decoding.
func checkSegments(text string, from, to int) error {
	from = strings.LastIndexByte(text[:from], '/') + 1
	if end := strings.IndexAny(text[to:], "/?"); end >= 0 {
		to += end
	} else {
		to = len(text)
	}
	for segment := range strings.SplitSeq(text[from:to], "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil || strings.ContainsFunc(plain, unicode.IsControl) {
			return unsendable("data has put a control character into the URL's path: it can be part of the query, not of the path")
		}
		if twice, err := url.PathUnescape(plain); err == nil && hasDots(twice) {
			return errDots()
		}
		if strings.Trim(plain, `/\`) == "" {
			return unsendable("data has left a segment of the URL's path empty, which would lead to another path: check it before, with `when` or ??")
		}
	}
	return nil
}

// check refuses URLs that data or variables have made unsafe. It remembers the last URL that
// passed, because most URLs of a step are the same.
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
	if b.fixed == nil { // otherwise the result depends on the variables, too
		b.checked.Store(&text)
	}
	return nil
}

// checkAddress refuses URLs that data or variables have made unsafe. The errors do not contain the
// values.
func checkAddress(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return unsendable("the URL has a space, a backslash or a control character in it: look at the variable it begins with")
	}
	if strings.Contains(text, "#") {
		return unsendable("the URL has a # in it: look at the variable it begins with")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" {
		return unsendable("the URL is not an http or https URL with a host: look at the variable it begins with")
	}
	if u.User != nil {
		return unsendable("the URL has a user in it: use auth with a secret")
	}
	if hasDots(u.Path) {
		return errDots()
	}
	return nil
}

func errDots() error {
	return unsendable("the URL's path has a . or .. in it, which would lead to another path, encoded or not: check such data before, or send it in the query")
}

// hasDots reports whether a decoded path has a segment . or .. in it. Backslashes and encoded
// slashes count, because some servers and proxies decode them before they choose a route.
func hasDots(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// checkHost repeats the check of host_not_fixed when the variables have their values: a variable
// such as "https:/" would let data determine the host.
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
