package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/api/mcp"
	"recourse/catalog"
	"recourse/internal/archive"
	"recourse/internal/oauth"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/ask/relay"
	"recourse/saga/machine"
	"recourse/trigger"
)

// Engine runs sagas. The API uses only these methods of it.
type Engine interface {
	// Start makes a saga durable and runs it. With follow, the result reports the saga's end if it
	// ends on this node, until Stop is called. Errors: saga.ErrBusy; saga.ErrUnavailable;
	// journal.ErrStartKey and journal.ErrUnique, with the id of the existing saga;
	// journal.ErrNotNewest; the error of ctx if it is unknown whether the saga was started.
	Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error)
	// StartAs is like Start without follow, for an id that the caller chooses. It also returns
	// journal.ErrConflict or journal.ErrStartKey if the saga exists already, and
	// journal.ErrParentEnded.
	StartAs(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error
	// Submit is like Start without follow, but returns before the commit, so that starts share
	// commits. wait, which must be called once, returns the saga's id when the start is durable.
	Submit(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData) (wait func(context.Context) (uuid.UUID, error), err error)
	// Confirm makes sure that a saga which was found by reading is as durable as one that was
	// started here. Errors: saga.ErrUnavailable, the error of ctx.
	Confirm(ctx context.Context) error
	// Send stores a message for a saga. Error: journal.ErrNotFound.
	Send(ctx context.Context, m journal.Message) error
	// Ask brings a command to a saga that this node runs, and reports whether it has: see
	// engine.Engine.
	Ask(ctx context.Context, id, message uuid.UUID, c saga.Command) bool
	// Watch returns a channel that receives a value after a saga's journal may have grown. It only
	// shortens the wait for the next poll: signals may be missing. stop ends it.
	Watch(id uuid.UUID) (grown <-chan struct{}, stop func())
	// Follow is Watch for a caller that reads the journal, too: see engine.Engine.
	Follow(id uuid.UUID) *journal.Feed
	// LastSeq returns the seq of the last record of a session that this node runs, and false for
	// any other.
	LastSeq(session uuid.UUID) (seq int64, ok bool)
	// Ready reports whether the engine accepts starts.
	Ready() bool
	// Now is the store's clock.
	Now() time.Time
}

// EngineStats are the figures of an engine in /metrics and /v1/system: counts since the engine was
// created, and its present load.
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
	Unheld        int64
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
	Node          string // "" while the node has no lease
	Lanes         int
}

// Config configures the API. Store, Catalog and Engine are required.
type Config struct {
	Store   journal.Store
	Catalog *catalog.Catalog
	Engine  Engine
	Vars    map[string]json.RawMessage // the server's variables; a start stores those that its definition reads
	Log     *slog.Logger               // nil: discard

	// RequireKeys refuses requests without an API key from the start. Without it they are refused
	// as soon as the store has a key. Until then anyone who can connect is an admin, and requests
	// that a web page may have made a browser send are refused.
	RequireKeys bool
	// NoAuth accepts requests without an API key even if the store has keys. A key that is sent is
	// checked nevertheless.
	NoAuth bool
	// Hosts are names under which clients may address the server while keys are not required,
	// besides loopback names and IP addresses.
	Hosts []string

	// OAuth verifies access tokens, which the MCP server takes besides keys; nil: it takes none.
	OAuth *oauth.Verifier
	// PublicURL is the address of this server in the metadata for OAuth, without a slash at the
	// end; "": that of each request.
	PublicURL string

	// Streams connects agents with the responses of models that this node asks for them.
	Relay *relay.Relay // nil: new ones, that no response arrives on

	// Replay answers the requests of an agent from the journal of its session; nil: they are
	// carried out.
	Replay Replay

	EngineStats  func() EngineStats     // nil: /metrics and /v1/system omit them
	OutboxStats  func() []OutboxStats   // nil: likewise omitted
	Archive      *archive.Reader        // nil: none
	ArchiveStats func() ArchiveStats    // nil: likewise omitted
	Collectors   []prometheus.Collector // additional collectors for /metrics
	Version      string                 // the program's version, shown by the index unless empty
	Done         <-chan struct{}        // closed when the server stops, which ends streams and waits; nil: never
	Limits       Limits
	Rates        Rates // rate limits of each principal; zero: none
}

// Limits bound the resources of one request. A zero field takes the default in its comment.
type Limits struct {
	Body int64 // 1 MiB: size of a request's body
	// Document bounds a body that may contain a definition (JSON escapes enlarge it) or a task's
	// output: 4 MiB.
	Document int64
	Batch    int64         // 8 MiB: size of a batch of starts, of which each has at most Body
	Request  time.Duration // 30s: time of a request, besides the wait that it asked for
	Key      time.Duration // 4s: timeout of the lookup of an API key; half of it for /metrics
	KeyPoll  time.Duration // 1s: interval between checks whether the store has its first API key
	Wait     time.Duration // 60s: maximum wait of `Prefer: wait` and of a claim of tasks
	// Started bounds the time of reading a saga after its start: 3s. Then the response shows the
	// saga as it began.
	Started   time.Duration
	Command   time.Duration // 10s: how long a command waits until a node has applied it
	Poll      time.Duration // 100ms: poll interval for a journal that another node writes
	Heartbeat time.Duration // 15s: interval between comments on an idle event stream
	Polls     int           // 1,000: claims that may wait for tasks concurrently
	TaskPoll  time.Duration // 250ms: poll interval for tasks of one set of types, ± 20 %
	CostSagas int           // 200,000: sagas that one request for costs may read
	Costs     time.Duration // 5s: how long the result is cached
	Listed    int           // 1,500: sagas that a list scans before it returns a page, even a short one
	Tool      time.Duration // 45s: how long a tool of an MCP client waits for the end of its call
	ToolNote  time.Duration // 5s: interval between notes of its progress
}

func (l *Limits) defaults() {
	l.Body = cmp.Or(l.Body, 1<<20)
	l.Document = cmp.Or(l.Document, 4<<20)
	l.Batch = cmp.Or(l.Batch, 8<<20)
	l.Request = cmp.Or(l.Request, 30*time.Second)
	l.Key = cmp.Or(l.Key, 4*time.Second)
	l.KeyPoll = cmp.Or(l.KeyPoll, time.Second)
	l.Wait = cmp.Or(l.Wait, 60*time.Second)
	l.Started = cmp.Or(l.Started, 3*time.Second)
	l.Command = cmp.Or(l.Command, 10*time.Second)
	l.Poll = cmp.Or(l.Poll, 100*time.Millisecond)
	l.Heartbeat = cmp.Or(l.Heartbeat, 15*time.Second)
	l.Polls = cmp.Or(l.Polls, 1000)
	l.TaskPoll = cmp.Or(l.TaskPoll, 250*time.Millisecond)
	l.CostSagas = cmp.Or(l.CostSagas, 200_000)
	l.Costs = cmp.Or(l.Costs, 5*time.Second)
	l.Listed = cmp.Or(l.Listed, 1500)
	l.Tool = cmp.Or(l.Tool, 45*time.Second)
	l.ToolNote = cmp.Or(l.ToolNote, 5*time.Second)
}

type server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	polls   polls
	scraped scrapers
	lock    keyLock
	agents  agentKeys
	buckets buckets
	schema  []byte // the JSON Schema of definitions
	spent   recentCosts
	asked   lifeMemory
	// sessions are the sessions in memory.
	sessions sharedSessions

	replays  chan struct{} // has room for one request that replays sagas
	triggers *trigger.Starter
	mcp      *mcp.Handler
	tool     http.Handler // the API for the MCP server
	scopes   supportedScopes
	tools    toolCache
}

// New returns the handler of the API.
func New(cfg Config) http.Handler { return headAsGet(newServer(cfg)) }

// headAsGet serves HEAD as GET. net/http omits the body of the response.
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
	if cfg.Relay == nil {
		cfg.Relay = relay.New()
	}
	s := &server{cfg: cfg, log: cfg.Log, schema: definitionSchema(cfg.Catalog), spent: newRecentCosts(), replays: make(chan struct{}, 1), scraped: scrapers{seen: make(map[string]journal.APIKey)}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.buckets.rates = cfg.Rates
	s.lock.closed.Store(cfg.RequireKeys && !cfg.NoAuth)
	s.metrics = newMetrics(cfg)
	s.triggers = trigger.New(trigger.Config{Store: cfg.Store, Catalog: cfg.Catalog, Engine: cfg.Engine, Vars: cfg.Vars, Log: s.log})
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect() // the default trusts headers that every client can set
	e.HTTPErrorHandler = s.respondError
	e.Pre(s.observe)
	e.Pre(s.guard)
	s.mcp = s.newMCP(e)
	for _, r := range s.routes() {
		e.Add(r.method, r.path, s.serve(r))
	}
	return e
}
