package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/catalog"
	"recourse/engine"
	"recourse/internal/archive"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/costs"
	"recourse/internal/egress"
	"recourse/internal/evidence"
	"recourse/internal/metrics"
	"recourse/internal/notify"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/internal/statedir"
	"recourse/internal/tracing"
	"recourse/journal"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	askclient "recourse/saga/kinds/ask/client"
	"recourse/saga/kinds/ask/relay"
	"recourse/saga/kinds/emit"
	httpclient "recourse/saga/kinds/http/client"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
	"recourse/saga/kinds/mcp"
	mcpclient "recourse/saga/kinds/mcp/client"
	runclient "recourse/saga/kinds/run/client"
)

// nodeOptions configure a node, in `serve` and in `run`.
type nodeOptions struct {
	Store       journal.Store
	Egress      []string
	Dial        config.DialFlags
	Secrets     *secrets.Source
	SecretHosts *egress.SecretHosts // nil: secrets may be sent to any host
	Vars        map[string]json.RawMessage
	LLM         llm.Config // already validated
	MCP         mcp.Config // likewise
	Environ     []string   // of this process; programs of MCP servers get a part of it
	Strict      bool
	Sinks       []outbox.Sink     // nil: unknown; definitions may name any sink, and nothing is delivered
	Anchors     *evidence.Options // nil: none are signed
	Lanes       int
	AnswerBytes int // see engine.Config; 0: its default
	SagaBytes   int // likewise
	Lease       time.Duration
	State       *statedir.Dir // may be nil; the node closes it at its end
	RequireSync bool          // see engine.Config
	Drain       time.Duration
	Retention   time.Duration // default for definitions without one
	// Archive is where sagas go when their retention has ended; nil: they are deleted, unless the
	// database has an archive.
	Archive     archive.Bucket
	ArchiveWait time.Duration // see archive.Config
	NoArchive   bool          // delete them in any case
	// Stalled is the time without progress after which a due saga counts as stalled; 0: the
	// engine's default.
	Stalled time.Duration
	Tracer  *tracing.Tracer // nil: no spans are exported; the node closes it
	Version string          // of the program
	Log     *slog.Logger
}

// node runs the sagas of a store.
type node struct {
	store   journal.Store
	catalog *catalog.Catalog
	engine  *engine.Engine
	steps   *httpclient.Caller
	models  *llmclient.Caller
	asks    *askclient.Caller
	tools   *mcpclient.Caller
	relay   *relay.Relay
	outbox  *outbox.Outbox
	metrics *metrics.Metrics
	tracer  *tracing.Tracer   // nil: none
	state   *statedir.Dir     // nil: none
	anchors *evidence.Signer  // nil: none
	typical *costs.Typical    // typical costs of sagas
	archive *archive.Archiver // nil: none
	reader  *archive.Reader   // nil: there is no archive
	log     *slog.Logger
	ended   chan error      // receives the result of the engine's Run
	notices *notify.Notices // nil: no sink gets notices

	// services run besides the engine, from its start until their context is done.
	services []func(context.Context)
	running  sync.WaitGroup // a goroutine for each service
}

func newNode(o nodeOptions) (*node, error) {
	guard, err := egress.NewGuard(o.Egress)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	typical := costs.NewTypical(o.Store, o.Log)
	n := &node{store: o.Store, typical: typical, metrics: metrics.New(metrics.Config{Median: typical.Median}), tracer: o.Tracer, state: o.State, log: o.Log, notices: config.Notices(o.Sinks), ended: make(chan error, 1)}
	if n.notices != nil {
		n.notices.Median = typical.Median
	}
	observers := []engine.Observer{n.metrics, n.typical}
	if n.tracer != nil {
		observers = append(observers, n.tracer)
	}
	if o.Anchors != nil {
		n.anchors = evidence.NewSigner(evidence.Config{Options: *o.Anchors, Store: o.Store, Node: func() string { return n.engine.Stats().Node }, Now: func() time.Time { return n.engine.Now() }, Log: o.Log})
		observers = append(observers, n.anchors)
		n.services = append(n.services, n.anchors.Run)
	}
	for _, name := range o.Secrets.Names() {
		// Get loads the value, so that it is redacted from the start. A step that needs it gets the
		// error.
		_, _ = o.Secrets.Get(name)
	}
	out := egress.Config{Guard: guard, UserAgent: "recourse/" + o.Version}
	if err := o.Dial.Apply(&out); err != nil {
		return nil, err
	}
	now := func() time.Time { return n.engine.Now() } // the store's clock, for dates in Retry-After
	n.steps = httpclient.New(httpclient.Config{Egress: out, Secret: o.Secrets.Get, SecretHosts: o.SecretHosts, Known: o.Secrets.Known, Now: now})
	providers := llmclient.Config{LLM: o.LLM, Egress: out, Known: o.Secrets.Known, Now: now}
	n.models = llmclient.New(providers)
	n.relay = relay.New()
	n.asks = askclient.New(askclient.Config{Config: providers, Relay: n.relay, Content: func(ctx context.Context, session, hash string) ([]byte, error) {
		id, err := uuid.FromString(session)
		if err != nil {
			return nil, err
		}
		return api.Content(ctx, o.Store, id, hash)
	}})
	n.tools = mcpclient.New(mcpclient.Config{MCP: o.MCP, Egress: out, Secret: o.Secrets.Get, SecretHosts: o.SecretHosts, Known: o.Secrets.Known, Now: now, Environ: o.Environ, Version: o.Version})
	n.catalog = catalog.New(o.Store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: o.LLM, Sinks: emitted(o.Sinks), MCP: o.MCP.Names()}), Strict: o.Strict, Vars: o.Vars, Secret: o.Secrets.Get})
	runner := &runclient.Caller{Sagas: o.Store, Definitions: n.catalog, Vars: o.Vars}
	predecessor, registered := "", func(string) error { return nil }
	if o.State != nil {
		predecessor, registered = o.State.Predecessor(), o.State.Name
	}
	n.engine = engine.New(engine.Config{
		Store: o.Store, Definitions: n.catalog, Observers: observers, Log: o.Log,
		Callers: map[string]engine.Caller{"http": n.steps, "llm": n.models, ask.Kind: n.asks, "run": runner, mcp.Name: n.tools},
		Lanes:   o.Lanes, AnswerBytes: o.AnswerBytes, SagaBytes: o.SagaBytes, Lease: o.Lease, RequireSync: o.RequireSync, Drain: o.Drain, Retention: o.Retention, Notices: n.notices, StallAfter: o.Stalled,
		Meter: n.metrics, Predecessor: predecessor, Registered: registered, Archived: n.archived(o),
	})
	runner.Engine = n.engine
	if o.Archive != nil {
		n.archive = archive.New(archive.Config{Store: o.Store, Bucket: o.Archive, Node: func() string { return n.engine.Stats().Node }, Now: n.engine.Now, Log: o.Log, Wait: o.ArchiveWait})
		n.services = append(n.services, n.archive.Run)
		n.reader = archive.NewReader(o.Archive)
	}
	n.services = append(n.services, n.typical.Run)
	if len(o.Sinks) > 0 {
		n.outbox = outbox.New(outbox.Config{Store: o.Store, Sinks: o.Sinks, Egress: out, Secret: o.Secrets.Get, Now: n.engine.Now, Log: o.Log,
			Delivered: n.metrics.Delivered})
		n.services = append(n.services, n.outbox.Run)
	}
	return n, nil
}

// archived returns engine.Config.Archived. A database that has an archive keeps it: a server that
// was started without it deletes nothing, because others may archive.
func (n *node) archived(o nodeOptions) func(context.Context) (bool, error) {
	var warn sync.Once
	return func(ctx context.Context) (bool, error) {
		if o.Archive != nil || o.NoArchive {
			return o.Archive != nil, nil
		}
		has, err := archive.Archived(ctx, o.Store)
		if has {
			warn.Do(func() {
				o.Log.Warn("this database has an archive, and this server was started without it: it deletes no sagas. Give it the same --archive as the others, or --archive none to delete sagas without an archive")
			})
		}
		return has, err
	}
}

// emitted lists the sinks for events that sagas emit; nil for nil.
func emitted(sinks []outbox.Sink) []emit.Sink {
	if sinks == nil {
		return nil
	}
	list := make([]emit.Sink, 0, len(sinks))
	for _, s := range sinks {
		if s.Emitted() {
			list = append(list, emit.Sink{Name: s.Name, Types: s.Types})
		}
	}
	return list
}

// start starts the engine, and the services when the engine accepts starts. They run until ctx is
// done; then wait waits for their end.
func (n *node) start(ctx context.Context) error {
	go func() { n.ended <- n.engine.Run(ctx) }()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !n.engine.Ready() {
		select {
		case err := <-n.ended:
			n.close()
			if err == nil {
				err = errors.New("stopped before it began")
			}
			return engineError(err)
		case <-poll.C:
		}
	}
	for _, run := range n.services {
		n.running.Go(func() { run(ctx) })
	}
	return nil
}

// eachMinute calls f once a minute, until ctx is done.
func eachMinute(ctx context.Context, f func()) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			f()
		}
	}
}

// sweepPage is how many replies are deleted in one transaction.
const sweepPage = 1000

// sweep deletes expired replies of idempotency keys, until ctx is done.
func (n *node) sweep(ctx context.Context) {
	eachMinute(ctx, func() {
		for swept := sweepPage; swept == sweepPage; {
			var err error
			if swept, err = n.store.Sweep(ctx, sweepPage); err != nil && ctx.Err() == nil {
				n.log.Warn("could not delete old replies; the next try is in a minute", "error", err)
			}
		}
	})
}

// reclaim frees the space of deleted sagas, until ctx is done.
func (n *node) reclaim(ctx context.Context) {
	last := "" // an error that lasts is logged once
	eachMinute(ctx, func() {
		text := ""
		if err := n.store.Reclaim(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			n.log.Warn("could not free the space of deleted sagas or prepare that of new ones; the node tries again each minute", "error", text)
		}
		last = text
	})
}

// wait waits until the engine has released its sagas, after start's ctx is done.
func (n *node) wait() error {
	defer n.close()
	defer n.running.Wait()
	if err := <-n.ended; err != nil {
		return engineError(err)
	}
	return nil
}

// close closes the engine's resources, after its end.
func (n *node) close() {
	n.flush()
	if n.anchors != nil {
		n.anchors.Close()
	}
	n.steps.Close()
	n.models.Close()
	n.asks.Close()
	n.tools.Close()
	if n.state == nil {
		return
	}
	if err := n.state.Close(); err != nil {
		n.log.Warn("could not give up the state directory", "error", err)
	}
}

// flushing is the timeout for exporting the remaining spans.
const flushing = 5 * time.Second

// flush exports the remaining spans after the engine has ended.
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

// outboxStats returns counts of deliveries; nil without sinks.
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

// archiveStats returns a function with the counts of the archiver; nil without one.
func (n *node) archiveStats() func() api.ArchiveStats {
	if n.archive == nil {
		return nil
	}
	return func() api.ArchiveStats { return api.ArchiveStats(n.archive.Stats()) }
}

func engineError(err error) error {
	if errors.Is(err, journal.ErrInUse) {
		return cli.Exit(cli.Conflict, errors.New("another recourse process uses this database exclusively: stop it first, or use another --database (several nodes need PostgreSQL)"))
	}
	return fmt.Errorf("engine: %w", err)
}
