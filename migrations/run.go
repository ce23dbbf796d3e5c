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
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	sqlitemigrate "github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Errors of Up and Check.
var (
	// ErrNewer: the database was migrated by a newer release than this one.
	ErrNewer = errors.New("the database is newer than this program: run the release that migrated it, or a later one")
	// ErrBehind: steps are missing.
	ErrBehind = errors.New("the database lacks migrations: run `recourse migrate up`")
	// ErrDirty: a migration was cut off, or is under way.
	ErrDirty = errors.New("a migration was cut off, or is under way: run `recourse migrate up`, which finishes it")
)

// Database is where to migrate.
type Database struct {
	dialect string
	open    func() (*sql.DB, error)
	driver  func(*sql.DB) (database.Driver, error)
	exists  string // query: is there a version table
	column  string // query: does the table have the column
	// lock covers reading the version too, which the driver's own locks do not: while a
	// step runs it stands there as dirty.
	lock func(ctx context.Context) (unlock func() error, err error)
}

// Postgres names a database by its DSN, pgxpool's options included. Two processes that migrate it at the
// same time wait for each other on an advisory lock.
func Postgres(dsn string) Database {
	open := func() (*sql.DB, error) {
		c, err := pgxpool.ParseConfig(dsn) // which knows the pool's options too
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*c.ConnConfig), nil
	}
	return Database{
		dialect: "postgres",
		open:    open,
		lock:    func(ctx context.Context) (func() error, error) { return lockAdvisory(ctx, open) },
		driver: func(db *sql.DB) (database.Driver, error) {
			return pgxmigrate.WithInstance(db, &pgxmigrate.Config{})
		},
		exists: `SELECT to_regclass('schema_migrations') IS NOT NULL`,
		column: `SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2)`,
	}
}

// SQLite names a database by its file. Two processes that migrate it at the
// same time wait for each other on a lock on the file next to it that ends in
// .migrate.lock.
func SQLite(path string) Database {
	return Database{
		dialect: "sqlite",
		open: func() (*sql.DB, error) {
			return sql.Open("sqlite", FileURI(path)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		},
		driver: func(db *sql.DB) (database.Driver, error) {
			return sqlitemigrate.WithInstance(db, &sqlitemigrate.Config{})
		},
		exists: `SELECT count(*) > 0 FROM sqlite_master WHERE name = 'schema_migrations'`,
		column: `SELECT EXISTS (SELECT 1 FROM pragma_table_info($1) WHERE name = $2) OR EXISTS (SELECT 1 FROM pragma_index_info($1) WHERE name = $2)`,
		lock:   func(ctx context.Context) (func() error, error) { return lockFile(ctx, path+".migrate.lock") },
	}
}

// SQLiteReadOnly names a database by its file for Check and Version, which then change nothing about it.
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

// Up runs the steps that the database lacks, each in a transaction. It returns
// ErrNewer without touching such a database, and finishes what was cut off.
func Up(ctx context.Context, d Database) error {
	return d.run(ctx, func(m *migrate.Migrate) error { return m.Up() })
}

// Down undoes the last steps. All sagas go with the first one.
func Down(ctx context.Context, d Database, steps int) error {
	if steps <= 0 {
		return fmt.Errorf("migrate down: %d steps: name at least one", steps)
	}
	return d.run(ctx, func(m *migrate.Migrate) error { return m.Steps(-steps) })
}

// Version returns the step the database stands at (0: none) and the newest that this
// program has.
func Version(ctx context.Context, d Database) (at, newest int, err error) {
	db, err := d.open()
	if err != nil {
		return 0, 0, fmt.Errorf("migration version: %w", err)
	}
	defer db.Close()
	at, newest, _, err = d.version(ctx, db)
	if err != nil {
		return 0, 0, fmt.Errorf("migration version: %w", err)
	}
	return at, newest, nil
}

// Check returns nil if the database is just as this program needs it, or ErrNewer,
// ErrBehind or ErrDirty.
func Check(ctx context.Context, d Database) error {
	db, err := d.open()
	if err != nil {
		return fmt.Errorf("check migrations: %w", err)
	}
	defer db.Close()
	at, newest, dirty, err := d.version(ctx, db)
	if err != nil {
		return fmt.Errorf("check migrations: %w", err)
	}
	if err := judge(at, newest, dirty); err != nil {
		return err
	}
	if at < newest {
		return fmt.Errorf("%w (it is at %d, this program needs %d)", ErrBehind, at, newest)
	}
	return nil
}

func judge(at, newest int, dirty bool) error {
	switch {
	case at > newest:
		return fmt.Errorf("%w (it is at %d, this program knows %d)", ErrNewer, at, newest)
	case dirty:
		return fmt.Errorf("%w (step %d)", ErrDirty, at)
	}
	return nil
}

func (d Database) version(ctx context.Context, db *sql.DB) (at, newest int, dirty bool, err error) {
	if newest, err = d.newest(); err != nil {
		return 0, 0, false, err
	}
	var exists bool
	if err := db.QueryRowContext(ctx, d.exists).Scan(&exists); err != nil || !exists {
		return 0, newest, false, err
	}
	err = db.QueryRowContext(ctx, `SELECT version, dirty FROM schema_migrations`).Scan(&at, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, newest, false, nil
	}
	return at, newest, dirty, err
}

// newest is the highest number among the dialect's steps.
func (d Database) newest() (int, error) {
	entries, err := fs.ReadDir(FS, d.dialect)
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

func (d Database) run(ctx context.Context, do func(*migrate.Migrate) error) (err error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	db, err := d.open()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer db.Close()
	at, newest, dirty, err := d.version(ctx, db)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := judge(at, newest, false); err != nil {
		return err
	}
	if dirty {
		if err := d.repair(ctx, db); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	if err := d.steps(ctx, db, do); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (d Database) steps(ctx context.Context, db *sql.DB, do func(*migrate.Migrate) error) error {
	src, err := iofs.New(FS, d.dialect)
	if err != nil {
		return err
	}
	driver, err := d.driver(db)
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", src, d.dialect, driver)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	err = do(m)
	srcErr, dbErr := m.Close()
	return errors.Join(err, srcErr, dbErr)
}
