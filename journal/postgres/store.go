// Package postgres is a journal.Store in PostgreSQL, for any number of nodes.
//
// An Append is one round trip and usually one statement, which has the fence, the new rows, the
// records and the changed rows. All times that decide anything are the database's. Nothing relies
// on sequences across sagas, nor on LISTEN/NOTIFY, which only shortens the wait for a poll.
// Advisory locks keep a node from being taken over while it writes, a claim of tasks from being
// repeated while its first attempt is in flight, and two nodes from changing partitions at once.
//
// Behind a pooler in transaction mode, add default_query_exec_mode=exec to the DSN. Then no
// prepared statements, session settings or LISTEN are used.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/internal/pgsession"
	"recourse/internal/pgsync"
	"recourse/internal/recount"
	"recourse/journal"
	"recourse/journal/packed"
	"recourse/migrations"
)

// Options configure Open.
type Options struct {
	Migrate bool // run missing migrations; false: refuse a database that needs them
	// MaxConns is how many connections at most read, and as many write; 0: pool_max_conns of the
	// DSN, or pgx's default. The lease and LISTEN have others.
	MaxConns int32
	// ReadOnly opens the database only for reading: its transactions cannot write (except behind a
	// pooler, see the package comment), and a role with read permissions suffices. There are no
	// hints. Migrate is ignored.
	ReadOnly bool
	Memory   Memory // zero: nothing is known from an earlier process
}

// Store implements journal.Store.
type Store struct {
	pool    pool   // reads
	w       pool   // writes of lanes: appends and claims
	rest    lender // all other writes, on connections of w, of which it leaves some to lanes
	lease   pool   // the leases of nodes, so that a renewal waits for nothing else
	preset  bool   // the connections have the settings below
	counted *recount.Kept[journal.Stats]
	outbox  *recount.Kept[[]journal.OutboxStat]
	hints   chan struct{}
	stop    context.CancelFunc // stops the listener and the lookout
	work    sync.WaitGroup     // the goroutines that stop stops

	removeBytes int64

	spans  atomic.Pointer[spans]  // the partitions of the journal; nil: not known
	drops  sync.Map               // name of a partition → when to try again to drop it
	claims sync.Mutex             // one Claim at a time
	lost   map[string][]uuid.UUID // node → sagas of a Claim with an unknown result

	lineage      *lineage
	dictionaries packed.Dictionaries
}

var _ journal.Store = (*Store)(nil)

// settings limit how long a stuck statement, lock or client blocks others. The last one releases
// the locks of a frozen node, so that it can be taken over.
var settings = map[string]string{
	"statement_timeout":                   "30s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "10s",
	"application_name":                    "recourse",
	// JIT compilation takes longer than it saves, because queries are short or nobody waits for
	// them. It took 60 ms for a list of nodes that takes 0.1 ms when the planner's costs were
	// wrong, because a table had just grown.
	"jit": "off",
	// A plan for any saga would lock and open all partitions of the journal, and the planner makes
	// one after a few executions, only to compare it.
	"plan_cache_mode": "force_custom_plan",
}

// planned makes the server plan each writing statement once, with an index lookup for each given
// row. The planner's statistics may be older than the rows and say that tables are empty.
var planned = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// A single statement cannot set its isolation level otherwise: see begin.
	"default_transaction_isolation": "read committed",
}

const (
	// leaseConns is one connection, and one that replaces it while it is found to be broken.
	leaseConns = 2
	// leaseConnect is the timeout of a connection for leases: one that the network swallows must
	// not be in the way of the next for longer than a renewal waits.
	leaseConnect = 5 * time.Second
)

// Open connects to the database that dsn names (a URL, or key=value pairs). It returns the errors
// of migrations.Check if this program cannot use the database.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	ours := !pgsession.Pooled(cfg.ConnConfig)
	if o.ReadOnly && ours {
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	writing := cfg.Copy()
	line := &lineage{memory: o.Memory, system: o.Memory.System, timeline: o.Memory.Timeline}
	around := newLookout(line, cfg.ConnConfig)
	around.check(ctx)
	pgsession.Prepare(cfg.ConnConfig, settings, line.check)
	both := maps.Clone(settings)
	maps.Copy(both, planned)
	pgsession.Prepare(writing.ConnConfig, both, line.check)
	leasing := writing.Copy()
	leasing.MaxConns, leasing.MinConns, leasing.MinIdleConns = leaseConns, 0, 0
	leasing.ConnConfig.ConnectTimeout = min(cmp.Or(leasing.ConnConfig.ConnectTimeout, leaseConnect), leaseConnect)
	pools, err := newPools(ctx, line, cfg, writing, leasing)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Store{pool: pools[0], w: pools[1], rest: pools[1].leavingSome(), lease: pools[2], preset: ours, removeBytes: removeBytes, hints: make(chan struct{}, 1), stop: stop, lost: map[string][]uuid.UUID{}, lineage: line}
	s.counted, s.outbox = recount.New(s.count), recount.New(s.countEvents)
	if err := s.prepare(ctx, dsn, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open postgres: %w", err), s.Close())
	}
	s.work.Go(func() { around.run(listening) })
	if !o.ReadOnly && ours { // a pooler would pass the listening connection on to other clients
		s.work.Go(func() { s.listen(listening, cfg.ConnConfig.Copy()) })
	}
	return s, nil
}

// prepare checks the opened database and migrates it.
func (s *Store) prepare(ctx context.Context, dsn string, o Options) error {
	check := migrations.Check
	if o.Migrate && !o.ReadOnly {
		check = migrations.Up
	}
	if !o.ReadOnly {
		if err := pgsync.Await(ctx, s.w); err != nil {
			return err
		}
	}
	if err := check(ctx, migrations.Postgres(dsn, s.lineage.check)); err != nil {
		return err
	}
	db := s.w
	if o.ReadOnly {
		db = s.pool
	}
	if err := s.reconcileInstallation(ctx, db, o.ReadOnly); err != nil || o.ReadOnly {
		return err
	}
	if o.Migrate && s.ensureSpans(ctx) == nil { // Reclaim tries again, and returns the error
		return nil
	}
	_, err := s.readSpans(ctx)
	return err
}

// Ping implements journal.Store. It locks no row, with a statement that a read-only database
// refuses.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.w.Exec(ctx, `SELECT id FROM nodes LIMIT 0 FOR UPDATE`); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// Hints implements journal.Store.
func (s *Store) Hints() <-chan struct{} { return s.hints }

func (s *Store) hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// Close closes all connections after the calls in flight.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	s.counted.Close()
	s.outbox.Close()
	for _, p := range []pool{s.pool, s.w, s.lease} {
		p.Close()
	}
	return nil
}

// nowMS is the database's clock in milliseconds.
const nowMS = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// sql replaces {now} in a query with the clock. As a scalar subquery the clock is read once per
// statement, so that it can be compared with an index.
func sql(query string) string {
	return strings.ReplaceAll(query, "{now}", "(SELECT "+nowMS+")")
}
