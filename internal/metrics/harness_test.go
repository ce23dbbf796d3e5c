package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"recourse/engine"
	"recourse/internal/metrics"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
	"recourse/saga/machine"
)

func gather(t testing.TB, c prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// read returns the metrics: counters by name and labels, and the count of each histogram, without
// zeros.
func read(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	out := make(map[string]float64)
	for _, f := range gather(t, c) {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "recourse_")
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			v := m.GetCounter().GetValue()
			if h := m.GetHistogram(); h != nil {
				v = float64(h.GetSampleCount())
			}
			if v != 0 {
				out[name] = v
			}
		}
	}
	return out
}

// exemplars returns the labels of the exemplars, by name and label values.
func exemplars(t *testing.T, c prometheus.Collector) map[string]map[string]string {
	t.Helper()
	out := make(map[string]map[string]string)
	for _, f := range gather(t, c) {
		for _, m := range f.GetMetric() {
			found := []*dto.Exemplar{m.GetCounter().GetExemplar()}
			for _, b := range m.GetHistogram().GetBucket() {
				found = append(found, b.GetExemplar())
			}
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			for _, e := range found {
				if e == nil {
					continue
				}
				labels := make(map[string]string)
				for _, l := range e.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				out[f.GetName()+"{"+strings.Join(values, ",")+"}"] = labels
			}
		}
	}
	return out
}

// script responds to requests by the last part of their URL's path, with one response after
// another. The last one is repeated.
type script struct {
	mu      sync.Mutex
	answers map[string][]saga.Answer
}

// Call implements engine.Caller.
func (s *script) Call(_ context.Context, r saga.Request) saga.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := url.Parse(r.URL)
	if err != nil {
		return saga.Answer{Code: "url_invalid"}
	}
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	list := s.answers[name]
	switch len(list) {
	case 0:
		return status(200)
	case 1:
	default:
		s.answers[name] = list[1:]
	}
	return list[0]
}

func status(code int) saga.Answer {
	return saga.Answer{Sent: true, Status: code, Body: json.RawMessage(`{"id":"x","n":1}`)}
}

func lost() saga.Answer { return saga.Answer{Sent: true, Code: "timeout", Detail: "no answer"} }

// definitions has one compiled definition.
type definitions struct{ def *saga.Definition }

func (d definitions) Of(context.Context, *saga.StartedData) (*saga.Definition, error) {
	return d.def, nil
}

func compile(t testing.TB, src string) *saga.Definition {
	t.Helper()
	prices := llm.Config{Prices: map[string]llm.Price{"small": {Input: "1000", Output: "10000"}}}
	def, errs := dsl.Parse("test.yaml", []byte(src), dsl.Options{Kinds: kinds.With(kinds.Options{LLM: prices})})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// node is an engine whose sagas are counted.
type node struct {
	*engine.Engine
	m     *metrics.Metrics
	store journal.Store
	stop  func()
}

// start starts a node. stop releases its sagas.
func start(t testing.TB, store journal.Store, def *saga.Definition, s *script, m *metrics.Metrics) *node {
	t.Helper()
	n := &node{m: m, store: store}
	n.Engine = engine.New(engine.Config{Store: store, Definitions: definitions{def}, Callers: map[string]engine.Caller{"http": s, "llm": s, ask.Kind: s},
		Observers: []engine.Observer{m}, Meter: m, Poll: 5 * time.Millisecond, ParkAfter: 20 * time.Millisecond, Drain: 5 * time.Second, Lease: 300 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	within(t, "the node is ready", n.Ready)
	return n
}

func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// begin starts a saga.
func (n *node) begin(t testing.TB, def *saga.Definition) uuid.UUID {
	t.Helper()
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`null`)})
	if wrong != nil {
		t.Fatal(wrong)
	}
	begun, err := n.Start(t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data, false)
	if err != nil {
		t.Fatal(err)
	}
	return begun.ID
}

// person sends commands until the saga has ended. nil: none.
func (n *node) person(t testing.TB, id uuid.UUID, commands []saga.Command) {
	t.Helper()
	for i, o := range commands {
		within(t, fmt.Sprintf("order %d is wanted", i), func() bool {
			list, err := n.store.Inbox(t.Context(), journal.InboxFilter{Saga: id, Limit: 10})
			return err == nil && (o.Path == "" || slices.ContainsFunc(list, func(e journal.Entry) bool { return e.Path == o.Path && e.Kind != saga.InboxHeld }))
		})
		message, err := o.Message(uuid.Must(uuid.NewV7()), id)
		if err := errors.Join(err, n.Send(t.Context(), message)); err != nil {
			t.Fatal(err)
		}
		within(t, fmt.Sprintf("order %d is read", i), func() bool { return n.folded(t, id, message.ID) })
	}
}

func (n *node) folded(t testing.TB, id, message uuid.UUID) bool {
	records, err := n.store.Records(t.Context(), id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(records, func(r journal.Record) bool { return strings.Contains(string(r.Data), message.String()) })
}

func open() journal.Store { return memory.New(memory.Config{}) }
