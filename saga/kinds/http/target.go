package http

import (
	"slices"
	"strings"

	"recourse/internal/httptext"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// target reads `METHOD url`.
func (b *Body) target(d *dsl.Decoder) {
	n := d.Own()
	if !n.IsText() {
		d.Expect(n, `"METHOD url", such as "POST https://pay.example/charges"`)
		return
	}
	method, rest, ok := strings.Cut(n.Text(), " ")
	url := strings.TrimLeft(rest, " ")
	base := len(n.Text()) - len(url)
	switch {
	case !ok || url == "":
		d.Fail(n, "bad_request", `expected "METHOD url", such as "POST https://pay.example/charges"`)
		return
	case !slices.Contains(methods, method):
		hint := dsl.Suggest(method, methods)
		d.Fail(n, "bad_method", "%q is no method: use GET, HEAD, POST, PUT, PATCH or DELETE%s", clipped(method), hint)
		return
	}
	b.method = method
	b.url = d.Text(n, base, dsl.InRequest)
	if b.url != nil {
		b.host(d, n, base, url)
	}
}

func clipped(s string) string { return httptext.Clip(s, 40) }

// host refuses requests whose host data could change: everything before the path must come from
// literal text and vars.
func (b *Body) host(d *dsl.Decoder, n *dsl.Node, base int, url string) {
	parts := b.url.Parts()
	if len(parts) == 0 {
		if strings.Contains(url, "${") {
			return // the errors of its expressions are reported already
		}
		parts = []expr.Part{{Text: url}}
	}
	b.fixed, b.places = fixed(parts), places(parts)
	begin := ""
	if parts[0].Program == nil {
		begin = parts[0].Text
		if !strings.HasPrefix(begin, "http://") && !strings.HasPrefix(begin, "https://") {
			d.FailInside(n, base, "url_scheme", "a URL begins with https://, http:// or a variable that does (${vars.pay})")
			return
		}
	}
	authority, data := before(parts, strings.Index(begin, "://"))
	switch {
	case begin == "" && len(parts) > 1 && (strings.HasPrefix(parts[1].Text, "//") || strings.HasPrefix(parts[1].Text, ":/")):
		d.FailInside(n, base, "url_scheme", "a variable that a URL begins with holds the scheme and the host together (https://pay.example)")
	case data != nil:
		at := base + max(strings.Index(url, data.Source()), 0)
		d.FailInside(n, at, "host_not_fixed", "the scheme, host and port come from the text itself or from vars, not from %q: data could send the request anywhere; put a / before it if it belongs to the path", clipped(strings.TrimSpace(data.Source())))
	case strings.Contains(authority, "@"):
		d.FailInside(n, base, "url_userinfo", "a URL has no user and password here: use auth with a secret")
	case strings.HasSuffix(authority, "://"):
		d.FailInside(n, base, "url_host", "the URL has no host")
	}
	path, query := written(parts)
	b.inURL = names(query)
	if hasDots(path) {
		d.FailInside(n, base, "bad_url", "a URL to send has no . or .. in its path: write the path that is meant")
	}
	for _, p := range parts {
		if strings.ContainsAny(p.Text, " \t\r\n") {
			d.FailInside(n, base, "bad_url", "a URL has no spaces: write %%20")
		} else if strings.Contains(p.Text, "#") {
			d.FailInside(n, base, "bad_url", "a URL to send has no fragment (#…): remove it, or write %%23")
		}
	}
	_, b.origin, _ = strings.Cut(authority, "://")
	if b.origin == "" {
		b.origin = authority
	}
}

// written returns the path and the query of a URL with a sample text for each expression.
func written(parts []expr.Part) (path, query string) {
	var b strings.Builder
	for _, p := range parts {
		if b.WriteString(p.Text); p.Program != nil {
			b.WriteString("x")
		}
	}
	path, query, _ = strings.Cut(b.String(), "?")
	return path, query
}

// fixed returns the parts before the first that reads data; nil if none does.
func fixed(parts []expr.Part) []expr.Part {
	for i, p := range parts {
		if p.Program != nil && !onlyVars(p.Program) {
			return parts[:i]
		}
	}
	return nil
}

// before returns the text before the path as written, and the first program in it that reads
// anything but vars.
func before(parts []expr.Part, scheme int) (authority string, data *expr.Program) {
	var b strings.Builder
	for i, p := range parts {
		if p.Program != nil {
			if !onlyVars(p.Program) {
				return b.String(), p.Program
			}
			b.WriteString("${" + strings.TrimSpace(p.Program.Source()) + "}")
			continue
		}
		skip := 0
		if i == 0 && scheme >= 0 {
			skip = scheme + len("://")
		}
		if end := strings.IndexAny(p.Text[skip:], "/?#"); end >= 0 {
			b.WriteString(p.Text[:skip+end])
			return b.String(), nil
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

func onlyVars(p *expr.Program) bool {
	refs := p.Refs()
	for _, r := range refs {
		if r.Root != "vars" {
			return false
		}
	}
	return len(refs) > 0
}
