// Package sqlite is a journal.Store in one SQLite file, for one serving process at a time.
//
// Writes go through one connection, each in a BEGIN IMMEDIATE transaction that is on disk before it
// is acknowledged (WAL, synchronous=FULL). Reads have their own connections and never wait for a
// write. From Register until Release or Close, or until it dies, the serving process locks the file
// next to the database whose name ends in .lock. Meanwhile other processes may read, send messages,
// publish and manage keys.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"recourse/internal/recount"
	"recourse/journal"
	"recourse/migrations"
)

// Options configure Open.
type Options struct {
	Migrate bool // run missing migrations; false: refuse a database that needs them
	// ReadOnly opens the file only for reading: it must exist, nothing in it changes, and methods
	// that write fail. A server may use the file meanwhile. Migrate is ignored.
	ReadOnly bool
	Readers  int              // connections that read; 0: 4
	Now      func() time.Time // the store's clock; nil: time.Now
}

// Store implements journal.Store.
type Store struct {
	path    string
	now     func() time.Time
	w       *writer
	r       *sql.DB
	reads   sync.Map // prepared statements of read, by text
	counted *recount.Kept[journal.Stats]
	outbox  *recount.Kept[[]journal.OutboxStat]
	hints   chan struct{}

	pingEvery time.Duration
	removeFor time.Duration
	pinged    atomic.Pointer[time.Time] // when a ping last committed

	mu   sync.Mutex
	lock *os.File // locked since Register

	beats heartbeats

	claims sync.Mutex        // one Claim at a time
	lost   []journal.Claimed // sagas that a Claim with an unknown result may have taken
}

var _ journal.Store = (*Store)(nil)

const (
	busyTimeout = "busy_timeout(10000)"
	// flushTimeout is how long flush waits for readers. The other transactions wait with it.
	flushTimeout = "busy_timeout(100)"
	// eraseDeleted overwrites deleted data with zeros. Otherwise SQLite leaves it in freed pages,
	// and leaves copies of rows that it has moved to other pages.
	eraseDeleted = "secure_delete(ON)"
	// leaveDeleted does so only in pages that are written anyway.
	leaveDeleted = "secure_delete(FAST)"
	// The log is copied to the file after about 4 MB, which is SQLite's default with pages of 4 KB.
	// A smaller one would copy pages that change often more often.
	pragmas  = "?_pragma=" + busyTimeout + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)&_pragma=" + eraseDeleted
	readOnly = "?mode=ro&_pragma=" + busyTimeout + "&_pragma=query_only(1)"
)

// Open opens the file at path and creates it if it does not exist. It returns the errors of
// migrations.Check if this program cannot use the database.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	check, database := migrations.Check, migrations.SQLite(path)
	reading, writing := pragmas+"&_pragma=query_only(1)", pragmas
	switch {
	case o.ReadOnly:
		database, reading, writing = migrations.SQLiteReadOnly(path), readOnly, readOnly
	case o.Migrate:
		check = migrations.Up
	}
	if err := check(ctx, database); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	w, err := openWriter(ctx, migrations.FileURI(path)+writing)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	r, err := sql.Open("sqlite", migrations.FileURI(path)+reading)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), w.close())
	}
	r.SetMaxOpenConns(o.Readers)
	r.SetMaxIdleConns(o.Readers)
	s := &Store{path: path, now: o.Now, w: w, r: r, hints: make(chan struct{}, 1), pingEvery: pingEvery, removeFor: removeFor}
	s.counted, s.outbox = recount.New(s.count), recount.New(s.countEvents)
	return s, nil
}

// Ping implements journal.Store. It commits a row and its deletion, because a full disk is detected
// only at the commit. A ping soon after a successful one rolls back instead, so that frequent pings
// do not keep the disk busy.
func (s *Store) Ping(ctx context.Context) error {
	err := s.w.do(ctx, func(t *tx) error {
		if _, err := t.exec(`INSERT INTO nodes (id, expires_at) VALUES ('ping', 0)`); err != nil {
			return err
		}
		if last := s.pinged.Load(); last != nil && time.Since(*last) < s.pingEvery {
			return errTakenBack
		}
		_, err := t.exec(`DELETE FROM nodes WHERE id = 'ping'`)
		return err
	})
	if errors.Is(err, errTakenBack) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	now := time.Now()
	s.pinged.Store(&now)
	return nil
}

var errTakenBack = errors.New("taken back")

// pingEvery is the shortest time between two pings that commit.
const pingEvery = time.Second

// Hints implements journal.Store. Messages from other processes give no hint.
func (s *Store) Hints() <-chan struct{} { return s.hints }

func (s *Store) hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// Close closes the file and releases its lock.
func (s *Store) Close() error {
	s.counted.Close()
	s.outbox.Close()
	err := errors.Join(s.w.close(), s.r.Close())
	return errors.Join(err, s.unlock())
}

func (s *Store) clock() int64 { return s.now().UnixMilli() }
