package migrations

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

// transaction is one transaction as golang-migrate's database driver. That library's own drivers
// lock a session, which a pooler may give to somebody else while the lock stays behind, and they
// commit each step by itself, so that a step that is cut off leaves a database that has to be
// repaired. Here all steps and the version commit together, or not at all.
type transaction struct {
	ctx   context.Context
	tx    *sql.Tx
	begun string // see Database
}

var errNotHere = errors.New("not part of a migration in one transaction")

// Open implements database.Driver; the transaction is there already.
func (t *transaction) Open(string) (database.Driver, error) { return nil, errNotHere }

// Drop implements database.Driver; nothing here drops a database.
func (t *transaction) Drop() error { return errNotHere }

// Close implements database.Driver. Whoever began the transaction ends it.
func (t *transaction) Close() error { return nil }

// Lock waits for the end of any other migration. The lock ends with the transaction.
func (t *transaction) Lock() error {
	if t.begun == "" {
		return nil
	}
	_, err := t.tx.ExecContext(t.ctx, t.begun)
	return err
}

// Unlock implements database.Driver; see Lock.
func (t *transaction) Unlock() error { return nil }

// Run runs the statements of one step.
func (t *transaction) Run(step io.Reader) error {
	text, err := io.ReadAll(step)
	if err != nil {
		return err
	}
	_, err = t.tx.ExecContext(t.ctx, string(text))
	return err
}

// versionTable is the table that golang-migrate's own drivers make, too. No commit ever leaves
// dirty true.
const versionTable = `CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`

// SetVersion writes down at which step the database stands; -1 is none.
func (t *transaction) SetVersion(version int, dirty bool) error {
	if _, err := t.tx.ExecContext(t.ctx, versionTable); err != nil {
		return err
	}
	if _, err := t.tx.ExecContext(t.ctx, `DELETE FROM schema_migrations`); err != nil || version < 0 {
		return err
	}
	_, err := t.tx.ExecContext(t.ctx, `INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)`, version, dirty)
	return err
}

// Version returns at which step the database stands; database.NilVersion is none.
func (t *transaction) Version() (version int, dirty bool, err error) {
	if _, err := t.tx.ExecContext(t.ctx, versionTable); err != nil {
		return 0, false, err
	}
	err = t.tx.QueryRowContext(t.ctx, `SELECT version, dirty FROM schema_migrations`).Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}
