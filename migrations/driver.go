package migrations

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

// transaction is a database driver for golang-migrate that uses one transaction. The library's own
// drivers lock a session, which a pooler may pass on to another client while it still has the lock.
// They also commit each step separately, so an interrupted step leaves a database that must be
// repaired. Here all steps and the version are committed together, or not at all.
type transaction struct {
	ctx   context.Context
	tx    *sql.Tx
	begun string // see Database
}

var errNotHere = errors.New("not part of a migration in one transaction")

// Open implements database.Driver. It is not used, because the transaction exists already.
func (t *transaction) Open(string) (database.Driver, error) { return nil, errNotHere }

// Drop implements database.Driver. It is not used.
func (t *transaction) Drop() error { return errNotHere }

// Close implements database.Driver. The caller that began the transaction ends it.
func (t *transaction) Close() error { return nil }

// Lock waits for the end of any other migration. The lock is released with the transaction.
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

// versionTable creates the table that golang-migrate's own drivers also create. No commit ever
// leaves dirty true.
const versionTable = `CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`

// SetVersion stores the current step of the database; -1 is none.
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

// Version returns the current step of the database; database.NilVersion is none.
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
