package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/journal/packed"
)

var errClosed = errors.New("sqlite store is closed")

// writer is the only connection that writes. It begins and ends transactions itself, because
// database/sql considers a connection clean after a failed COMMIT, although SQLite may still be
// inside the transaction.
type writer struct {
	db           *sql.DB
	turns        turns
	stmts        map[string]*sql.Stmt
	dictionaries packed.Dictionaries
}

func openWriter(ctx context.Context, dsn string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &writer{db: db, turns: turns{conn: conn}, stmts: map[string]*sql.Stmt{}}, nil
}

// close waits for the write in flight and closes the connection.
func (w *writer) close() error {
	conn := w.turns.close()
	if conn == nil {
		return nil
	}
	var err error
	for _, st := range w.stmts {
		err = errors.Join(err, st.Close())
	}
	return errors.Join(err, conn.Close(), w.db.Close())
}

// do runs f in a transaction and commits it, or rolls it back if f fails. A failed COMMIT is
// ErrUnknown unless SQLite says that it was refused.
func (w *writer) do(ctx context.Context, f func(*tx) error) error {
	return withState(w.transact(ctx, false, f))
}

// doFirst is do, before all transactions that wait.
func (w *writer) doFirst(ctx context.Context, f func(*tx) error) error {
	return withState(w.transact(ctx, true, f))
}

func (w *writer) transact(ctx context.Context, urgent bool, f func(*tx) error) error {
	conn, err := w.turns.take(ctx, urgent)
	if err != nil {
		return err
	}
	defer w.turns.give(conn)
	t := &tx{ctx: ctx, conn: conn, stmts: w.stmts, dictionaries: &w.dictionaries, found: map[version]bool{}}
	_, err = t.exec(`BEGIN IMMEDIATE`)
	// From here on the transaction is short and ends in any case. A cancellable context would cost
	// the driver a goroutine for each statement.
	t.ctx = context.WithoutCancel(ctx)
	if err != nil {
		// If the caller cancels at this moment, a BEGIN that succeeded returns an error.
		return errors.Join(err, t.end(`ROLLBACK`))
	}
	err = f(t)
	if err == nil && !t.keep {
		err = ctx.Err()
	}
	if err == nil {
		err = failpoint.Err("tx.written", nil)
	}
	if err != nil {
		return errors.Join(err, t.end(`ROLLBACK`))
	}
	if err = t.end(`COMMIT`); err == nil {
		return failpoint.Err("tx.committed", journal.ErrUnknown)
	}
	if !refused(err) {
		err = fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	return errors.Join(err, t.end(`ROLLBACK`))
}

// refused reports whether a COMMIT surely did nothing.
func refused(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}

// flush copies the write-ahead log to the file and empties it, so that neither has data that was
// erased. If a reader prevents that for longer than flushTimeout, the data stays where it is until
// the log is copied and overwritten, or until the store is closed.
func (w *writer) flush(ctx context.Context) {
	conn, err := w.turns.take(ctx, false)
	if err != nil {
		return
	}
	defer w.turns.give(conn)
	t := &tx{ctx: context.WithoutCancel(ctx), conn: conn}
	for _, what := range []string{flushTimeout, `wal_checkpoint(TRUNCATE)`, busyTimeout} {
		_ = t.pragma(what)
	}
}

// tx is a transaction in progress.
type tx struct {
	ctx          context.Context
	conn         *sql.Conn
	stmts        map[string]*sql.Stmt
	dictionaries *packed.Dictionaries
	found        map[version]bool // versions that newest has accepted
	keep         bool             // commit even if the caller has given up since the transaction began
}

// end ends the transaction. If SQLite has rolled back by itself, a ROLLBACK is no error.
func (t *tx) end(how string) error {
	if _, err := t.exec(how); err != nil {
		if how == `ROLLBACK` && inactive(err) {
			return nil
		}
		return err
	}
	return nil
}

// inactive recognizes the error of a ROLLBACK without a transaction, which has no code of its own.
func inactive(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR
}

// prepare returns the statement, which is kept for the life of the connection.
func (t *tx) prepare(query string) (*sql.Stmt, error) {
	if st := t.stmts[query]; st != nil {
		return st, nil
	}
	st, err := t.conn.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.stmts[query] = st
	return st, nil
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	st, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// pragma runs a PRAGMA. Its statement is not kept, because SQLite carries out some of them when it
// compiles them.
func (t *tx) pragma(what string) error {
	_, err := t.conn.ExecContext(t.ctx, `PRAGMA `+what)
	return err
}

// leaving runs f, whose deletions leave data in freed pages. To overwrite the content of large
// sagas takes ten times as long.
func (t *tx) leaving(f func() error) error {
	if err := t.pragma(leaveDeleted); err != nil {
		return err
	}
	return errors.Join(f(), t.pragma(eraseDeleted))
}

// row reads one row into dest. It returns sql.ErrNoRows if there is none.
func (t *tx) row(query string, args []any, dest ...any) error {
	st, err := t.prepare(query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(t.ctx, args...).Scan(dest...)
}

// query calls each for every row.
func (t *tx) query(query string, args []any, each func(scan func(...any) error) error) error {
	st, err := t.prepare(query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	return walk(rows, each)
}

func walk(rows *sql.Rows, each func(scan func(...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
