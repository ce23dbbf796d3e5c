package tracing_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"recourse/catalog"
	"recourse/engine"
	"recourse/internal/egress"
	"recourse/internal/tracing"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds"
	httpclient "recourse/saga/kinds/http/client"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
	"recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// receiver is a collector: it accepts spans over OTLP/HTTP, and keeps them.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*otlp.Span
	resource *resource.Resource
	bodies   []byte // of all requests
}

func newReceiver(t *testing.T) *receiver {
	c := &receiver{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m otlp.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &m) != nil {
			t.Errorf("%s %s is no export: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies = append(c.bodies, body...)
		for _, rs := range m.ResourceSpans {
			c.resource = rs.Resource
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// await waits until the root span of a saga has arrived, and returns the spans of its trace.
func (c *receiver) await(t *testing.T, id uuid.UUID) []*otlp.Span {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); <-time.After(5 * time.Millisecond) {
		c.mu.Lock()
		spans := slices.Clone(c.spans)
		c.mu.Unlock()
		for _, s := range spans {
			if attr(s, "recourse.saga.id") == id.String() && attr(s, "recourse.definition") != "" {
				return slices.DeleteFunc(spans, func(o *otlp.Span) bool { return string(o.TraceId) != string(s.TraceId) })
			}
		}
	}
	t.Fatalf("the span of saga %s was never exported", id)
	return nil
}

func attr(s *otlp.Span, key string) string { return value(s.Attributes, key) }

func value(list []*common.KeyValue, key string) string {
	for _, kv := range list {
		if kv.Key == key {
			return show(kv.Value)
		}
	}
	return ""
}

func show(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_ArrayValue:
		var parts []string
		for _, one := range v.ArrayValue.Values {
			parts = append(parts, show(one))
		}
		return strings.Join(parts, ",")
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	}
	return fmt.Sprint(v)
}

// tree prints spans below their parents, each with some attributes, and ! for an error. Spans
// without a parent are at the end.
func tree(spans []*otlp.Span, keys ...string) string {
	slices.SortStableFunc(spans, func(a, b *otlp.Span) int {
		return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) // in the same millisecond: by their ends
	})
	known := map[string]bool{}
	for _, s := range spans {
		known[string(s.SpanId)] = true
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range spans {
			if string(s.ParentSpanId) != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s", indent, s.Name)
			for _, key := range keys {
				if v := attr(s, key); v != "" {
					fmt.Fprintf(&b, " %s", v)
				}
			}
			if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
				b.WriteString(" !")
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, " (%s)", e.Name)
			}
			b.WriteString("\n")
			draw(string(s.SpanId), indent+"  ")
		}
	}
	draw("", "")
	for _, s := range spans {
		if p := string(s.ParentSpanId); p != "" && !known[p] {
			known[p] = true
			fmt.Fprintf(&b, "%s:\n", hex.EncodeToString([]byte(p)))
			draw(p, "  ")
		}
	}
	return b.String()
}

// world responds to requests by their method and path, each time with the next status, and with 201
// if there is none.
type world struct {
	*httptest.Server
	mu     sync.Mutex
	plan   map[string][]int
	seen   map[string][]http.Header
	hangs  string        // a request that gets no response the first time
	hung   chan struct{} // closed when that request has arrived
	ending chan struct{}
}

func newWorld(t *testing.T, plan map[string][]int) *world {
	w := &world{plan: plan, seen: map[string][]http.Header{}, hung: make(chan struct{}), ending: make(chan struct{})}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		w.mu.Lock()
		w.seen[what] = append(w.seen[what], r.Header)
		status := 201
		if next := w.plan[what]; len(next) > 0 {
			status, w.plan[what] = next[0], next[1:]
		}
		hangs := what == w.hangs && len(w.seen[what]) == 1
		w.mu.Unlock()
		if hangs {
			close(w.hung)
			<-w.ending
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		fmt.Fprint(rw, `{"id":"x1"}`)
	}))
	t.Cleanup(w.Close)
	t.Cleanup(func() { close(w.ending) })
	return w
}

// parents returns the traceparents of requests.
func (w *world) parents(what string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, h := range w.seen[what] {
		list = append(list, h.Get("Traceparent"))
	}
	return list
}

// mortal is a store that a node can lose its connection to.
type mortal struct {
	journal.Store
	dead atomic.Bool
}

var errDead = errors.New("the node is dead")

func (m *mortal) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Store.Append(ctx, node, batch)
}

func (m *mortal) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	if m.dead.Load() {
		return journal.Lease{}, errDead
	}
	return m.Store.Renew(ctx, node, ttl)
}

func (m *mortal) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Store.Claim(ctx, node, limit)
}

// rig is a store, and nodes that run its sagas.
type rig struct {
	t       *testing.T
	store   journal.Store
	catalog *catalog.Catalog
	models  llm.Config
	secret  string
}

func newRig(t *testing.T, models llm.Config, definitions ...string) *rig {
	t.Helper()
	r := &rig{t: t, store: memory.New(memory.Config{}), models: models}
	r.catalog = catalog.New(r.store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: models})})
	for _, src := range definitions {
		_, rest, _ := strings.Cut(src, "saga: ")
		name, _, _ := strings.Cut(rest, "\n")
		if _, _, _, err := r.catalog.Publish(t.Context(), name, []byte(src), ""); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// node is an engine and its tracer.
type node struct {
	*engine.Engine
	r      *rig
	store  *mortal
	tracer *tracing.Tracer
	stop   func()
}

func (r *rig) node(c *receiver) *node {
	r.t.Helper()
	guard, err := egress.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		r.t.Fatal(err)
	}
	export, err := tracing.Exporter(r.t.Context(), c.URL, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	n := &node{r: r, store: &mortal{Store: r.store}}
	n.tracer = tracing.New(tracing.Config{Export: export, Every: 5 * time.Millisecond, Provider: r.models.ProviderAt, Resource: tracing.Resource{Version: "v1.2.3", Instance: "i-1"}})
	calls := httpclient.Config{Egress: egress.Config{Guard: guard}, Secret: func(string) (string, error) { return r.secret, nil }}
	caller := httpclient.New(calls)
	runner := &client.Caller{Sagas: r.store, Definitions: r.catalog}
	n.Engine = engine.New(engine.Config{Store: n.store, Definitions: r.catalog, Observers: []engine.Observer{n.tracer}, Poll: 5 * time.Millisecond, Lease: 500 * time.Millisecond, Drain: time.Second,
		Callers: map[string]engine.Caller{"http": caller, "llm": llmclient.New(llmclient.Config{LLM: r.models, Egress: calls.Egress}), "run": runner}})
	runner.Engine = n.Engine
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		caller.Close()
		flush, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.tracer.Shutdown(flush); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(n.stop)
	for !n.Ready() {
		<-time.After(time.Millisecond)
	}
	return n
}

func (n *node) start(name, input, traceparent string) uuid.UUID {
	n.r.t.Helper()
	doc, def, err := n.r.catalog.Newest(n.r.t.Context(), name)
	if err != nil {
		n.r.t.Fatal(err)
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: doc.Version, Input: json.RawMessage(input), Labels: map[string]string{"shop": "north"}, Traceparent: traceparent})
	if wrong != nil {
		n.r.t.Fatal(wrong)
	}
	begun, err := n.Start(n.r.t.Context(), def, journal.Start{Definition: name, Version: doc.Version, SHA256: def.SHA256}, data, false)
	if err != nil {
		n.r.t.Fatal(err)
	}
	return begun.ID
}

// command sends a command to a saga.
func (n *node) command(id uuid.UUID, c saga.Command) {
	n.r.t.Helper()
	m, err := c.Message(uuid.Must(uuid.NewV7()), id)
	if err == nil {
		err = n.Send(n.r.t.Context(), m)
	}
	if err != nil {
		n.r.t.Fatal(err)
	}
}

// reaches waits until a saga's row has the status.
func (r *rig) reaches(id uuid.UUID, status saga.Status) {
	r.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); <-time.After(5 * time.Millisecond) {
		if h, err := r.store.Saga(r.t.Context(), id); err == nil && h.Status == string(status) {
			return
		}
	}
	r.t.Fatalf("saga %s is never %s", id, status)
}

// machine replays a saga's journal.
func (r *rig) machine(id uuid.UUID) (*machine.Machine, error) {
	records, err := r.store.Records(r.t.Context(), id, 0, 10_000)
	if err != nil {
		return nil, err
	}
	start, err := history.Started(records)
	if err != nil {
		return nil, err
	}
	def, err := r.catalog.Of(r.t.Context(), &start)
	if err != nil {
		return nil, err
	}
	return machine.Replay(def, id, records)
}

func itoa(n int64) string { return fmt.Sprint(n) }
