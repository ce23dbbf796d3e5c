package tracing_test

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"recourse/internal/tracing"
)

// exportOnce exports the spans of one saga, and returns the Tracer after its shutdown.
func exportOnce(t *testing.T, endpoint string, env map[string]string) *tracing.Tracer {
	t.Helper()
	export, err := tracing.Exporter(t.Context(), endpoint, env)
	if err != nil {
		t.Fatal(err)
	}
	tr := tracing.New(tracing.Config{Export: export})
	feed(tr, played(t), 0)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestCollectorVariables(t *testing.T) {
	var got atomic.Pointer[http.Request]
	var spans atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.Store(r)
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(z)
			}
		}
		var m otlp.TracesData
		if err != nil || proto.Unmarshal(body, &m) != nil {
			t.Errorf("no export: %v", err)
		}
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans.Add(int64(len(ss.Spans)))
			}
		}
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		endpoint string
		env      map[string]string
		path     string
		header   map[string]string
	}{
		{s.URL, nil, "/v1/traces", map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "", "User-Agent": "recourse"}},
		{s.URL + "/base/", map[string]string{"COMPRESSION": "gzip", "HEADERS": "authorization=Bearer%20x, b = c=d "}, "/base/v1/traces",
			map[string]string{"Content-Encoding": "gzip", "Authorization": "Bearer x", "B": "c=d"}},
		{"", map[string]string{"ENDPOINT": s.URL, "HEADERS": "a=1,b=1", "TRACES_HEADERS": "a=2", "TIMEOUT": "60000"}, "/v1/traces", map[string]string{"A": "2", "B": ""}},
		{"", map[string]string{"ENDPOINT": "http://127.0.0.1:1", "TRACES_ENDPOINT": s.URL + "/exact"}, "/exact", nil},
		{s.URL, map[string]string{"TRACES_ENDPOINT": "http://127.0.0.1:1"}, "/v1/traces", nil},
	} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": ca}
		for name, value := range tt.env {
			env["OTEL_EXPORTER_OTLP_"+name] = value
		}
		spans.Store(0)
		tr := exportOnce(t, tt.endpoint, env)
		r := got.Load()
		if r == nil || spans.Load() == 0 || tr.Dropped() != 0 {
			t.Fatalf("%v: %d spans came, %d were dropped", tt.env, spans.Load(), tr.Dropped())
		}
		if r.URL.Path != tt.path {
			t.Errorf("%v: sent to %s", tt.env, r.URL.Path)
		}
		for name, want := range tt.header {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%v: %s: %q, want %q", tt.env, name, got, want)
			}
		}
	}
	for name, value := range map[string]string{"HEADERS": "secret", "TIMEOUT": "10s", "CERTIFICATE": "/none", "CLIENT_CERTIFICATE": "/none"} {
		_, err := tracing.Exporter(t.Context(), s.URL, map[string]string{"OTEL_EXPORTER_OTLP_" + name: value})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if _, err := tracing.Exporter(t.Context(), "http://127.0.0.1:4318", map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": ca}); err == nil {
		t.Error("a certificate without TLS is accepted")
	}
}

// A collector that asks for a repetition gets one; one that refuses spans does not.
func TestCollectorReplies(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		requests int64
		dropped  bool
	}{
		{"accepted", 200, "", 1, false},
		{"unavailable once", 503, "", 2, false},
		{"bad request", 400, "no", 1, true},
		{"partial success", 200, "\x0a\x06\x08\x02\x12\x02no", 1, true},
		{"empty partial success", 200, "\x0a\x00", 1, false},
		{"garbage", 200, "\xff\xff", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int64
			done := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				if n.Add(1) == tt.requests {
					close(done)
				}
				if n.Load() == 1 {
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.body)
				}
			}))
			t.Cleanup(s.Close)
			export, err := tracing.Exporter(t.Context(), s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := played(t)
			tr := tracing.New(tracing.Config{Export: export, Batch: 1 << 20, Every: 1})
			feed(tr, p, 0)
			<-done
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if dropped := tr.Dropped() > 0; dropped != tt.dropped || !dropped && n.Load() < tt.requests {
				t.Errorf("%d requests, %d spans dropped", n.Load(), tr.Dropped())
			}
		})
	}
}

// Of a request that is accepted in part, only the rejected spans count as dropped. A warning is no
// rejection: it is logged once.
func TestPartialSuccess(t *testing.T) {
	p := played(t)
	total := int64(len(exported(t, p, nil, p.Records)))
	for _, tt := range []struct {
		name, body string
		batch      int
		dropped    int64
		logged     string
	}{
		{"two of the spans", "\x0a\x06\x08\x02\x12\x02no", 1 << 20, 2, "spans=2 "},
		{"two of the spans, no reason", "\x0a\x02\x08\x02", 1 << 20, 2, "spans=2 "},
		{"more than there are", "\x0a\x03\x08\xff\x7f", 1 << 20, total, "are dropped"},
		{"a warning for each span", "\x0a\x05\x12\x03old", 1, 0, "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				_, _ = io.WriteString(w, tt.body)
			}))
			t.Cleanup(s.Close)
			export, err := tracing.Exporter(t.Context(), s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			var logged bytes.Buffer
			tr := tracing.New(tracing.Config{Export: export, Batch: tt.batch, Every: time.Hour, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			feed(tr, p, 0)
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tr.Dropped() != tt.dropped || tr.Exported() != total-tt.dropped {
				t.Errorf("%d spans are dropped and %d exported, of %d", tr.Dropped(), tr.Exported(), total)
			}
			if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, tt.logged) {
				t.Errorf("the log has\n%s", text)
			}
		})
	}
}
