package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"recourse/internal/pgsession"
	"recourse/internal/pgsync"
)

// Errors of Up and Check.
var (
	// ErrNewer: the database was migrated by a newer release than this one.
	ErrNewer = errors.New("the database is newer than this program: run the release that migrated it, or a later one")
	// ErrBehind: steps are missing.
	ErrBehind = errors.New("the database lacks migrations: run `recourse migrate up`")
)

// Database is where to migrate.
type Database struct {
	dialect string
	source  fs.FS // in a directory named after the dialect
	open    func() (*sql.DB, error)
	exists  string // query: is there a version table
	// lock keeps other processes from migrating until unlock; nil: the transaction's own lock does.
	lock func(ctx context.Context) (unlock func() error, err error)
	// begun is the first statement of a migration's transaction: it waits for the end of any other
	// migration. "": lock does.
	begun string
	// ready is called when a step is missing; an error ends the migration before it begins. nil:
	// nothing keeps a commit waiting.
	ready func(context.Context, *sql.DB) error
}

// advisoryKey is the lock that a migration's transaction takes on Postgres: "recourse" in ASCII.
const advisoryKey = "8243104023334515557"

// Postgres names a database by its DSN, pgxpool's options included. Two processes that migrate it
// at the same time wait for each other on an advisory lock of their transactions. A session's lock
// would stay behind in a server's connection that a pooler has given to somebody else meanwhile.
// The checks are of each connection that it makes.
func Postgres(dsn string, checks ...pgsession.Check) Database {
	return Database{
		dialect: "postgres",
		source:  FS,
		open: func() (*sql.DB, error) {
			pool, err := pgxpool.ParseConfig(dsn) // which knows the pool's options too
			if err != nil {
				return nil, err
			}
			c := pool.ConnConfig
			pgsession.Prepare(c, nil, checks...)
			c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a step is many statements; and no pooler minds it
			return stdlib.OpenDB(*c), nil
		},
		exists: `SELECT to_regclass('schema_migrations') IS NOT NULL`,
		begun:  `SELECT pg_advisory_xact_lock(` + advisoryKey + `)`,
		ready:  awaitStandby,
	}
}

// awaitStandby returns pgsync.ErrNoStandby where the commit would wait forever, after a while.
func awaitStandby(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error { return pgsync.Await(ctx, driver.(*stdlib.Conn).Conn()) })
}

// SQLite names a database by its file. Two processes that migrate it at the
// same time wait for each other on a lock on the file next to it that ends in
// .migrate.lock.
func SQLite(path string) Database {
	return Database{
		dialect: "sqlite",
		source:  FS,
		open: func() (*sql.DB, error) {
			return sql.Open("sqlite", FileURI(path)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		},
		exists: `SELECT count(*) > 0 FROM sqlite_master WHERE name = 'schema_migrations'`,
		lock:   func(ctx context.Context) (func() error, error) { return lockFile(ctx, path+".migrate.lock") },
	}
}

// SQLiteReadOnly names a database by its file for Check and Version, which then change nothing
// about it.
func SQLiteReadOnly(path string) Database {
	d := SQLite(path)
	d.open = func() (*sql.DB, error) {
		return sql.Open("sqlite", FileURI(path)+"?mode=ro&_pragma=busy_timeout(10000)")
	}
	return d
}

// FileURI is how SQLite is given a path, whatever characters it has.
func FileURI(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

// Up runs the steps that the database lacks, all in one transaction. Where none is missing it takes
// no lock. It returns ErrNewer without touching such a database, and pgsync.ErrNoStandby, with what
// to do, where the commit would wait for a standby that has not come for ten seconds.
func Up(ctx context.Context, d Database) error {
	return d.run(ctx, func(_, newest int) int { return newest })
}

// Down undoes the last steps. All sagas go with the first one. Its errors are those of Up.
func Down(ctx context.Context, d Database, steps int) error {
	if steps <= 0 {
		return fmt.Errorf("migrate down: %d steps: name at least one", steps)
	}
	return d.run(ctx, func(at, _ int) int { return max(at-steps, 0) })
}

// Version returns the step the database stands at (0: none) and the newest that this
// program has.
func Version(ctx context.Context, d Database) (at, newest int, err error) {
	db, err := d.open()
	if err != nil {
		return 0, 0, fmt.Errorf("migration version: %w", err)
	}
	defer db.Close()
	at, newest, err = d.version(ctx, db)
	if err != nil {
		return 0, 0, fmt.Errorf("migration version: %w", err)
	}
	return at, newest, nil
}

// Check returns nil if the database is just as this program needs it, or ErrNewer or ErrBehind.
func Check(ctx context.Context, d Database) error {
	db, err := d.open()
	if err != nil {
		return fmt.Errorf("check migrations: %w", err)
	}
	defer db.Close()
	at, newest, err := d.version(ctx, db)
	if err != nil {
		return fmt.Errorf("check migrations: %w", err)
	}
	if at < newest {
		return fmt.Errorf("%w (it is at %d, this program needs %d)", ErrBehind, at, newest)
	}
	return newer(at, newest)
}

func newer(at, newest int) error {
	if at > newest {
		return fmt.Errorf("%w (it is at %d, this program knows %d)", ErrNewer, at, newest)
	}
	return nil
}

func (d Database) version(ctx context.Context, db *sql.DB) (at, newest int, err error) {
	if newest, err = d.newest(); err != nil {
		return 0, 0, err
	}
	var exists bool
	if err := db.QueryRowContext(ctx, d.exists).Scan(&exists); err != nil || !exists {
		return 0, newest, err
	}
	err = db.QueryRowContext(ctx, `SELECT version FROM schema_migrations`).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, newest, nil
	}
	return at, newest, err
}

// newest is the highest number among the dialect's steps.
func (d Database) newest() (int, error) {
	entries, err := fs.ReadDir(d.source, d.dialect)
	if err != nil {
		return 0, err
	}
	newest := 0
	for _, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0, fmt.Errorf("migration %s has no number", e.Name())
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// run takes the database to a step.
func (d Database) run(ctx context.Context, to func(at, newest int) int) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, ErrNewer) {
			err = fmt.Errorf("migrate: %w", err)
		}
	}()
	db, err := d.open()
	if err != nil {
		return err
	}
	defer db.Close()
	at, newest, err := d.version(ctx, db)
	if err != nil {
		return err
	}
	if err := newer(at, newest); err != nil || to(at, newest) == at {
		return err
	}
	if d.ready != nil {
		if err := d.ready(ctx, db); err != nil {
			return err
		}
	}
	if d.lock != nil {
		unlock, err := d.lock(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := d.steps(ctx, tx, to); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// steps runs steps in a transaction.
func (d Database) steps(ctx context.Context, tx *sql.Tx, to func(at, newest int) int) error {
	driver := &transaction{ctx: ctx, tx: tx, begun: d.begun}
	if err := driver.Lock(); err != nil {
		return fmt.Errorf("lock the database for migrating: %w", err)
	}
	// Another process may have migrated meanwhile. The driver makes the table if there is none,
	// which also has Postgres look again whether there is: waiting for an advisory lock alone does
	// not.
	at, _, err := driver.Version()
	if err != nil {
		return err
	}
	at = max(at, 0)
	newest, err := d.newest()
	if err != nil {
		return err
	}
	if err := newer(at, newest); err != nil {
		return err
	}
	src, err := iofs.New(d.source, d.dialect)
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", src, d.dialect, driver)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	defer context.AfterFunc(ctx, func() { m.GracefulStop <- true })()
	switch goal := to(at, newest); {
	case goal == at:
	case goal == 0:
		err = m.Down()
	default:
		err = m.Migrate(uint(goal))
	}
	closed, _ := m.Close() // the driver's part of it does nothing
	return errors.Join(err, closed, ctx.Err())
}
