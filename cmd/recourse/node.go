package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"recourse/api"
	"recourse/catalog"
	"recourse/engine"
	"recourse/internal/costs"
	"recourse/internal/metrics"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/internal/statedir"
	"recourse/internal/tracing"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/llm"
	runkind "recourse/saga/kinds/run"
)

// nodeOptions is what running sagas needs, in `serve` as in `run`.
type nodeOptions struct {
	Store       journal.Store
	Egress      []string
	Dial        dialFlags
	Secrets     *secrets.Source
	SecretHosts *http.SecretHosts // nil: secrets go anywhere
	Vars        map[string]json.RawMessage
	LLM         llm.Config // checked
	Strict      bool
	Sinks       []outbox.Sink // nil: not known, so that definitions may name any, and nothing is delivered
	Lanes       int
	AnswerBytes int // see engine.Config; 0: its default
	SagaBytes   int // likewise
	Lease       time.Duration
	State       *statedir.Dir // nil: none. The node closes it at its end
	RequireSync bool          // see engine.Config
	Drain       time.Duration
	Retention   time.Duration   // of sagas whose definition has none
	Stalled     time.Duration   // how long what is due may stand still until it is stalled; 0: the engine's default
	Tracer      *tracing.Tracer // nil: no spans are exported. The node ends it
	Log         *slog.Logger
}

// node runs sagas of a store.
type node struct {
	store   journal.Store
	catalog *catalog.Catalog
	engine  *engine.Engine
	caller  *http.Caller
	outbox  *outbox.Outbox
	metrics *metrics.Metrics
	tracer  *tracing.Tracer // nil: none
	state   *statedir.Dir   // nil: none
	typical *costs.Typical  // what sagas cost
	beside  sync.WaitGroup  // what runs beside the engine
	log     *slog.Logger
	ended   chan error    // gets what the engine's Run returned
	notices *saga.Notices // nil: no sink is told of anything
}

func newNode(o nodeOptions) (*node, error) {
	guard, err := http.NewGuard(o.Egress)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	typical := costs.NewTypical(o.Store, o.Log)
	n := &node{store: o.Store, typical: typical, metrics: metrics.New(metrics.Config{Median: typical.Median}), tracer: o.Tracer, state: o.State, log: o.Log, notices: noticesFor(o.Sinks), ended: make(chan error, 1)}
	if n.notices != nil {
		n.notices.Median = typical.Median
	}
	observers := []engine.Observer{n.metrics, n.typical}
	if n.tracer != nil {
		observers = append(observers, n.tracer)
	}
	for _, name := range o.Secrets.Names() {
		_, _ = o.Secrets.Get(name) // so that its value is known before anyone tells it; a step that needs it meets the error
	}
	calls := http.CallerConfig{Guard: guard, Secret: o.Secrets.Get, SecretHosts: o.SecretHosts, Known: o.Secrets.Known, UserAgent: "recourse/" + version(),
		Now: func() time.Time { return n.engine.Now() }} // the store's clock, which Retry-After's dates are compared with
	if err := o.Dial.apply(&calls); err != nil {
		return nil, err
	}
	n.caller = http.NewCaller(calls)
	n.catalog = catalog.New(o.Store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: o.LLM, Sinks: names(o.Sinks)}), Strict: o.Strict, Vars: o.Vars, Secret: o.Secrets.Get})
	runner := &runkind.Caller{Sagas: o.Store, Definitions: n.catalog, Vars: o.Vars}
	predecessor, registered := "", func(string) error { return nil }
	if o.State != nil {
		predecessor, registered = o.State.Predecessor(), o.State.Name
	}
	n.engine = engine.New(engine.Config{
		Store: o.Store, Definitions: n.catalog, Observers: observers, Log: o.Log,
		Callers: map[string]engine.Caller{"http": n.caller, "llm": llm.NewCaller(llm.CallerConfig{LLM: o.LLM, HTTP: calls}), "run": runner},
		Lanes:   o.Lanes, AnswerBytes: o.AnswerBytes, SagaBytes: o.SagaBytes, Lease: o.Lease, RequireSync: o.RequireSync, Drain: o.Drain, Retention: o.Retention, Notices: n.notices, StallAfter: o.Stalled,
		Meter: n.metrics, Predecessor: predecessor, Registered: registered,
	})
	runner.Engine = n.engine
	if len(o.Sinks) > 0 {
		n.outbox = outbox.New(outbox.Config{Store: o.Store, Sinks: o.Sinks, Dial: http.NewDialer(calls).Dial, TLS: calls.TLS, Secret: o.Secrets.Get, Now: n.engine.Now, Log: o.Log,
			Delivered: n.metrics.Delivered, UserAgent: calls.UserAgent})
	}
	return n, nil
}

// names lists the sinks that take what sagas emit; nil for nil.
func names(sinks []outbox.Sink) []string {
	if sinks == nil {
		return nil
	}
	list := make([]string, 0, len(sinks))
	for _, s := range sinks {
		if s.Emitted() {
			list = append(list, s.Name)
		}
	}
	return list
}

// start sets the engine going and returns when it takes starts, or the reason
// why it does not. It runs until ctx is done; then stopped gets its end.
func (n *node) start(ctx context.Context) error {
	go func() { n.ended <- n.engine.Run(ctx) }()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !n.engine.Ready() {
		select {
		case err := <-n.ended:
			n.close()
			if err == nil {
				err = errors.New("stopped before it began")
			}
			return engineError(err)
		case <-look.C:
		}
	}
	n.beside.Go(func() { n.typical.Run(ctx) })
	if n.outbox != nil {
		n.beside.Go(func() { n.outbox.Run(ctx) })
	}
	return nil
}

// wait waits for the engine to have handed its sagas over, after start's ctx is done.
func (n *node) wait() error {
	defer n.close()
	defer n.beside.Wait()
	if err := <-n.ended; err != nil {
		return engineError(err)
	}
	return nil
}

// close ends what the engine needed, after its end.
func (n *node) close() {
	n.flush()
	n.caller.Close()
	if n.state == nil {
		return
	}
	if err := n.state.Close(); err != nil {
		n.log.Warn("could not give up the state directory", "error", err)
	}
}

// flushing is how long what is left of the spans may take to be exported.
const flushing = 5 * time.Second

// flush exports what is left of the spans, when the engine has ended.
func (n *node) flush() {
	if n.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushing)
	defer cancel()
	if err := n.tracer.Shutdown(ctx); err != nil {
		n.log.Warn("could not end the export of spans", "error", err)
	}
}

// outboxStats counts deliveries; nothing without sinks.
func (n *node) outboxStats() []api.OutboxStats {
	if n.outbox == nil {
		return nil
	}
	var list []api.OutboxStats
	for _, s := range n.outbox.Stats() {
		list = append(list, api.OutboxStats(s))
	}
	return list
}

func engineError(err error) error {
	if errors.Is(err, journal.ErrInUse) {
		return exit(exitConflict, errors.New("another recourse has this database to itself: stop it first, or use another --database (PostgreSQL takes several nodes)"))
	}
	return fmt.Errorf("engine: %w", err)
}
