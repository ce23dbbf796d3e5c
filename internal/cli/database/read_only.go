package database

import (
	"context"
	"fmt"
	"os"
	"strings"

	"recourse/internal/cli"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
)

// OpenReadOnly opens a database read-only.
func OpenReadOnly(ctx context.Context, database string) (journal.Store, error) {
	if IsPostgres(database) {
		s, err := postgres.Open(ctx, database, postgres.Options{ReadOnly: true})
		if err != nil {
			return nil, Describe(database, err)
		}
		return s, nil
	}
	if i := strings.Index(database, "://"); i > 0 {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--database %s…: only postgres:// is known; anything else is the name of a SQLite file", database[:i+3]))
	}
	if info, err := os.Stat(database); err != nil || !info.Mode().IsRegular() {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--database %s is no file that is there", database))
	}
	s, err := sqlite.Open(ctx, database, sqlite.Options{ReadOnly: true})
	if err != nil {
		return nil, DescribeLocked(database, Describe(database, err))
	}
	return s, nil
}

// DescribeLocked returns advice about a SQLite file that cannot be read at present.
func DescribeLocked(database string, err error) error {
	switch text := err.Error(); {
	case IsPostgres(database):
	case strings.Contains(text, "database is locked"):
		return cli.Exit(cli.Unreachable, fmt.Errorf("%s is locked by another process: try again, or make a copy (sqlite3 %s \".backup copy.db\") and verify that", database, database))
	case strings.Contains(text, "unable to open database file"):
		return cli.Exit(cli.Usage, fmt.Errorf("%s cannot be opened where it is: copy it, and the file next to it that ends in -wal if there is one, into a directory of your own, and verify that", database))
	}
	return err
}
