package egress

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"recourse/internal/httptext"
	"recourse/internal/quota"
)

// overhead is by how many bytes a compressed body may be longer than its content. Without this
// limit, empty gzip members could be sent forever.
const overhead = 64 << 10

// ReadBody reads a response's body to its end, and decompresses it if it is gzip. If it is longer
// than limit, or cannot be read completely, the failure says so, and body is its beginning, of at
// most limit bytes. The bytes are charged to the account in ctx (see package quota). The caller
// closes the body.
func ReadBody(ctx context.Context, resp *http.Response, limit int64) (body []byte, f *Failure) {
	raw := &boundedReader{r: resp.Body, left: limit + overhead}
	var r io.Reader = raw
	expected := resp.ContentLength
	if enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc == "gzip" || enc == "x-gzip" {
		r, expected = &gunzip{raw: raw}, -1
	} else if enc != "" && enc != "identity" {
		return nil, &Failure{Sent: true, Code: CodeBodyInvalid, Why: "the body is encoded as " + httptext.Printable(enc) + ", which is not understood: only gzip is asked for"}
	}
	body, err := quota.ReadAll(ctx, r, limit, expected)
	switch {
	case int64(len(body)) > limit || errors.Is(err, errTooMuch):
		return body[:min(int64(len(body)), limit)], &Failure{Sent: true, Code: CodeBodyTooLarge, Why: "the body is larger than the limit"}
	case err == nil:
		return body, nil
	}
	return body, BodyFailure(ctx, err)
}

// BodyFailure describes an error of reading a response's body: its code is timeout, interrupted,
// body_invalid or body_cut.
func BodyFailure(ctx context.Context, err error) *Failure {
	if f := ended(ctx, true); f != nil {
		return f
	}
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return &Failure{Sent: true, Code: CodeBodyInvalid, Why: "the body is not valid gzip"}
	}
	return &Failure{Sent: true, Code: CodeBodyCut, Why: "the body ended early: " + root(err)}
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
