// Package tracing exports sagas to an OpenTelemetry collector: one trace per saga, with a span for
// the saga, for each step, for each compensation, and for each attempt.
//
// Spans are made from the journal's records and have the records' times. Their ids are derived from
// the journal too ([saga.Trace]). So a node that takes over a saga continues its trace: it reads
// the records, and exports the spans that had not ended. Of requests and responses, only the
// address and the result are exported.
//
// attempt.go makes the span of an attempt, with its attributes (chat.go has those of a model),
// step.go that of a step or a compensation, and saga_state.go that of the saga.
package tracing

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"recourse/engine"
	"recourse/saga"
)

// Config configures a Tracer. A zero field selects the default in its comment.
type Config struct {
	Export sdk.SpanExporter // required: see [Exporter]
	// Sample says which traces are exported; nil: all. Each node asks it again, and must get the
	// same result.
	Sample   func(*saga.Trace) bool
	Resource Resource // the exporting program
	// Provider returns the provider of language models at an address. If it is nil or returns "",
	// the provider is unknown, with OpenAI's format.
	Provider func(address string) string
	Log      *slog.Logger  // nil: discard
	Queue    int           // 8,192: spans that wait to be exported
	Batch    int           // 512: spans in one request
	Every    time.Duration // 1s: how long a span waits for others
	Patience time.Duration // 30s: for one request with its repetitions
}

// Tracer makes spans of an engine's sagas and exports them. It is an [engine.Observer].
type Tracer struct {
	cfg   Config
	log   *slog.Logger
	build *builder
	queue chan source
	quit  chan struct{}
	done  chan struct{}
	stop  context.CancelFunc // cancels the current export
	ctx   context.Context

	exported, dropped atomic.Int64
	held              atomic.Int64
	failing           bool // the last export has lost spans
	warned            bool // a warning of the collector was logged

	mu     sync.Mutex
	states map[uuid.UUID]*sagaState
}

var _ engine.Observer = (*Tracer)(nil)

// New returns a Tracer that exports until Shutdown.
func New(cfg Config) *Tracer {
	cfg.Queue = cmp.Or(cfg.Queue, 8192)
	cfg.Batch = cmp.Or(cfg.Batch, 512)
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 30*time.Second)
	if cfg.Sample == nil {
		cfg.Sample = func(*saga.Trace) bool { return true }
	}
	if cfg.Provider == nil {
		cfg.Provider = func(string) string { return "" }
	}
	t := &Tracer{cfg: cfg, log: cfg.Log, build: newBuilder(cfg.Resource), queue: make(chan source, cfg.Queue), quit: make(chan struct{}), done: make(chan struct{}),
		states: make(map[uuid.UUID]*sagaState)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t
}

// Acquired implements engine.Observer. Spans that have already ended were exported by the node that
// ended them.
func (t *Tracer) Acquired(g engine.Growth) {
	if s := t.begin(g); s != nil {
		s.silent = true
		s.apply(g)
		s.silent = false
	}
}

// Appended implements engine.Observer.
func (t *Tracer) Appended(g engine.Growth) {
	if len(g.Records) == 0 {
		return
	}
	t.mu.Lock()
	s := t.states[g.Saga]
	t.mu.Unlock()
	if s == nil && g.Records[0].Seq == 1 {
		s = t.begin(g)
	}
	if s == nil {
		return // it is not sampled, or has ended
	}
	s.apply(g)
	if s.over {
		t.Released(g.Saga)
	}
}

// Released implements engine.Observer. Spans that have not ended are exported by the node that ends
// them.
func (t *Tracer) Released(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.states, id)
}

// begin returns the state of a saga, nil if it is not sampled.
func (t *Tracer) begin(g engine.Growth) *sagaState {
	trace := *g.Machine.Trace()
	if !t.cfg.Sample(&trace) {
		return nil
	}
	s := newSagaState(t, trace, g.Machine.Definition())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states[g.Saga] = s
	return s
}

// Exported returns how many spans the collector has accepted.
func (t *Tracer) Exported() int64 { return t.exported.Load() }

// Dropped returns how many spans were not exported, because there was no room or the collector did
// not accept them.
func (t *Tracer) Dropped() int64 { return t.dropped.Load() }
