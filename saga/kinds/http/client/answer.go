package client

import (
	"context"
	"net/http"
	"unicode/utf8"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/retry"
	"recourse/saga"
)

const maxErrorBody = 64 << 10 // for a non-2xx body that is too large or broken

// answer reads a complete response and closes it.
func (c *Caller) answer(ctx context.Context, o *outgoing, resp *http.Response) saga.Answer {
	defer resp.Body.Close()
	a := saga.Answer{Sent: true, Status: resp.StatusCode, Headers: httptext.KeptHeaders(resp.Header, o.redact),
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), c.cfg.Now())}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		a.Code, a.Detail = egress.CodeConnection, o.shown+": the remote service switched to another protocol"
		return a
	}
	success := resp.StatusCode >= 200 && resp.StatusCode <= 299
	var code, why string
	body, f := egress.ReadBody(ctx, resp, c.cfg.MaxBody)
	if f != nil {
		code, why = f.Code, f.Why
	} else {
		a.Body, code, why = httptext.EncodeBody(resp.Header.Get("Content-Type"), body, o.redact)
	}
	switch {
	case code == "":
	case success:
		a.Code, a.Detail = code, o.shown+": "+why
	default: // the status is enough; the body is for people
		a.Body = httptext.EncodeText(prefix([]byte(o.redact.Part(string(body))), maxErrorBody), nil)
	}
	return a
}

// prefix returns the start of a body, without cutting a character.
func prefix(body []byte, n int) []byte {
	if len(body) <= n {
		return body
	}
	for cut := n; cut > n-utf8.UTFMax; cut-- {
		if utf8.RuneStart(body[cut]) {
			return body[:cut]
		}
	}
	return body[:n]
}
