package http

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"strings"
	"unicode/utf8"

	"recourse/internal/httptext"
	"recourse/internal/quota"
	"recourse/retry"
	"recourse/saga"
)

const maxErrorBody = 64 << 10 // for a non-2xx body that is too large or broken

// answer reads a complete response and closes it.
func (c *Caller) answer(ctx context.Context, o *outgoing, resp *nethttp.Response) saga.Answer {
	defer resp.Body.Close()
	a := saga.Answer{Sent: true, Status: resp.StatusCode, Headers: httptext.KeptHeaders(resp.Header, o.redact),
		RetryAfter: retry.After(resp.Header.Get("Retry-After"), c.cfg.Now())}
	if resp.StatusCode == nethttp.StatusSwitchingProtocols {
		a.Code, a.Detail = "connection", o.shown+": the remote service switched to another protocol"
		return a
	}
	success := resp.StatusCode >= 200 && resp.StatusCode <= 299
	body, code, why := c.read(ctx, resp)
	if code == "" {
		a.Body, code, why = httptext.EncodeBody(resp.Header.Get("Content-Type"), body, o.redact)
	}
	switch {
	case code == "":
	case success:
		a.Code, a.Detail = code, o.shown+": "+why
	default: // the status is enough; the body is for people
		a.Body = httptext.EncodeText(prefix([]byte(o.redact.Text(string(body))), maxErrorBody), o.redact)
	}
	return a
}

// read returns the decompressed body, at most MaxBody bytes, and a code if it is incomplete.
func (c *Caller) read(ctx context.Context, resp *nethttp.Response) (body []byte, code, why string) {
	limit := c.cfg.MaxBody
	// gzip can be slightly longer than its content. Without this limit, empty members could be sent
	// forever.
	raw := &boundedReader{r: resp.Body, left: limit + maxErrorBody}
	var r io.Reader = raw
	expected := resp.ContentLength
	if enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc == "gzip" || enc == "x-gzip" {
		r, expected = &gunzip{raw: raw}, -1
	} else if enc != "" && enc != "identity" {
		return nil, "body_invalid", "the body is encoded as " + httptext.Printable(enc) + ", which is not understood: only gzip is asked for"
	}
	body, err := quota.ReadAll(ctx, r, limit, expected)
	switch {
	case int64(len(body)) > limit || errors.Is(err, errTooMuch):
		return body[:min(int64(len(body)), limit)], "body_too_large", "the body is larger than the limit"
	case err == nil:
		return body, "", ""
	}
	if code, why := ended(ctx, true); code != "" {
		return body, code, why
	}
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return body, "body_invalid", "the body is not valid gzip"
	}
	return body, "body_cut", "the body ended early: " + root(err)
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

// gunzip decompresses. Unlike gzip.Reader, it accepts an empty body.
type gunzip struct {
	raw io.Reader
	z   *gzip.Reader
}

// Read implements io.Reader.
func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.raw)
		if err != nil {
			return 0, err // io.EOF: the body is empty
		}
		g.z = z
	}
	return g.z.Read(p)
}

var errTooMuch = errors.New("over the limit")

// boundedReader fails with errTooMuch at its limit; io.LimitedReader would end.
type boundedReader struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
