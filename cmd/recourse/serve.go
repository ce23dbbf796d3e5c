package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/api"
	"recourse/api/ui"
	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/intake"
	"recourse/internal/outbox"
	"recourse/internal/secrets"
	"recourse/internal/statedir"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/saga/dsl"
	"recourse/trigger"
)

type serveCmd struct {
	database.Flag
	Listen      string   `default:"127.0.0.1:8080" env:"RECOURSE_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on. Any address but loopback requires API keys. Default ${default}."`
	NoAuth      bool     `name:"no-auth" env:"RECOURSE_NO_AUTH" help:"Require no API key although the database has some; only on a loopback address."`
	EgressAllow []string `env:"RECOURSE_EGRESS_ALLOW" placeholder:"HOST|CIDR" help:"Host or network that steps may call, in addition to public addresses; repeatable."`
	dialFlags
	SecretDir string `env:"RECOURSE_SECRET_DIR" placeholder:"DIR" help:"Directory with a file for each secret, besides RECOURSE_SECRET_<NAME>."`
	Vars      string `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables, in addition to RECOURSE_VAR_<name>."`
	llmFlags
	tracesFlag
	TraceURL       traceURL      `env:"RECOURSE_TRACE_URL" placeholder:"URL" help:"URL of a trace, with {trace_id} for its id, for links on the web page. Default: no links."`
	Config         string        `env:"RECOURSE_CONFIG" placeholder:"FILE" help:"YAML file of flag names and values; flags and environment variables take precedence."`
	Strict         bool          `env:"RECOURSE_STRICT" help:"Refuse definitions with warnings."`
	NodeLease      time.Duration `default:"15s" env:"RECOURSE_NODE_LEASE" help:"Time after which another node takes over the sagas of a node that died."`
	StateDir       string        `env:"RECOURSE_STATE_DIR" placeholder:"DIR" help:"A local directory for this process only. After a crash, the next process with this directory resumes its sagas at once. A start on PostgreSQL also refuses an old primary that it knows to be one. Default: none; the sagas wait until the lease expires."`
	RequireSync    bool          `name:"require-sync" env:"RECOURSE_REQUIRE_SYNC" help:"Refuse starts while the database's commits do not wait for a synchronous standby."`
	Drain          time.Duration `default:"30s" env:"RECOURSE_DRAIN" help:"Time for requests in flight to finish when stopping."`
	Retention      retention     `default:"30d" env:"RECOURSE_RETENTION" placeholder:"DURATION" help:"Time that ended sagas are kept if their definition has no retention; at least 1m, or forever. Default ${default}."`
	PublicURL      string        `name:"public-url" env:"RECOURSE_PUBLIC_URL" placeholder:"URL" help:"This server's URL for people, for links in notifications. Default: http:// and --listen."`
	StalledAfter   time.Duration `default:"5m" env:"RECOURSE_STALLED_AFTER" help:"Time without progress after which a due saga or step is reported as stalled; at least 1s. Default ${default}."`
	Lanes          int           `env:"RECOURSE_LANES" placeholder:"N" help:"Number of commits that may be in flight at once, and of cores that run the sagas' logic. Default: 1 on SQLite; half the cores on Postgres, at most 8."`
	ResponseMemory byteSize      `default:"32MiB" env:"RECOURSE_RESPONSE_MEMORY" placeholder:"SIZE" help:"Limit for the bytes of responses that are being read, or wait for their commit; further responses wait. They take about four times as much memory. At least 8MiB. Default ${default}."`
	SagaMemory     byteSize      `default:"128MiB" env:"RECOURSE_SAGA_MEMORY" placeholder:"SIZE" help:"Limit for the bytes of records of sagas in memory; above it, larger sagas leave memory between two steps. At least 8MiB. Default ${default}."`
	DebugListen    string        `env:"RECOURSE_DEBUG_LISTEN" placeholder:"HOST:PORT" help:"Address for Go's profiles (/debug/pprof/), without an API key. Default: none."`
	LogLevel       string        `default:"info" enum:"debug,info,warn,error" env:"RECOURSE_LOG_LEVEL" help:"debug, info, warn or error."`
	LogFormat      string        `default:"text" enum:"text,json" env:"RECOURSE_LOG_FORMAT" help:"text or json."`
	WhileStdin     bool          `hidden:"" help:"Stop at the end of stdin, when the parent process has exited."`
}

// retention is how long sagas are kept after their end, in the format of definitions.
type retention time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *retention) UnmarshalText(text []byte) error {
	d, err := dsl.ParseRetention(string(text))
	*r = retention(d)
	return err
}

// byteSize is a number of bytes, such as 32MiB.
type byteSize int

// leastMemory is the minimum of memory for responses and for sagas: the size of the largest
// response of a model.
const leastMemory = 8 << 20

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n < leastMemory || n > math.MaxInt {
		return fmt.Errorf("write a size of at least 8MiB, such as 64MiB or 1GiB, not %q", text)
	}
	*b = byteSize(n)
	return nil
}

// lanes returns the number of lanes for a database. SQLite runs one transaction at a time. Each
// lane commits separately, so more lanes mean smaller batches; another lane helps only if one core
// is saturated.
func (c *serveCmd) lanes() int {
	switch {
	case c.Lanes > 0:
		return c.Lanes
	case database.IsPostgres(c.Database):
		return min(max(runtime.GOMAXPROCS(0)/2, 1), 8)
	}
	return 1
}

// The heap may grow to five times a small live heap before it is collected, a larger one to
// smallHeap, and a large one to twice its live size.
const (
	seldom    = 400
	smallHeap = 320 << 20
)

// collectSeldom makes garbage collections rare while the live heap is small, unless GOGC or
// GOMEMLIMIT is set: the live heap of a server is small compared with the garbage of its requests.
// It sets a soft memory limit, so that a fast-growing heap is collected in time.
func collectSeldom(a *cli.App) {
	if a.Variables["GOGC"] != "" || a.Variables["GOMEMLIMIT"] != "" {
		return
	}
	debug.SetGCPercent(seldom)
	debug.SetMemoryLimit(smallHeap)
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		every := time.NewTicker(time.Second)
		defer every.Stop()
		now := int64(smallHeap)
		for {
			select {
			case <-a.Ctx.Done():
				return
			case <-every.C:
			}
			metrics.Read(live)
			want := max(smallHeap, 2*int64(live[0].Value.Uint64()))
			if want != now {
				debug.SetMemoryLimit(want)
				now = want
			}
		}
	}()
}

// Run serves until the program is asked to stop, then drains.
func (c *serveCmd) Run(a *cli.App, config *configFile) error {
	collectSeldom(a)
	if c.RequireSync && !database.IsPostgres(c.Database) {
		return cli.Exit(cli.Usage, errors.New("--require-sync needs PostgreSQL, since a SQLite file has no standby: leave it out, or set --database to a postgres:// URL"))
	}
	if c.NodeLease < time.Second || c.Drain < 0 || c.Lanes < 0 {
		return cli.Exit(cli.Usage, errors.New("--node-lease is at least 1s, --drain at least 0s, --lanes at least 1"))
	}
	if c.StalledAfter < time.Second {
		return cli.Exit(cli.Usage, errors.New("--stalled-after is at least 1s"))
	}
	page, err := c.page()
	if err != nil {
		return err
	}
	src, err := secrets.New(c.SecretDir, a.Env)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	log, err := newLog(a.Stderr, c.LogFormat, c.LogLevel, src)
	if err != nil {
		return err
	}
	vars, err := readVars(c.Vars, a.Variables)
	if err != nil {
		return err
	}
	sinks, err := readSinks(c.Config, src)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	hosts, unknown, err := readSecretHosts(c.Config, src)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	limits, err := readLimits(c.Config)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if len(unknown) > 0 {
		log.Warn("secret-hosts names secrets that are not there", "names", unknown)
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
	keys, err := c.access(a.Ctx, store)
	if err != nil {
		return err
	}
	models, err := c.llmFlags.config(config.llm)
	if err != nil {
		return err
	}
	tracer, err := c.tracesFlag.tracer(a, models, log)
	if err != nil {
		return err
	}
	n, err := newNode(nodeOptions{Store: store, Tracer: tracer, Egress: c.EgressAllow, Dial: c.dialFlags, Secrets: src, SecretHosts: hosts, Vars: vars, LLM: models, Strict: c.Strict, Sinks: append([]outbox.Sink{}, sinks...),
		Lanes: c.lanes(), AnswerBytes: int(c.ResponseMemory), SagaBytes: int(c.SagaMemory), Lease: c.NodeLease, State: state, RequireSync: c.RequireSync, Drain: c.Drain, Retention: time.Duration(c.Retention), Stalled: c.StalledAfter, Version: a.Version, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(a.Ctx)
	defer stop()
	if c.WhileStdin {
		go func() {
			io.Copy(io.Discard, a.Stdin)
			stop()
		}()
	}
	if n.notices != nil {
		n.notices.URL = page
	}
	return c.serve(ctx, a, n, vars, keys, limits, log)
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

// page returns the public URL of this server, without a slash at the end; "" if that is the address
// on which it listens.
func (c *serveCmd) page() (string, error) {
	if c.PublicURL == "" {
		return "", nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", cli.Exit(cli.Usage, errors.New("--public-url is a URL such as https://recourse.example, optionally with a path, without query or fragment"))
	}
	return strings.TrimRight(c.PublicURL, "/"), nil
}

// access says which requests are accepted.
type access struct {
	required bool
	says     string // text for the operator
}

// access refuses an address that other machines can reach while there is no valid key. For the
// requirement of keys an expired key counts: a server that requires keys must not stop doing so
// when the last one expires.
func (c *serveCmd) access(ctx context.Context, store journal.Store) (access, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return access{}, cli.Exit(cli.Usage, fmt.Errorf("--listen %s: write host:port, such as 127.0.0.1:8080 or :8080", c.Listen))
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if c.NoAuth && !loopback {
		return access{}, cli.Exit(cli.Usage, fmt.Errorf("--no-auth is for loopback addresses, and --listen %s can be reached from other machines: leave it out, or listen on 127.0.0.1", c.Listen))
	}
	keys, err := store.ListKeys(ctx)
	if err != nil {
		return access{}, fmt.Errorf("look for API keys: %w", err)
	}
	good := 0
	for _, k := range keys {
		if k.ExpiresAt.IsZero() || k.ExpiresAt.After(time.Now()) {
			good++
		}
	}
	const another = "make one with `recourse keys create --role admin --name …` and this --database"
	switch {
	case good == 0 && !loopback:
		return access{}, cli.Exit(cli.Usage, fmt.Errorf("--listen %s can be reached from other machines, and the database has no API key that is good: "+
			another+", or listen on 127.0.0.1", c.Listen))
	case c.NoAuth:
		return access{says: "No API key is required (--no-auth): everyone who can connect, also through a proxy on this machine, is an admin."}, nil
	case len(keys) == 0:
		return access{says: "The database has no API key: everyone who can connect, also through a proxy on this machine, is an admin. Once it has one, every request needs one: " + another + "."}, nil
	case good == 0:
		return access{required: true, says: "Every request needs an API key, and all that the database has are expired: " + another + "."}, nil
	}
	return access{required: true, says: "Every request needs an API key: the web UI asks for it, the command line reads RECOURSE_API_KEY. On a loopback address --no-auth disables this."}, nil
}

func (c *serveCmd) serve(ctx context.Context, a *cli.App, n *node, vars map[string]json.RawMessage, keys access, limits requestLimits, log *slog.Logger) error {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("cannot listen on %s, choose another address with --listen: %w", c.Listen, errors.Unwrap(err)))
	}
	address := "http://" + listener.Addr().String()
	if n.notices != nil && n.notices.URL == "" {
		n.notices.URL = address
	}
	if err := n.start(ctx); err != nil {
		listener.Close()
		return err
	}
	rest := api.New(api.Config{Store: n.store, Catalog: n.catalog, Engine: n.engine, Vars: vars, Log: log, RequireKeys: keys.required, NoAuth: c.NoAuth,
		EngineStats: func() api.EngineStats { return api.EngineStats(n.engine.Stats()) }, OutboxStats: n.outboxStats,
		Collectors: []prometheus.Collector{n.metrics}, Version: a.Version, Done: ctx.Done(), Rates: limits.rates})
	server := &http.Server{
		Handler:           ui.New(ui.Config{API: rest, Definitions: n.catalog, TraceURL: string(c.TraceURL), Version: a.Version, Log: log, Done: ctx.Done()}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	intake.New(limits.intake).Guard(server)
	if c.DebugListen != "" {
		l, err := net.Listen("tcp", c.DebugListen)
		if err != nil {
			listener.Close()
			return cli.Exit(cli.Usage, fmt.Errorf("cannot listen on %s, choose another address with --debug-listen: %w", c.DebugListen, err))
		}
		profiles := &http.Server{Handler: profiles(), ReadHeaderTimeout: 10 * time.Second}
		defer profiles.Close()
		go profiles.Serve(l)
		log.Info("profiles", "url", "http://"+l.Addr().String()+"/debug/pprof/")
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	go sweep(ctx, n.store, log)
	cron := trigger.NewCron(trigger.New(trigger.Config{Store: n.store, Catalog: n.catalog, Engine: n.engine, Vars: vars, Log: log}))
	n.beside.Go(func() { cron.Run(ctx) })
	log.Info("listening", "url", address, "database", database.Kind(c.Database), "keys", keys.required, "version", a.Version)
	a.Printf("recourse listening on %s\n%s\n", address, keys.says)

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining: waiting for attempts in flight", "for", c.Drain)
	err = n.wait()
	down, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if e := server.Shutdown(down); e != nil {
		server.Close()
	}
	log.Info("stopped")
	return err
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

// sweep deletes expired replies of idempotency keys.
func sweep(ctx context.Context, store journal.Store, log *slog.Logger) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if _, err := store.Sweep(ctx, 1000); err != nil && ctx.Err() == nil {
				log.Warn("could not delete old replies; the next try is in a minute", "error", err)
			}
		}
	}
}
