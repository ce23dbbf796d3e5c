package http

import (
	"context"
	nethttp "net/http"
	"slices"

	"recourse/internal/httptext"
	"recourse/saga"
)

// carriedOver are the headers that are sent to another origin after a redirect. They are harmless
// unless they contain a secret; any other header may be a credential.
var carriedOver = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}

// follow turns a response into an answer, after following the redirects of a GET or HEAD without a
// body. If a redirect is not followed, it is the answer.
func (c *Caller) follow(ctx context.Context, o *outgoing, resp *nethttp.Response) saga.Answer {
	for hop := 0; ; hop++ {
		location := resp.Header.Get("Location")
		if !o.follows() || !isRedirect(resp.StatusCode) || location == "" {
			return c.answer(ctx, o, resp)
		}
		if hop == maxRedirects {
			return c.astray(ctx, o, resp, "more than 10 redirects")
		}
		next, err := o.redirected(location, c.cfg.UserAgent)
		if err != nil {
			return c.astray(ctx, o, resp, "the redirect's Location cannot be followed: it must be an http or https URL without a user")
		}
		resp.Body.Close()
		after, a := c.send(ctx, next)
		switch {
		case after != nil:
			o, resp = next, after
			continue
		case a.Code == "egress_denied":
			return c.astray(ctx, o, resp, a.Detail)
		}
		a.Sent = true // an earlier request was sent
		return a
	}
}

func isRedirect(status int) bool {
	switch status {
	case nethttp.StatusMovedPermanently, nethttp.StatusFound, nethttp.StatusSeeOther,
		nethttp.StatusTemporaryRedirect, nethttp.StatusPermanentRedirect:
		return true
	}
	return false
}

func (o *outgoing) follows() bool {
	return (o.method == nethttp.MethodGet || o.method == nethttp.MethodHead) && len(o.body) == 0
}

// redirected returns the request to the redirect's target. Headers are kept within the origin
// (scheme, host and port) that the definition names.
func (o *outgoing) redirected(location, agent string) (*outgoing, error) {
	ref, err := o.url.Parse(location)
	if err != nil {
		return nil, err
	}
	if err := checkURL(ref); err != nil {
		return nil, err
	}
	next := *o
	next.url = ref
	next.shown = httptext.Clip(o.redact.Text(httptext.Printable(o.method+" "+ref.Host+ref.Path)), 200)
	if ref.Scheme != o.url.Scheme || hostName(ref.Host) != hostName(o.url.Host) {
		next.header = nethttp.Header{"User-Agent": {agent}}
		for name, values := range o.header {
			if slices.Contains(carriedOver, name) && !slices.Contains(o.secret, name) {
				next.header[name] = values
			}
		}
	}
	return &next, nil
}

// astray returns the answer for a redirect that could not be followed.
func (c *Caller) astray(ctx context.Context, o *outgoing, resp *nethttp.Response, why string) saga.Answer {
	a := c.answer(ctx, o, resp)
	a.Code, a.Detail = "redirect", o.shown+": "+why
	return a
}
