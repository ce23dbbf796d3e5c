// Package postgres keeps sagas in PostgreSQL, for any number of nodes.
//
// An Append is one round trip, and most of the time one statement: the fence, the
// new rows, the records, the changed rows. All times that decide anything are
// the database's. Nothing relies on sequences across sagas, on LISTEN/NOTIFY, which is
// only a hint over a poll, or on advisory locks, but for a claim of tasks that is
// repeated while the first try is under way.
//
// Behind a pooler that works by transaction, add default_query_exec_mode=exec to
// the DSN: no prepared statements, no session settings and no LISTEN are used then.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/internal/pgsession"
	"recourse/internal/pgsync"
	"recourse/internal/recount"
	"recourse/journal"
	"recourse/migrations"
)

// Options are what Open may be told.
type Options struct {
	Migrate  bool  // run missing migrations; false: refuse such a database
	MaxConns int32 // of those that read, and of those that write; 0: what the DSN says (pool_max_conns), or pgx's default
	// ReadOnly opens the database for looking at only: its transactions refuse to write (not behind
	// a pooler, see above), and a login that may only read will do. There are no hints. Migrate is
	// left out of account.
	ReadOnly bool
	Memory   Memory // the zero value: nothing is known from before
}

// Store implements journal.Store.
type Store struct {
	pool    pool // reads
	w       pool // writes: appends, claims, mail
	preset  bool // the connections have our settings
	counted *recount.Kept[journal.Stats]
	hints   chan struct{}
	stop    context.CancelFunc // ends the listener and the lookout
	work    sync.WaitGroup     // what stop ends

	claims sync.Mutex             // one Claim at a time
	lost   map[string][]uuid.UUID // node → sagas whose claim may have been committed, see Claim

	lineage *lineage
}

var _ journal.Store = (*Store)(nil)

// settings bound what a stuck statement, lock or client can hold up. The last one
// frees the locks of a frozen node, so that it can be taken over.
var settings = map[string]string{
	"statement_timeout":                   "30s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "10s",
	"application_name":                    "recourse",
	// Queries are short, or nobody waits for them: compiling takes longer than it saves, 60 ms for
	// a list of nodes that takes 0.1 ms, wherever the planner's costs are wrong because a table has
	// just grown.
	"jit": "off",
}

// planned has the statements that write planned once, and to look into an index for each row that
// they are given, whatever the planner believes of tables that it has not counted yet: it has seen
// them empty.
var planned = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// A statement by itself has no other place to say so: see begin.
	"default_transaction_isolation": "read committed",
}

// Open connects to the database that dsn names (a URL, or key=value pairs). It
// returns the errors of migrations.Check for a database that this program cannot
// work on.
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
	around.look(ctx)
	pgsession.Prepare(cfg.ConnConfig, settings, line.check)
	both := maps.Clone(settings)
	maps.Copy(both, planned)
	pgsession.Prepare(writing.ConnConfig, both, line.check)
	for _, c := range []*pgxpool.Config{cfg, writing} {
		c.PrepareConn = line.usable
		c.ConnConfig.OnNotice = noticed
	}
	conns, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	writers, err := pgxpool.NewWithConfig(ctx, writing)
	if err != nil {
		conns.Close()
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Store{pool: newPool(conns), w: newPool(writers), preset: ours, hints: make(chan struct{}, 1), stop: stop, lost: map[string][]uuid.UUID{}, lineage: line}
	s.counted = recount.New(s.count)
	if err := s.prepare(ctx, dsn, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open postgres: %w", err), s.Close())
	}
	s.work.Go(func() { around.run(listening) })
	if !o.ReadOnly && ours { // a pooler gives the connection that listens to others
		s.work.Go(func() { s.listen(listening, cfg.ConnConfig.Copy()) })
	}
	return s, nil
}

// prepare looks at the database that was opened, and brings it up to date.
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
	return s.reconcileInstallation(ctx, o.ReadOnly)
}

// Ping implements journal.Store: it asks for a lock on no row, which a read-only database refuses.
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

// Close closes all connections, after the calls under way.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	s.counted.Close()
	s.pool.Close()
	s.w.Close()
	return nil
}

// nowMS is the database's clock in milliseconds.
const nowMS = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// sql puts the clock where a query says {now}. As a sub-select it is read once per
// statement, so that an index can be searched with it.
func sql(query string) string {
	return strings.ReplaceAll(query, "{now}", "(SELECT "+nowMS+")")
}
