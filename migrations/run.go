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
	// ErrNewer means that a newer version of the program migrated the database.
	ErrNewer = errors.New("the database is newer than this program: run the version that migrated it, or a later one")
	// ErrBehind means that the database lacks steps.
	ErrBehind = errors.New("the database lacks migrations: run `recourse migrate up`")
	// ErrUnreleased means that a build from before the first release made the database, with an
	// initial step that has been replaced since.
	ErrUnreleased = errors.New("the database is of an earlier build, from before the first release, and cannot be migrated: start with a new database")
)

// Database is a database to migrate.
type Database struct {
	dialect string
	source  fs.FS // the steps are in a directory named after the dialect
	open    func() (*sql.DB, error)
	exists  string // query: does the version table exist
	// lock prevents other processes from migrating until unlock. nil: the transaction's own lock
	// does.
	lock func(ctx context.Context) (unlock func() error, err error)
	// begun is the first statement of a migration's transaction: it waits for the end of any other
	// migration. "": lock does that.
	begun string
	// ready is called if a step is missing; an error ends the migration before it begins. nil: a
	// commit never waits for another machine.
	ready func(context.Context, *sql.DB) error
}

// advisoryKey is the advisory lock of a migration's transaction on Postgres: "recourse" in ASCII.
const advisoryKey = "8243104023334515557"

// idle is how long a migration's transaction on Postgres may wait for its program: one that is
// frozen would keep the lock, and all others would wait for it.
const idle = "30s"

// Postgres returns the database with a DSN, which may have pgxpool's options. If two processes
// migrate it at the same time, one waits for the other on an advisory lock of its transaction. A
// session lock could remain in a server connection that a pooler has passed on to another client.
// The checks run on each new connection.
func Postgres(dsn string, checks ...pgsession.Check) Database {
	return Database{
		dialect: "postgres",
		source:  FS,
		open: func() (*sql.DB, error) {
			pool, err := pgxpool.ParseConfig(dsn) // accepts the pool's options, too
			if err != nil {
				return nil, err
			}
			c := pool.ConnConfig
			pgsession.Prepare(c, map[string]string{"idle_in_transaction_session_timeout": idle}, checks...)
			// A step has many statements, and poolers support this mode.
			c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			return stdlib.OpenDB(*c), nil
		},
		exists: `SELECT to_regclass('schema_migrations') IS NOT NULL`,
		begun:  `SELECT pg_advisory_xact_lock(` + advisoryKey + `)`,
		ready:  awaitStandby,
	}
}

// awaitStandby returns pgsync.ErrNoStandby, after a while, if the commit would wait forever.
func awaitStandby(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error { return pgsync.Await(ctx, driver.(*stdlib.Conn).Conn()) })
}

// sqlitePage is the page size of new files, in bytes. A commit writes each page that it changes,
// and a saga changes a few hundred bytes of each. The size must be set before journal_mode creates
// the file, which the driver does after all _pragma.
const sqlitePage = "1024"

// SQLite returns the database in a file. If two processes migrate it at the same time, one waits
// for the other on a lock of the file next to it whose name ends in .migrate.lock.
func SQLite(path string) Database {
	return Database{
		dialect: "sqlite",
		source:  FS,
		open: func() (*sql.DB, error) {
			return sql.Open("sqlite", FileURI(path)+"?_pragma=busy_timeout(10000)&_pragma=page_size("+sqlitePage+")&_journal_mode=WAL&_pragma=synchronous(FULL)")
		},
		exists: `SELECT count(*) > 0 FROM sqlite_master WHERE name = 'schema_migrations'`,
		lock:   func(ctx context.Context) (func() error, error) { return lockFile(ctx, path+".migrate.lock") },
	}
}

// SQLiteReadOnly returns the database in a file for Check and Version, which then do not change the
// file.
func SQLiteReadOnly(path string) Database {
	d := SQLite(path)
	d.open = func() (*sql.DB, error) {
		return sql.Open("sqlite", FileURI(path)+"?mode=ro&_pragma=busy_timeout(10000)")
	}
	return d
}

// FileURI returns the URI of a path for SQLite, whatever characters the path has.
func FileURI(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

// Up runs the steps that the database lacks, all in one transaction. If none is missing it takes no
// lock. Errors: ErrNewer; pgsync.ErrNoStandby, with what to do, if the commit would wait for a
// standby and none has connected for ten seconds.
func Up(ctx context.Context, d Database) error {
	return d.run(ctx, func(_, newest int) int { return newest })
}

// Down reverts the last steps. Reverting the first step deletes all sagas. Errors: see Up.
func Down(ctx context.Context, d Database, steps int) error {
	if steps <= 0 {
		return fmt.Errorf("migrate down: %d steps: it must be at least 1", steps)
	}
	return d.run(ctx, func(at, _ int) int { return max(at-steps, 0) })
}

// Version returns the current step of the database (0: none) and the newest step of this program.
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

// Check returns nil if the database has exactly the steps of this program, else ErrNewer, ErrBehind
// or ErrUnreleased.
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
	if err := d.migratable(at); err != nil {
		return err
	}
	if at < newest {
		return fmt.Errorf("%w (it is at step %d, this program needs step %d)", ErrBehind, at, newest)
	}
	return nil
}

// migratable returns ErrNewer or ErrUnreleased if this program cannot migrate a database that is at
// a step.
func (d Database) migratable(at int) error {
	first, newest, err := d.numbers()
	switch {
	case err != nil:
		return fmt.Errorf("check migrations: %w", err)
	case at > newest:
		return fmt.Errorf("%w (it is at step %d, this program has steps up to %d)", ErrNewer, at, newest)
	case at > 0 && at < first:
		return fmt.Errorf("%w (it is at step %d, this program has steps from %d on)", ErrUnreleased, at, first)
	}
	return nil
}

func (d Database) version(ctx context.Context, db *sql.DB) (at, newest int, err error) {
	if _, newest, err = d.numbers(); err != nil {
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

// numbers returns the lowest and the highest number of the dialect's steps.
func (d Database) numbers() (first, newest int, err error) {
	entries, err := fs.ReadDir(d.source, d.dialect)
	if err != nil {
		return 0, 0, err
	}
	for i, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0, 0, fmt.Errorf("migration %s has no number", e.Name())
		}
		if i == 0 {
			first = n
		}
		first, newest = min(first, n), max(newest, n)
	}
	return first, newest, nil
}

// run migrates the database to a step.
func (d Database) run(ctx context.Context, to func(at, newest int) int) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, ErrNewer) && !errors.Is(err, ErrUnreleased) {
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
	if err := d.migratable(at); err != nil || to(at, newest) == at {
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
	// Another process may have migrated in the meantime. The driver creates the table if it does
	// not exist. That also gives the next statement a new snapshot on Postgres, which waiting for
	// an advisory lock alone does not.
	at, _, err := driver.Version()
	if err != nil {
		return err
	}
	at = max(at, 0)
	first, newest, err := d.numbers()
	if err != nil {
		return err
	}
	if err := d.migratable(at); err != nil {
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
	case goal < first:
		err = m.Down()
	default:
		err = m.Migrate(uint(goal))
	}
	closed, _ := m.Close() // the driver's Close does nothing
	return errors.Join(err, closed, ctx.Err())
}
