package client

import (
	"context"
	"net/http"
	"slices"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/saga"
)

// carriedOver are the headers that are sent to another origin after a redirect. They are harmless
// unless they contain a secret; any other header may be a credential.
var carriedOver = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}

// follow turns a response into an answer, after following the redirects of a GET or HEAD without a
// body. If a redirect is not followed, it is the answer.
func (c *Caller) follow(ctx context.Context, o *outgoing, resp *http.Response) saga.Answer {
	for hop := 0; ; hop++ {
		location := resp.Header.Get("Location")
		if !o.follows() || !isRedirect(resp.StatusCode) || location == "" {
			return c.answer(ctx, o, resp)
		}
		if hop == maxRedirects {
			return c.astray(ctx, o, resp, "more than 10 redirects")
		}
		next, err := o.redirected(location)
		if err != nil {
			return c.astray(ctx, o, resp, "the redirect's Location cannot be followed: it must be an http or https URL without a user")
		}
		resp.Body.Close()
		after, f := c.sender.Send(ctx, next.Request)
		switch {
		case f == nil:
			o, resp = next, after
			continue
		case f.Code == egress.CodeDenied:
			return c.astray(ctx, o, resp, next.failed(f).Detail)
		}
		f.Sent = true // an earlier request was sent
		return next.failed(f)
	}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func (o *outgoing) follows() bool {
	return (o.Method == http.MethodGet || o.Method == http.MethodHead) && len(o.Body) == 0
}

// redirected returns the request to the redirect's target. Headers are kept within the origin
// (scheme, host and port) that the definition names.
func (o *outgoing) redirected(location string) (*outgoing, error) {
	ref, err := o.URL.Parse(location)
	if err != nil {
		return nil, err
	}
	if f := egress.CheckURL(ref); f != nil {
		return nil, f
	}
	next := *o
	next.URL = ref
	next.shown = httptext.Clip(o.redact.Text(httptext.Printable(o.Method+" "+ref.Host+ref.Path)), 200)
	if !egress.SameOrigin(ref, o.URL) {
		next.Header = make(http.Header, len(carriedOver))
		for name, values := range o.Header {
			if slices.Contains(carriedOver, name) && !slices.Contains(o.secret, name) {
				next.Header[name] = values
			}
		}
	}
	return &next, nil
}

// astray returns the answer for a redirect that could not be followed.
func (c *Caller) astray(ctx context.Context, o *outgoing, resp *http.Response, why string) saga.Answer {
	a := c.answer(ctx, o, resp)
	a.Code, a.Detail = "redirect", o.shown+": "+why
	return a
}
