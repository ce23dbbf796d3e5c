// Package sqlite keeps sagas in one SQLite file, for one serving process at a
// time.
//
// Writes go through one connection, each in a BEGIN IMMEDIATE transaction that
// is on disk before it is acknowledged (WAL, synchronous=FULL). Reads have
// connections of their own and never wait for a write. The serving process
// holds a lock on the file next to the database that ends in .lock, from
// Register until Release or Close or its death; other processes may read, post
// mail, publish and manage keys meanwhile.
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

// Options are what Open may be told.
type Options struct {
	Migrate bool // run missing migrations; false: refuse such a database
	// ReadOnly opens the file for looking at only: it has to be there, nothing about it changes,
	// and methods that write fail. A server may run on it. Migrate is left out of account.
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
	reads   sync.Map // the statements of read, by their text
	counted *recount.Kept[journal.Stats]
	hints   chan struct{}

	pingEvery time.Duration
	pinged    atomic.Pointer[time.Time] // when a ping last went all the way

	mu   sync.Mutex
	lock *os.File // held from Register on

	claims sync.Mutex        // one Claim at a time
	lost   []journal.Claimed // what a Claim may have taken whose COMMIT has no known end
}

var _ journal.Store = (*Store)(nil)

const (
	pragmas  = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	readOnly = "?mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"
)

// Open opens the file at path, which is made if need be. It returns the errors of
// migrations.Check for a database that this program cannot work on.
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
	s := &Store{path: path, now: o.Now, w: w, r: r, hints: make(chan struct{}, 1), pingEvery: pingEvery}
	s.counted = recount.New(s.count)
	return s, nil
}

// Ping implements journal.Store: it commits a row that is gone again, for a disk that is full shows
// at the commit, not before. Pings soon after one that went through take theirs back instead:
// whoever asks often must not keep the disk busy.
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

// pingEvery is how often a ping goes all the way to the disk, at most.
const pingEvery = time.Second

// Hints implements journal.Store. What other processes post gives no hint.
func (s *Store) Hints() <-chan struct{} { return s.hints }

func (s *Store) hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// Close closes the file and frees its lock.
func (s *Store) Close() error {
	s.counted.Close()
	err := errors.Join(s.w.close(), s.r.Close())
	return errors.Join(err, s.unlock())
}

func (s *Store) clock() int64 { return s.now().UnixMilli() }
