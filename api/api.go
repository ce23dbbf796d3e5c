// Package api is the REST interface: handlers over a store, a catalog of
// definitions and an engine. The contract is openapi.yaml, beside this file; a
// test holds the two together.
//
// A handler returns its answer or an error; errors become problem documents in
// one place (problem.go), by one table (codes.go). Nothing here decides what a
// saga does: orders go to the saga as mail, and the answer is read from its journal.
package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/trigger"
)

// Engine is what the API needs of whoever runs sagas.
type Engine interface {
	// Start makes a saga durable and sets it going. With follow, what it returns tells the saga's
	// end, if that comes on this node, until it is stopped. Errors: saga.ErrBusy,
	// saga.ErrUnavailable; journal.ErrStartKey and journal.ErrUnique with the id of the saga that
	// has it; journal.ErrNotNewest; ctx's, when it is not known whether the saga was started.
	Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (saga.Begun, error)
	// Post leaves a message for a saga. journal.ErrNotFound.
	Send(ctx context.Context, m journal.Message) error
	// Watch returns a channel that gets a value after a saga's journal may have
	// grown; only a hint over a poll. stop ends it.
	Watch(id uuid.UUID) (grown <-chan struct{}, stop func())
	// Ready reports whether starts are taken.
	Ready() bool
	// Now is the store's clock.
	Now() time.Time
}

// EngineStats are what /metrics and /v1/system show of an engine: counts since it was made, and
// what it holds now.
type EngineStats struct {
	Commits       int64
	Appends       int64
	CommitTime    time.Duration
	CommitsFailed int64
	RenewsFailed  int64
	RequestsSent  int64
	Running       int
	Calls         int
	Stalled       int64
	Expired       int64
	CommitAge     time.Duration
	StartsRefused int64
	GivenUp       int64
	Strangers     int64
	Lost          int64
	Starting      int
	AnswerBytes   int64
	AnswersWait   int
	SagaBytes     int64
	MaxAnswers    int64
	MaxSagas      int64
	MaxRunning    int
	MaxCalls      int
	MaxStarts     int
	Stalest       time.Duration
	Node          string // "" between leases
	Lanes         int
}

// Config is what the API is made of. Store, Catalog and Engine are required.
type Config struct {
	Store   journal.Store
	Catalog *catalog.Catalog
	Engine  Engine
	Vars    map[string]json.RawMessage // the server's; starts pin what their definition reads
	Log     *slog.Logger               // nil: discard

	// RequireKeys refuses requests without an API key from the first one on. Without it they are
	// refused as soon as the store has a key; until then anyone who can connect is an admin, and
	// requests that a browser may have been tricked into are refused.
	RequireKeys bool
	// NoAuth asks nobody for a key, although the store may have some. A key that is sent is looked
	// up all the same.
	NoAuth bool
	// Hosts are names beside loopback ones and IP addresses under which the server
	// may be addressed while keys are not required.
	Hosts []string

	EngineStats func() EngineStats     // nil: not in /metrics and /v1/system
	OutboxStats func() []OutboxStats   // nil: likewise
	Collectors  []prometheus.Collector // more for /metrics
	Version     string                 // of the program, for the index; "" is left out
	Done        <-chan struct{}        // closed when the server stops: streams and waits end. nil: never
	Limits      Limits
	Rates       Rates // of requests, for each principal; zero: no bound
}

// Limits bound what one request may take. Zero fields take the defaults beside them.
type Limits struct {
	Body      int64         // 1 MiB: bytes of a request's body
	Document  int64         // 4 MiB: of one that may hold a definition, which is larger in JSON than by itself, or a task's output
	Request   time.Duration // 30s: for a request, beside what it asked to wait
	Key       time.Duration // 4s: for looking an API key up; half of it for a scrape
	KeyLook   time.Duration // 1s: between looks for a first API key, while there is none
	Wait      time.Duration // 60s: the most that `Prefer: wait`, and a claim of tasks, waits
	Started   time.Duration // 3s: for reading a saga after its start and the wait for its end; then its starter gets it as it began
	Command   time.Duration // 10s: how long an order waits to be carried out
	Poll      time.Duration // 100ms: between looks at a journal that another node writes
	Heartbeat time.Duration // 15s: between comments on a quiet event stream
	Polls     int           // 1,000: claims that may wait for tasks at once
	Look      time.Duration // 250ms: between their looks for tasks, give or take a fifth
	CostSagas int           // 200,000: sagas that a question about costs goes through
	Costs     time.Duration // 5s: for how long its answer is kept
	Listed    int           // 1,500: sagas that a list looks at before it answers with what it has found
}

func (l *Limits) defaults() {
	set(&l.Body, 1<<20)
	set(&l.Document, 4<<20)
	set(&l.Request, 30*time.Second)
	set(&l.Key, 4*time.Second)
	set(&l.KeyLook, time.Second)
	set(&l.Wait, 60*time.Second)
	set(&l.Started, 3*time.Second)
	set(&l.Command, 10*time.Second)
	set(&l.Poll, 100*time.Millisecond)
	set(&l.Heartbeat, 15*time.Second)
	set(&l.Polls, 1000)
	set(&l.Look, 250*time.Millisecond)
	set(&l.CostSagas, 200_000)
	set(&l.Costs, 5*time.Second)
	set(&l.Listed, 1500)
}

func set[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

type server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	polls   polls
	scraped scrapers
	lock    keyLock
	buckets buckets
	schema  []byte // of definitions, for editors
	spent   recentCosts

	triggers *trigger.Starter
}

// New returns the API as a handler.
func New(cfg Config) http.Handler { return headAsGet(newServer(cfg)) }

// headAsGet answers HEAD as GET, without the body: the server that calls it leaves that out.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			get := *r
			get.Method = http.MethodGet
			r = &get
		}
		next.ServeHTTP(w, r)
	})
}

func newServer(cfg Config) *echo.Echo {
	cfg.Limits.defaults()
	s := &server{cfg: cfg, log: cfg.Log, schema: definitionSchema(cfg.Catalog), spent: newRecentCosts(), scraped: scrapers{seen: make(map[string]journal.APIKey)}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.buckets.rates = cfg.Rates
	s.lock.closed.Store(cfg.RequireKeys && !cfg.NoAuth)
	s.metrics = newMetrics(cfg)
	s.triggers = trigger.New(trigger.Config{Store: cfg.Store, Catalog: cfg.Catalog, Engine: cfg.Engine, Vars: cfg.Vars, Log: s.log})
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect() // the default trusts headers that anyone can send
	e.HTTPErrorHandler = s.respondError
	e.Pre(s.observe)
	e.Pre(s.guard)
	for _, r := range s.routes() {
		e.Add(r.method, r.path, s.serve(r))
	}
	return e
}
