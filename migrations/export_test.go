package migrations

import (
	"database/sql"
	"io/fs"
)

// WithSteps returns a database that is migrated by other steps than the program's.
func WithSteps(d Database, steps fs.FS) Database {
	d.source = steps
	return d
}

// Open opens the database as a migration does.
func Open(d Database) (*sql.DB, error) { return d.open() }
