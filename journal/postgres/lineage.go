package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"recourse/journal"
)

// ErrWentBack says that the server that was reached is not the database as it was seen before: it
// is an old primary, or another database. Nothing is read from it or written to it.
var ErrWentBack = errors.New("this server is not the database that was served before")

// Memory is what is known of a database beyond the life of one process. With it Open returns
// ErrWentBack for a server of another system, or on an earlier timeline, as a store that is open
// does.
type Memory struct {
	System   string // the system identifier that was seen last; "": none was
	Timeline int64  // the latest that was seen; 0: none was
	// Keep is told both when the database is opened and each time that they change. nil: nothing is
	// kept.
	Keep func(system string, timeline int64)
	// Place is the file that keeps them, for errors to name.
	Place string
}

// lineage is what is known of the database's history: which cluster it is, by its system
// identifier, and on which timeline, which grows with each fail-over (PostgreSQL's manual, 26.3.6
// Timelines). A server that is behind is refused, so that a node that has seen the new primary
// never works with the old one again. It is no fence: a node that has not seen the new one yet goes
// on with the old one. Where the URL names several servers, each of them is looked at when the
// database is opened, and from time to time; see lookout.go.
type lineage struct {
	mu       sync.Mutex
	memory   Memory           // what was kept last
	agreed   bool             // the database's own row agrees with what was seen, so that it may be kept
	system   string           // "" while it is not known
	timeline int64            // 0 while it is not known
	blind    error            // why the server does not say; nil: it does, or was not asked yet
	nodes    map[string]int64 // node → the timeline that it was registered on
	rival    error            // what the last look at all servers found
	moved    chan struct{}    // closed when a later timeline is seen; nil until somebody waits for that
}

// point is where a connection's server stands.
type point struct {
	system   string
	timeline int64 // 0: of a standby
}

// serverPosition asks for it in one round trip. WAL's file names begin with the timeline;
// pg_control_checkpoint tells the last checkpoint's, which may be the one before.
const serverPosition = `SELECT (SELECT system_identifier FROM pg_control_system()),
	CASE WHEN pg_is_in_recovery() THEN '0' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END`

// timelineKey is where a connection has its point.
const timelineKey = "recourse.timeline"

// check looks at a server before its connection is used.
func (l *lineage) check(ctx context.Context, conn *pgconn.PgConn) error {
	at, err := locate(ctx, conn)
	if withheld(err) {
		l.mu.Lock()
		l.blind = err
		l.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	conn.CustomData()[timelineKey] = at.timeline
	return l.observe(at)
}

// locate asks a server where it stands.
func locate(ctx context.Context, conn *pgconn.PgConn) (point, error) {
	results, err := conn.Exec(ctx, serverPosition).ReadAll()
	if err != nil {
		return point{}, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return point{}, errors.New("the server does not say where it stands")
	}
	timeline, err := strconv.ParseInt(string(results[0].Rows[0][1]), 16, 64)
	if err != nil {
		return point{}, fmt.Errorf("the server's timeline: %w", err)
	}
	return point{string(results[0].Rows[0][0]), timeline}, nil
}

// withheld recognizes a server that does not tell what a lineage asks for: a role without the
// right, or a server that only speaks PostgreSQL's protocol.
func withheld(err error) bool {
	switch code(err) {
	case "42501", "42883", "0A000": // insufficient_privilege, undefined_function, feature_not_supported
		return true
	}
	return false
}

// observe compares where a server stands with what was seen before, and remembers the later one.
func (l *lineage) observe(at point) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.system != "" && at.system != l.system:
		forget := ""
		if l.memory.Place != "" {
			forget = " remove " + l.memory.Place + " on each node,"
		}
		return fmt.Errorf("%w: its system identifier is %s, and the database's is %s. If it was restored or upgraded to another cluster on purpose, stop all nodes, "+
			"run DELETE FROM installation there,%s and start them again; otherwise correct --database", ErrWentBack, at.system, l.system, forget)
	case at.timeline != 0 && at.timeline < l.timeline:
		forget := ""
		if l.memory.Place != "" {
			forget = ". If it was restored from a backup on purpose, stop all nodes, remove " + l.memory.Place + " on each, and start them again"
		}
		return fmt.Errorf("%w: it is on timeline %d, and the database has gone on to timeline %d. It is an old primary that others may still write to: "+
			"stop it, and make it a standby of the new one (pg_rewind)%s", ErrWentBack, at.timeline, l.timeline, forget)
	}
	if at.timeline > l.timeline && l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
	l.system, l.timeline = at.system, max(l.timeline, at.timeline)
	l.keep()
	return nil
}

// agree says that the database's own row agrees with what was seen. Before that nothing is kept: a
// database that is refused, as --database names the wrong one, leaves no trace.
func (l *lineage) agree() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agreed = true
	l.keep()
}

// keep has the memory hold what is known. The caller holds the lock: nobody uses a server before it
// is kept where that stands.
func (l *lineage) keep() {
	m := &l.memory
	if !l.agreed || m.Keep == nil || m.System == l.system && m.Timeline == l.timeline {
		return
	}
	m.System, m.Timeline = l.system, l.timeline
	m.Keep(m.System, m.Timeline)
}

// later returns a channel that is closed when a later timeline is seen.
func (l *lineage) later() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved == nil {
		l.moved = make(chan struct{})
	}
	return l.moved
}

// usable tells whether a connection of a pool is of the timeline that was seen last: one to an old
// primary stays open when another is promoted.
func (l *lineage) usable(_ context.Context, conn *pgx.Conn) (bool, error) {
	timeline, known := conn.PgConn().CustomData()[timelineKey].(int64)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !known || timeline == 0 || timeline == l.timeline, nil
}

// registered notes on which timeline a node begins, and returns it.
func (l *lineage) registered(node string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = make(map[string]int64)
	}
	l.nodes[node] = l.timeline
	return l.timeline
}

func (l *lineage) released(nodes ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		delete(l.nodes, node)
	}
}

// fence returns ErrFenced for a node that was registered before the last fail-over: what it knows
// may have been lost with it.
func (l *lineage) fence(node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began, known := l.nodes[node]; known && began < l.timeline {
		return fmt.Errorf("%w: the database has failed over from timeline %d to %d", journal.ErrFenced, began, l.timeline)
	}
	return nil
}

// of is the timeline that a node was registered on.
func (l *lineage) of(node string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[node]
}

// rivalServer is what the last look at all servers found.
func (l *lineage) rivalServer() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rival
}

// current looks at the server once more, for a pooler may have gone to another behind a connection,
// and then at the node.
func (s *Store) current(ctx context.Context, node string) error {
	conn, err := s.w.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.release()
	if err := conn.raw(func(c *pgconn.PgConn) error { return s.lineage.check(ctx, c) }); err != nil {
		return err
	}
	return s.lineage.fence(node)
}

// reconcileInstallation compares what was seen with the database's own row, and brings the row up
// to date unless the store only reads.
func (s *Store) reconcileInstallation(ctx context.Context, readOnly bool) error {
	var system string
	var timeline int64
	db := s.w // its connections have just been used, where a node registers
	if readOnly {
		db = s.pool
	}
	err := db.QueryRow(ctx, `SELECT system::text, timeline FROM installation`).Scan(&system, &timeline)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	s.lineage.mu.Lock()
	seen, blind := point{s.lineage.system, s.lineage.timeline}, s.lineage.blind
	s.lineage.mu.Unlock()
	if blind != nil || seen.system == "" {
		return nil
	}
	if err == nil {
		if err := (&lineage{system: system, timeline: timeline}).observe(seen); err != nil && seen.timeline > 0 {
			return err
		}
	}
	s.lineage.agree()
	if readOnly || seen == (point{system, timeline}) {
		return nil
	}
	_, err = s.w.Exec(ctx, `INSERT INTO installation (id, system, timeline) VALUES (gen_random_uuid(), $1::text::bigint, $2)
		ON CONFLICT (one) DO UPDATE SET timeline = GREATEST(installation.timeline, excluded.timeline)`, seen.system, seen.timeline)
	return err
}
