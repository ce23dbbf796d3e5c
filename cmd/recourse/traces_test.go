package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"recourse/internal/cli"
)

// collecting counts spans by name.
type collecting struct {
	*httptest.Server
	mu    sync.Mutex
	names map[string]int
}

func newCollecting(t *testing.T) *collecting {
	c := &collecting{names: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m otlp.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
			t.Errorf("%s is no export: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.names[s.Name]++
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// is compares the received spans.
func (c *collecting) is(t *testing.T, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range want {
		if c.names[name] != n {
			t.Errorf("%d spans %s, want %d; there are %v", c.names[name], name, n, c.names)
		}
	}
	if len(want) != len(c.names) {
		t.Errorf("spans %v, want %v", c.names, want)
	}
	c.names = map[string]int{}
}

// The collector has all spans of a program when the program has ended. Egress rules do not apply to
// the collector.
func TestTraces(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	c := newCollecting(t)
	def := file(t, "hello.yaml", hello)
	input := `{"n":1,"city":"LIS"}`
	whole := map[string]int{"hello": 1, "book": 1, "POST": 1}
	ok(t, vars, "run", def, "-i", input, "--otlp-endpoint", c.URL)
	c.is(t, whole)
	ok(t, append(vars, "RECOURSE_OTLP_ENDPOINT="+c.URL), "run", def, "-i", input)
	c.is(t, whole)
	ok(t, append(vars, "OTEL_SDK_DISABLED=true"), "run", def, "-i", input, "--otlp-endpoint", c.URL)
	ok(t, vars, "run", def, "-i", input)
	c.is(t, map[string]int{})

	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"), "--otlp-endpoint", c.URL, "--trace-url", "https://jaeger.example/trace/{trace_id}")
	ok(t, s.env, "definitions", "apply", def)
	ok(t, s.env, "start", "hello", "-i", input, "--wait", "20s")
	if code := s.stop(); code != cli.OK {
		t.Errorf("exit %d:\n%s", code, s.log)
	}
	c.is(t, whole)
}

func TestTracesRefused(t *testing.T) {
	t.Parallel()
	def := file(t, "hello.yaml", hello)
	for _, tt := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"run", def, "--otlp-endpoint", "127.0.0.1:4318"}, "http://127.0.0.1:4318"},
		{nil, []string{"serve", "--trace-url", "https://jaeger.example"}, "{trace_id}"},
		{nil, []string{"serve", "--trace-url", "javascript:{trace_id}"}, "http"},
		{[]string{"OTEL_TRACES_SAMPLER=half"}, []string{"run", def, "--otlp-endpoint", "http://127.0.0.1:1"}, "parentbased_"},
	} {
		if r := run(t, append(tt.env, "RECOURSE_VAR_air=http://127.0.0.1:1"), tt.args...); r.code != cli.Usage || !strings.Contains(r.errOut, tt.want) {
			t.Errorf("%v: exit %d: %s", tt.args, r.code, r.errOut)
		}
	}
}
