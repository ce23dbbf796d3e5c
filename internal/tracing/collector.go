package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/retry"
)

// collector sends spans to an OpenTelemetry collector, over HTTP with Protobuf
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp). It implements otlptrace.Client.
// OpenTelemetry's own client, otlptracehttp, would add gRPC to the program: decision 14.
type collector struct {
	sender  *egress.Sender
	url     *url.URL
	header  http.Header
	gzip    bool
	timeout time.Duration // for one export
}

const (
	exportTimeout = 10 * time.Second // OpenTelemetry's default
	maxReply      = 64 << 10         // of a collector's response
)

// newCollector reads the variables OTEL_EXPORTER_OTLP_*. Those with TRACES in their name win.
func newCollector(endpoint string, env map[string]string) (*collector, error) {
	get := func(name string) (key, value string) {
		if key = "OTEL_EXPORTER_OTLP_TRACES_" + name; env[key] == "" {
			key = "OTEL_EXPORTER_OTLP_" + name
		}
		return key, env[key]
	}
	c := &collector{header: http.Header{}, timeout: exportTimeout}
	var err error
	if c.url, err = tracesURL(endpoint, env); err != nil {
		return nil, err
	}
	if key, list := get("HEADERS"); list != "" {
		if err := addHeaders(c.header, list); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if key, text := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s is a number of milliseconds, such as 10000, not %q", key, text)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	_, compression := get("COMPRESSION")
	c.gzip = compression == "gzip"
	secure, err := tlsConfig(get)
	if err != nil {
		return nil, err
	}
	if secure != nil && c.url.Scheme == "http" {
		return nil, errors.New("certificates need an https endpoint: change the endpoint, or remove OTEL_EXPORTER_OTLP_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
	}
	// The operator chose the address, so the guard of steps does not apply.
	c.sender = egress.New(egress.Config{Guard: egress.AllowAll(), TLS: secure, IdleTimeout: time.Minute})
	return c, nil
}

// tracesURL returns where spans go: below endpoint or OTEL_EXPORTER_OTLP_ENDPOINT, or exactly where
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says.
func tracesURL(endpoint string, env map[string]string) (*url.URL, error) {
	exact := env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
	if endpoint != "" {
		exact = ""
	} else if exact == "" {
		endpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"]
	}
	u, err := url.Parse(endpoint + exact)
	if err != nil || egress.CheckURL(u) != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the endpoint is an http or https URL, such as http://127.0.0.1:4318; a password goes into OTEL_EXPORTER_OTLP_HEADERS")
	}
	if exact == "" {
		u.Path = "/" + strings.TrimLeft(u.Path, "/") // JoinPath leaves the path of a bare host relative
		u = u.JoinPath("v1", "traces")
	}
	return u, nil
}

// addHeaders reads a list such as a=1,b=x%20y.
func addHeaders(h http.Header, list string) error {
	for i, part := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || !httptext.Settable(name) || httptext.HasControl(value) || err != nil {
			return fmt.Errorf("entry %d is not name=value with a percent-encoded value", i+1) // it may be a secret
		}
		h.Set(name, value)
	}
	return nil
}

// tlsConfig returns nil if no variable names a certificate.
func tlsConfig(get func(string) (key, value string)) (*tls.Config, error) {
	c := tls.Config{MinVersion: tls.VersionTLS12}
	if key, file := get("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no PEM certificate", key, file)
		}
	}
	key, certificate := get("CLIENT_CERTIFICATE")
	if _, private := get("CLIENT_KEY"); certificate != "" || private != "" {
		pair, err := tls.LoadX509KeyPair(certificate, private)
		if err != nil {
			return nil, fmt.Errorf("%s and its CLIENT_KEY: %w", key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil, nil
	}
	return &c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.sender.Close()
	return nil
}

// retryLater is the error of an export that the collector wants again, not before after.
type retryLater struct {
	error
	after time.Duration
}

// UploadTraces implements otlptrace.Client. It sends once.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// TracesData is ExportTraceServiceRequest on the wire: the only field of both is
	// resource_spans = 1.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	header := c.header.Clone()
	header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		header.Set("Content-Encoding", "gzip")
		if body, err = compressed(body); err != nil {
			return fmt.Errorf("compress spans: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, f := c.sender.Send(ctx, egress.Request{Method: http.MethodPost, URL: c.url, Header: header, Body: body})
	if f != nil {
		return f
	}
	defer resp.Body.Close()
	reply, f := egress.ReadBody(ctx, resp, maxReply)
	if f != nil && f.Code != egress.CodeBodyTooLarge {
		return errors.New("the collector's response could not be read: " + f.Why) // the spans may have been accepted
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryLater{c.refusal(resp, reply), retry.After(resp.Header.Get("Retry-After"), time.Now())}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.refusal(resp, reply)
	}
	if resp.Header.Get("Content-Type") == "application/x-protobuf" {
		return partialSuccess(reply)
	}
	return nil
}

func compressed(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c *collector) refusal(resp *http.Response, reply []byte) error {
	return fmt.Errorf("the collector at %s responded %s: %.500q", c.url.Host, resp.Status, reply)
}

// partly is the error of an export that the collector has accepted in part, or with a warning. It
// does not want the spans again.
type partly struct {
	rejected uint64 // spans; 0: it has accepted all of them, and the message is a warning
	message  []byte
}

func (p partly) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %.500q", p.rejected, p.message)
}

// partialSuccess returns a partly if an ExportTraceServiceResponse (partial_success = 1) says that
// spans were rejected (rejected_spans = 1, error_message = 2), or has a warning.
func partialSuccess(reply []byte) error {
	var rejected uint64
	var message []byte
	for partial := field(reply, 1); len(partial) > 0; {
		number, kind, n := protowire.ConsumeTag(partial)
		if n < 0 {
			return nil
		}
		switch partial = partial[n:]; {
		case number == 1 && kind == protowire.VarintType:
			rejected, n = protowire.ConsumeVarint(partial)
		case number == 2 && kind == protowire.BytesType:
			message, n = protowire.ConsumeBytes(partial)
		default:
			n = protowire.ConsumeFieldValue(number, kind, partial)
		}
		if n < 0 {
			return nil
		}
		partial = partial[n:]
	}
	if rejected == 0 && len(message) == 0 {
		return nil
	}
	return partly{rejected, message}
}

// field returns the bytes of a field of a message, nil if it has none.
func field(message []byte, want protowire.Number) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if number == want && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
