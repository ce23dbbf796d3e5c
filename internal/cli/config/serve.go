package config

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"recourse/internal/archive"
	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/journal"
	"recourse/saga/dsl"
)

// ServeFlags are the flags of `serve`, which `doctor` accepts, too.
type ServeFlags struct {
	database.Flag
	Listen      string   `default:"127.0.0.1:8080" env:"RECOURSE_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on. Any address but loopback requires API keys. Default ${default}."`
	NoAuth      bool     `name:"no-auth" env:"RECOURSE_NO_AUTH" help:"Require no API key although the database has some; only on a loopback address."`
	EgressAllow []string `env:"RECOURSE_EGRESS_ALLOW" placeholder:"HOST|CIDR" help:"Host or network that steps may call, in addition to public addresses; repeatable."`
	DialFlags
	SecretDir string `env:"RECOURSE_SECRET_DIR" placeholder:"DIR" help:"Directory with a file for each secret, besides RECOURSE_SECRET_<NAME>."`
	Vars      string `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables, in addition to RECOURSE_VAR_<name>."`
	LLMFlags
	OAuthFlags
	TracesFlag
	TraceURL       traceURL      `env:"RECOURSE_TRACE_URL" placeholder:"URL" help:"URL of a trace, with {trace_id} for its id, for links in the web UI. Default: no links."`
	Config         string        `env:"RECOURSE_CONFIG" placeholder:"FILE" help:"YAML file of flag names and values; flags and environment variables take precedence."`
	Strict         bool          `env:"RECOURSE_STRICT" help:"Refuse definitions with warnings."`
	NodeLease      time.Duration `default:"15s" env:"RECOURSE_NODE_LEASE" help:"Time after which another node takes over the sagas of a node that died."`
	StateDir       string        `env:"RECOURSE_STATE_DIR" placeholder:"DIR" help:"A local directory for this process only. After a crash, the next process with this directory resumes its sagas at once. On PostgreSQL, the process also refuses to start on an old primary, if the directory shows that it is one. Default: none; the sagas wait until the lease expires."`
	RequireSync    bool          `name:"require-sync" env:"RECOURSE_REQUIRE_SYNC" help:"Refuse starts while the database's commits do not wait for a synchronous standby."`
	Drain          time.Duration `default:"30s" env:"RECOURSE_DRAIN" help:"Time for attempts in flight to finish when the server stops."`
	Retention      retention     `default:"30d" env:"RECOURSE_RETENTION" placeholder:"DURATION" help:"Time that ended sagas are kept if their definition has no retention; at least 1m, or forever. Default ${default}."`
	Archive        string        `env:"RECOURSE_ARCHIVE" placeholder:"URL" help:"Archive for ended sagas: a directory, file:///DIR, or none. When their retention has ended, sagas are stored there, read back, and only then deleted from the database. Default: they are deleted, unless the database has an archive already; none: they are deleted in any case."`
	ArchiveWait    time.Duration `default:"24h" env:"RECOURSE_ARCHIVE_WAIT" help:"Time that sagas wait at most after their retention, so that many are archived together. Default ${default}."`
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

// NoArchive is the value of --archive with which expired sagas are deleted in any case.
const NoArchive = "none"

// Check returns an error if `serve` cannot start with the flags, whatever the database is like.
func (c *ServeFlags) Check() error {
	wrong := ""
	switch {
	case c.RequireSync && !database.IsPostgres(c.Database):
		wrong = "--require-sync needs PostgreSQL, since a SQLite file has no standby: leave it out, or set --database to a postgres:// URL"
	case c.NodeLease < time.Second || c.Drain < 0 || c.Lanes < 0:
		wrong = "--node-lease is at least 1s, --drain at least 0s, --lanes at least 1"
	case c.StalledAfter < time.Second:
		wrong = "--stalled-after is at least 1s"
	case c.ArchiveWait < 0:
		wrong = "--archive-wait is at least 0s"
	default:
		if _, err := c.Loopback(); err != nil {
			return err
		}
		_, err := c.PageURL()
		return err
	}
	return cli.Exit(cli.Usage, errors.New(wrong))
}

// Loopback reports whether only this machine can reach --listen.
func (c *ServeFlags) Loopback() (bool, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // asks no other machine
	}
	if err != nil {
		return false, cli.Exit(cli.Usage, fmt.Errorf("--listen %s: write host:port, such as 127.0.0.1:8080 or :8080", c.Listen))
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if c.NoAuth && !loopback {
		return false, cli.Exit(cli.Usage, fmt.Errorf("--no-auth is for loopback addresses, and --listen %s can be reached from other machines: leave it out, or listen on 127.0.0.1", c.Listen))
	}
	return loopback, nil
}

// OpenArchive opens the archive; nil if there is none.
func (c *ServeFlags) OpenArchive(ctx context.Context) (archive.Bucket, error) {
	if c.Archive == "" || c.Archive == NoArchive {
		return nil, nil
	}
	b, err := archive.Open(ctx, c.Archive)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--archive: %w", err))
	}
	return b, nil
}

// ArchiveDir returns the directory of the archive; "" if there is none.
func (c *ServeFlags) ArchiveDir() (string, error) {
	if c.Archive == "" || c.Archive == NoArchive {
		return "", nil
	}
	return archive.Dir(c.Archive)
}

// LaneCount returns the number of lanes for a database. SQLite runs one transaction at a time. Each
// lane commits separately, so more lanes mean smaller batches; another lane helps only if one core
// is saturated.
func (c *ServeFlags) LaneCount() int {
	switch {
	case c.Lanes > 0:
		return c.Lanes
	case database.IsPostgres(c.Database):
		return min(max(runtime.GOMAXPROCS(0)/2, 1), 8)
	}
	return 1
}

// PageURL returns the public URL of this server, without a slash at the end; "" if that is the
// address on which it listens.
func (c *ServeFlags) PageURL() (string, error) {
	if c.PublicURL == "" {
		return "", nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", cli.Exit(cli.Usage, errors.New("--public-url is a URL such as https://recourse.example, optionally with a path, without query or fragment"))
	}
	return strings.TrimRight(c.PublicURL, "/"), nil
}

// Access says which requests are accepted.
type Access struct {
	Required bool
	Says     string // text for the operator
}

// CheckAccess refuses an address that other machines can reach while there is no valid key. For the
// requirement of keys an expired key counts: a server that requires keys must not stop doing so
// when the last one expires. store is nil if the database is yet to be made.
func (c *ServeFlags) CheckAccess(ctx context.Context, store journal.Store) (Access, error) {
	loopback, err := c.Loopback()
	if err != nil {
		return Access{}, err
	}
	var keys []journal.APIKey
	if store != nil {
		if keys, err = store.ListKeys(ctx); err != nil {
			return Access{}, fmt.Errorf("look for API keys: %w", err)
		}
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
		return Access{}, cli.Exit(cli.Usage, fmt.Errorf("--listen %s can be reached from other machines, and the database has no API key that is good: "+
			another+", or listen on 127.0.0.1", c.Listen))
	case c.NoAuth:
		return Access{Says: "No API key is required (--no-auth): everyone who can connect, also through a proxy on this machine, is an admin."}, nil
	case len(keys) == 0:
		return Access{Says: "The database has no API key: everyone who can connect, also through a proxy on this machine, is an admin. Once it has one, every request needs one: " + another + "."}, nil
	case good == 0:
		return Access{Required: true, Says: "Every request needs an API key, and all that the database has are expired: " + another + "."}, nil
	}
	return Access{Required: true, Says: "Every request needs an API key: the web UI asks for it, the command line reads RECOURSE_API_KEY. On a loopback address --no-auth disables this."}, nil
}
