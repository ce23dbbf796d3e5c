// Package database opens the database that a command names, and describes errors of it in one line
// that says what to do.
package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"recourse/internal/cli"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
	"recourse/migrations"
)

// IsPostgres reports whether database is a PostgreSQL URL, not a SQLite file.
func IsPostgres(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}

// Open opens the database. With migrate it applies migrations first.
func Open(ctx context.Context, database string, migrate bool) (journal.Store, error) {
	if IsPostgres(database) {
		return OpenPostgres(ctx, database, postgres.Options{Migrate: migrate})
	}
	if err := CheckFile(database, migrate); err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, database, sqlite.Options{Migrate: migrate})
	if err != nil {
		return nil, Describe(database, err)
	}
	return s, nil
}

// OpenPostgres opens a PostgreSQL database.
func OpenPostgres(ctx context.Context, database string, o postgres.Options) (journal.Store, error) {
	s, err := postgres.Open(ctx, database, o)
	if err != nil {
		return nil, Describe(database, err)
	}
	return s, nil
}

// ForMigrations returns a database for migrations; create allows a new file.
func ForMigrations(database string, create bool) (migrations.Database, error) {
	if IsPostgres(database) {
		return migrations.Postgres(database), nil
	}
	return migrations.SQLite(database), CheckFile(database, create)
}

// CheckFile detects common mistakes with files, for all of which SQLite says "unable to open
// database file".
func CheckFile(path string, create bool) error {
	if i := strings.Index(path, "://"); i > 0 {
		return cli.Exit(cli.Usage, fmt.Errorf("--database %s…: only postgres:// is known; anything else is the name of a SQLite file", path[:i+3]))
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Exit(cli.Usage, fmt.Errorf("the directory %s of --database %s does not exist: create it, or name another file", dir, path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return cli.Exit(cli.Usage, fmt.Errorf("--database %s is a directory: name a file in it", path))
	} else if err != nil && !create {
		return cli.Exit(cli.Usage, fmt.Errorf("there is no database %s: `recourse serve` or `recourse migrate up` makes it", path))
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("--database %s cannot be written: check the permissions of the file and of its directory", path))
	}
	return f.Close()
}

// Describe describes a database error in one line, without the URL's password.
func Describe(database string, err error) error {
	var config *pgconn.ParseConfigError
	var connect *pgconn.ConnectError
	var network *net.OpError
	switch {
	case errors.Is(err, migrations.ErrNewer), errors.Is(err, migrations.ErrBehind), errors.Is(err, migrations.ErrUnreleased):
		return err
	case errors.Is(err, postgres.ErrWentBack):
		return cli.Exit(cli.Failed, errors.New(wentBack(err)))
	case errors.As(err, &config):
		return cli.Exit(cli.Usage, errors.New("--database is not a PostgreSQL URL: write postgres://user:password@host:5432/name"))
	case full(err):
		return cli.Exit(cli.Unreachable, fmt.Errorf("PostgreSQL has no connection left for recourse: end what uses too many, lower pool_max_conns in --database (each node "+
			"opens twice as many, and three more), raise the limit, or put a pooler in between: %s", lastLine(err)))
	case errors.As(err, &connect), errors.As(err, &network):
		return cli.Exit(cli.Unreachable, fmt.Errorf("PostgreSQL cannot be reached or refuses the login; check the host, the user and the database in --database: %s", lastLine(err)))
	case !IsPostgres(database) && strings.Contains(err.Error(), "not a database"):
		return cli.Exit(cli.Usage, fmt.Errorf("--database %s is not a SQLite file: name another", database))
	}
	return err
}

// full recognizes too_many_connections, of a server, a database or a role, and the corresponding
// errors of poolers.
func full(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "53300" || strings.Contains(e.Message, "no more connections allowed"))
}

// wentBack returns the error about a server that has lost commits, with its address. The driver
// reports each server that it tried on a line of its own.
func wentBack(err error) string {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if strings.Contains(line, postgres.ErrWentBack.Error()) {
			return strings.Replace(strings.TrimSpace(line), "ValidateConnect failed: ", "", 1)
		}
	}
	return lastLine(err)
}

func lastLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// Flag selects the database.
type Flag struct {
	Database string `default:"recourse.db" env:"RECOURSE_DATABASE" placeholder:"FILE|URL" help:"A SQLite file, or postgres://…; default ${default}."`
}

// Name names a database in a sentence, without its URL, which may contain a password.
func Name(database string) string {
	if IsPostgres(database) {
		return "the PostgreSQL database"
	}
	return "database " + database
}

// Kind names a database without its URL, which may contain a password.
func Kind(database string) string {
	if IsPostgres(database) {
		return "postgres"
	}
	return "sqlite"
}
