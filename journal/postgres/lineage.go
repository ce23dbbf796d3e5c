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

// ErrWentBack means that the server is not the database that was used before: it is an old primary,
// or another database. Nothing is read from it or written to it.
var ErrWentBack = errors.New("this server is not the database that was served before")

// Memory is what a program knows about the database from its earlier processes. With it, Open
// returns ErrWentBack for a server of another cluster or on an earlier timeline, as an open store
// does.
type Memory struct {
	System   string // the last known system identifier; "": none
	Timeline int64  // the latest known timeline; 0: none
	// Keep is called with both values when the database is opened and each time that one of them
	// changes. nil: they are not kept.
	Keep func(system string, timeline int64)
	// Place is the file that has these values; errors name it.
	Place string
}

// lineage is the known history of the database: its cluster, by the system identifier, and its
// timeline, which increases with each failover (PostgreSQL's manual, 26.3.6 Timelines). A server on
// an earlier timeline is refused, so a node that has seen the new primary never uses the old one
// again. This is not a fence: a node that has not seen the new primary continues with the old one.
// If the URL names several servers, each is checked when the database is opened and from time to
// time; see lookout.go.
type lineage struct {
	mu       sync.Mutex
	memory   Memory           // the last values kept
	agreed   bool             // the database's own row agrees with the known position, so that it may be kept
	system   string           // "": not known yet
	timeline int64            // 0: not known yet
	blind    error            // why the server does not report its position; nil: it does, or was not asked yet
	nodes    map[string]int64 // node → timeline on which it was registered
	rival    error            // result of the last check of all servers
	moved    chan struct{}    // closed when a later timeline is seen; nil while nothing waits for that
}

// point is the position of a server in that history.
type point struct {
	system   string
	timeline int64 // 0: the server is a standby
}

// serverPosition reads the position in one round trip. WAL file names begin with the timeline;
// pg_control_checkpoint has the timeline of the last checkpoint, which may be the previous one.
const serverPosition = `SELECT (SELECT system_identifier FROM pg_control_system()),
	CASE WHEN pg_is_in_recovery() THEN '0' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END`

// timelineKey is the key under which a connection stores its point.
const timelineKey = "recourse.timeline"

// check checks a server before its connection is used.
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

// locate reads the position of a server.
func locate(ctx context.Context, conn *pgconn.PgConn) (point, error) {
	results, err := conn.Exec(ctx, serverPosition).ReadAll()
	if err != nil {
		return point{}, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return point{}, errors.New("the server does not report its position")
	}
	timeline, err := strconv.ParseInt(string(results[0].Rows[0][1]), 16, 64)
	if err != nil {
		return point{}, fmt.Errorf("the server's timeline: %w", err)
	}
	return point{string(results[0].Rows[0][0]), timeline}, nil
}

// withheld recognizes a server that does not report its position: the role lacks the permission, or
// the server only speaks PostgreSQL's protocol.
func withheld(err error) bool {
	switch code(err) {
	case "42501", "42883", "0A000": // insufficient_privilege, undefined_function, feature_not_supported
		return true
	}
	return false
}

// observe compares the position of a server with the known one, and stores the later one.
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
		return fmt.Errorf("%w: it is on timeline %d, and the database is on timeline %d. It is an old primary that others may still write to: "+
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

// agree records that the database's own row agrees with the known position. Nothing is kept before
// that, so a database that is refused, for example because --database is wrong, leaves no trace.
func (l *lineage) agree() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agreed = true
	l.keep()
}

// keep stores the known position in the memory. The caller has the lock, so no server is used
// before its position is stored.
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

// usable reports whether a pooled connection is on the latest known timeline. A connection to an
// old primary stays open when another server is promoted.
func (l *lineage) usable(_ context.Context, conn *pgx.Conn) (bool, error) {
	timeline, known := conn.PgConn().CustomData()[timelineKey].(int64)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !known || timeline == 0 || timeline == l.timeline, nil
}

// registered stores the timeline on which a node registers, and returns it.
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

// fence returns ErrFenced for a node that was registered before the last failover: commits that it
// knows of may have been lost.
func (l *lineage) fence(node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began, known := l.nodes[node]; known && began < l.timeline {
		return fmt.Errorf("%w: the database has failed over from timeline %d to %d", journal.ErrFenced, began, l.timeline)
	}
	return nil
}

// of returns the timeline on which a node was registered.
func (l *lineage) of(node string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[node]
}

// rivalServer returns what the last check of all servers found.
func (l *lineage) rivalServer() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rival
}

// current checks the server again, because a pooler may have moved the connection to another
// server, and then the node.
func (s *Store) current(ctx context.Context, node string) error {
	conn, err := s.lease.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.release()
	if err := conn.raw(func(c *pgconn.PgConn) error { return s.lineage.check(ctx, c) }); err != nil {
		return err
	}
	return s.lineage.fence(node)
}

// reconcileInstallation compares the known position with the database's own row, and updates the
// row unless the store is read-only.
func (s *Store) reconcileInstallation(ctx context.Context, db pool, readOnly bool) error {
	var system string
	var timeline int64
	err := db.QueryRow(ctx, `SELECT system::text, timeline FROM installation`).Scan(&system, &timeline)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	s.lineage.mu.Lock()
	seen, blind := point{s.lineage.system, s.lineage.timeline}, s.lineage.blind
	s.lineage.mu.Unlock()
	if blind != nil || seen.system == "" {
		return nil //nolint:nilerr // the table may be empty
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
	_, err = db.Exec(ctx, `INSERT INTO installation (id, system, timeline) VALUES (gen_random_uuid(), $1::text::bigint, $2)
		ON CONFLICT (one) DO UPDATE SET timeline = GREATEST(installation.timeline, excluded.timeline)`, seen.system, seen.timeline)
	return err
}
