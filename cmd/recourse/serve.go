package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"recourse/api"
	"recourse/api/ui"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/database"
	"recourse/internal/cli/process"
	"recourse/internal/egress"
	"recourse/internal/intake"
	"recourse/internal/oauth"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/internal/statedir"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/trigger"
)

// serveCmd runs the server.
type serveCmd struct{ config.ServeFlags }

// Run serves until the program is asked to stop, then drains.
func (c *serveCmd) Run(a *cli.App, file *config.File) error {
	process.CollectSeldom(a)
	if err := c.Check(); err != nil {
		return err
	}
	page, err := c.PageURL()
	if err != nil {
		return err
	}
	src, err := secrets.New(c.SecretDir, a.Env)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	log, err := config.NewLog(a.Stderr, c.LogFormat, c.LogLevel, src)
	if err != nil {
		return err
	}
	vars, err := config.ReadVars(c.Vars, a.Variables)
	if err != nil {
		return err
	}
	sinks, err := config.ReadSinks(c.Config, src)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	anchors, err := config.ReadEvidence(c.Config, src, sinks)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	servers, err := config.ReadMCP(c.Config)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	hosts, unknown, err := config.ReadSecretHosts(c.Config, src)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	limits, err := config.ReadLimits(c.Config)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	out := egress.Config{UserAgent: "recourse/" + a.Version}
	if err := c.DialFlags.Apply(&out); err != nil {
		return err
	}
	tokens, err := c.OAuthFlags.Verifier(c.Config, out)
	if err != nil {
		return err
	}
	if tokens != nil {
		defer tokens.Close()
	}
	if len(unknown) > 0 {
		log.Warn("secret-hosts names secrets that are not there", "names", unknown)
	}
	bucket, err := c.OpenArchive(a.Ctx)
	if err != nil {
		return err
	}
	state, err := c.stateDir()
	if err != nil {
		return err
	}
	store, err := c.store(a.Ctx, state, log)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, err := c.CheckAccess(a.Ctx, store)
	if err != nil {
		return err
	}
	models, err := c.LLMFlags.Apply(file.LLM)
	if err != nil {
		return err
	}
	tracer, err := c.TracesFlag.Tracer(a, models, log)
	if err != nil {
		return err
	}
	n, err := newNode(nodeOptions{Store: store, Tracer: tracer, Egress: c.EgressAllow, Dial: c.DialFlags, Secrets: src, SecretHosts: hosts, Vars: vars, LLM: models, MCP: servers, Environ: a.Env, Strict: c.Strict, Sinks: append([]outbox.Sink{}, sinks...), Anchors: anchors,
		Lanes: c.LaneCount(), AnswerBytes: int(c.ResponseMemory), SagaBytes: int(c.SagaMemory), Lease: c.NodeLease, State: state, RequireSync: c.RequireSync, Drain: c.Drain, Retention: time.Duration(c.Retention), Archive: bucket, ArchiveWait: c.ArchiveWait, NoArchive: c.Archive == config.NoArchive, Stalled: c.StalledAfter, Version: a.Version, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(a.Ctx)
	defer stop()
	if c.WhileStdin {
		a.WhenStdinEnds(stop)
	}
	if n.notices != nil {
		n.notices.URL = page
	}
	return c.serve(ctx, a, n, siteOptions{Vars: vars, RequireKeys: keys.Required, NoAuth: c.NoAuth, OAuth: tokens, PublicURL: page, Limits: limits, TraceURL: string(c.TraceURL), Version: a.Version, Log: log}, keys.Says)
}

// stateDir locks the state directory, which the node leaves to its successor; nil without one. The
// lock is held until the engine has ended, or the process.
func (c *serveCmd) stateDir() (*statedir.Dir, error) {
	if c.StateDir == "" {
		return nil, nil
	}
	d, err := statedir.Open(c.StateDir)
	if errors.Is(err, statedir.ErrHeld) {
		return nil, cli.Exit(cli.Conflict, fmt.Errorf("--state-dir %s: %w: each process needs a directory of its own; stop the other process first, or name another directory", c.StateDir, err))
	} else if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--state-dir %s cannot be used; name a directory on a local disk that this user may write: %w", c.StateDir, err))
	}
	return d, nil
}

// store opens the database. If the state directory knows a PostgreSQL, the database must be the
// same one, and must not have lost commits.
func (c *serveCmd) store(ctx context.Context, state *statedir.Dir, log *slog.Logger) (s journal.Store, err error) {
	defer func() {
		if err != nil && state != nil {
			_ = state.Close() // no node has started
		}
	}()
	if state == nil || !database.IsPostgres(c.Database) {
		return database.Open(ctx, c.Database, true)
	}
	last, err := state.Database()
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--state-dir %s: its record of the database cannot be read; remove that file if the database is the right one: %w", c.StateDir, err))
	}
	keep := func(system string, timeline int64) {
		if err := state.NoteDatabase(statedir.Database{System: system, Timeline: timeline}); err != nil {
			log.Warn("could not note which database this is: the next start of this node may take an old primary for it", "error", err)
		}
	}
	return database.OpenPostgres(ctx, c.Database, postgres.Options{Migrate: true,
		Memory: postgres.Memory{System: last.System, Timeline: last.Timeline, Keep: keep, Place: state.DatabaseFile()}})
}

func (c *serveCmd) serve(ctx context.Context, a *cli.App, n *node, site siteOptions, access string) error {
	log := site.Log
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return cli.Exit(listenCode(err), fmt.Errorf("cannot listen on %s, choose another address with --listen: %w", c.Listen, errors.Unwrap(err)))
	}
	address := "http://" + listener.Addr().String()
	if n.notices != nil && n.notices.URL == "" {
		n.notices.URL = address
	}
	stopProfiles, err := c.serveProfiles(log)
	if err != nil {
		listener.Close()
		return err
	}
	defer stopProfiles()
	cron := trigger.NewCron(trigger.New(trigger.Config{Store: n.store, Catalog: n.catalog, Engine: n.engine, Vars: site.Vars, Log: log}))
	n.services = append(n.services, cron.Run, n.sweep, n.reclaim)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := n.start(ctx); err != nil {
		listener.Close()
		return err
	}
	site.Done = ctx.Done()
	server := n.site(site)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("listening", "url", address, "database", database.Kind(c.Database), "keys", site.RequireKeys, "version", a.Version)
	a.Printf("recourse listening on %s\n%s\n", address, access)

	select {
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
		stop()
	case <-ctx.Done():
	}
	log.Info("draining: waiting for attempts in flight", "for", c.Drain)
	if e := n.wait(); err == nil {
		err = e
	}
	shutDown(server)
	log.Info("stopped")
	return err
}

// siteOptions configure the site of a node.
type siteOptions struct {
	Vars        map[string]json.RawMessage
	RequireKeys bool
	NoAuth      bool
	OAuth       *oauth.Verifier // nil: no access tokens are accepted
	PublicURL   string          // "": the address of each request
	Limits      config.Limits
	TraceURL    string
	Version     string // of the program
	Log         *slog.Logger
	Done        <-chan struct{} // requests end when it is closed
}

// site returns the server of a node's API and web UI.
func (n *node) site(o siteOptions) *http.Server {
	rest := api.New(api.Config{Store: n.store, Catalog: n.catalog, Engine: n.engine, Vars: o.Vars, Log: o.Log, RequireKeys: o.RequireKeys, NoAuth: o.NoAuth, OAuth: o.OAuth, PublicURL: o.PublicURL, Relay: n.relay,
		EngineStats: func() api.EngineStats { return api.EngineStats(n.engine.Stats()) }, OutboxStats: n.outboxStats, Archive: n.reader, ArchiveStats: n.archiveStats(),
		Collectors: []prometheus.Collector{n.metrics}, Version: o.Version, Done: o.Done, Rates: o.Limits.Rates})
	server := &http.Server{
		Handler:           ui.New(ui.Config{API: rest, Definitions: n.catalog, TraceURL: o.TraceURL, Version: o.Version, Log: o.Log, Done: o.Done}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	intake.New(o.Limits.Intake).Guard(server)
	return server
}

// shutDown waits for the requests in flight, but not for long, and closes the server.
func shutDown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		server.Close()
	}
}

// listenCode returns the exit code of an error of net.Listen. An address in use may be free soon,
// so a supervisor should try again.
func listenCode(err error) int {
	if errors.Is(err, syscall.EADDRINUSE) {
		return cli.Conflict
	}
	return cli.Usage
}

// serveProfiles serves profiles on --debug-listen, if it is given, until stop is called.
func (c *serveCmd) serveProfiles(log *slog.Logger) (stop func(), err error) {
	if c.DebugListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", c.DebugListen)
	if err != nil {
		return nil, cli.Exit(listenCode(err), fmt.Errorf("cannot listen on %s, choose another address with --debug-listen: %w", c.DebugListen, err))
	}
	server := &http.Server{Handler: profiles(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends by Close
	log.Info("profiles", "url", "http://"+l.Addr().String()+"/debug/pprof/")
	return func() { server.Close() }, nil
}

// profiles serves the runtime's profiles, including contention.
func profiles() http.Handler {
	runtime.SetMutexProfileFraction(100)
	runtime.SetBlockProfileRate(int(time.Millisecond))
	m := http.NewServeMux()
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}
