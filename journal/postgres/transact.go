package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// Codes of PostgreSQL's errors, appendix A of its manual.
const (
	codeDivisionByZero       = "22012"
	codeBadSquareRoot        = "2201F"
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeCompletionUnknown    = "40003"
	codeDeadlock             = "40P01"
)

// stmt is one statement of a transaction.
type stmt struct {
	with  []string // queries that write beside it, `name AS (…)`, with the same arguments
	query string
	args  []any
	scan  func(pgx.Row) error  // reads its one row; nil: its rows do not matter
	rows  func(pgx.Rows) error // reads all its rows
	fails map[string]error     // what the codes stand for that it fails with on purpose
}

// text is the statement with all that belongs to it.
func (st *stmt) text() string {
	if len(st.with) == 0 {
		return st.query
	}
	return "WITH " + strings.Join(st.with, ", ") + " " + st.query
}

// begin is explicit about isolation: a DSN or a database may have set another default.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED`

// transact runs the statements between BEGIN and COMMIT in one round trip, and once more after
// each serialization failure or deadlock, a bounded number of times. It returns
// ErrUnknown if it cannot tell whether they were committed; with any other error
// nothing was.
func (s *Store) transact(ctx context.Context, stmts []stmt) error {
	return retry(ctx, func() error { return s.pipeline(ctx, stmts) })
}

func (s *Store) pipeline(ctx context.Context, stmts []stmt) error {
	return s.writing(ctx, func(conn connection) error {
		b := &pgx.Batch{}
		b.Queue(begin)
		for _, st := range stmts {
			b.Queue(st.text(), st.args...)
		}
		b.Queue(`COMMIT`)
		sent := conn.SendBatch(ctx, b)
		failpoint.Hit("tx.sent")
		err := results(sent, stmts)
		if err != nil {
			rollback(ctx, conn)
		}
		return err
	})
}

// writing lends f a connection that writes, unless the caller has gone.
func (s *Store) writing(ctx context.Context, f func(connection) error) error {
	conn, err := s.w.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.release()
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	err = f(conn)
	if here := conn.raw(alone); err == nil {
		err = here
	}
	return err
}

// unwaited is where a connection has it that a commit of its stopped waiting for its standby.
const unwaited = "recourse.unwaited"

// noticed hears that a commit stopped waiting for the standby that it is to wait for, as somebody
// cancelled it. The server says so in a warning, and that it has committed. (The function is named,
// as the text is in the server's language.)
func noticed(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unwaited] = n.Message
	}
}

// alone returns ErrUnknown once, if a commit is on this server and maybe on no other.
func alone(conn *pgconn.PgConn) error {
	why, ok := conn.CustomData()[unwaited]
	if !ok {
		return nil
	}
	delete(conn.CustomData(), unwaited)
	return fmt.Errorf("%w: it is committed here, and it is not known whether a standby has it: %v", journal.ErrUnknown, why)
}

// once runs a statement as its own transaction, in one round trip; otherwise as transact does.
func (s *Store) once(ctx context.Context, st stmt) error {
	return retry(ctx, func() error { return s.writing(ctx, func(conn connection) error { return single(ctx, conn, st) }) })
}

func single(ctx context.Context, conn connection, st stmt) error {
	b := &pgx.Batch{}
	b.Queue(st.text(), st.args...)
	sent := conn.SendBatch(ctx, b)
	failpoint.Hit("tx.sent")
	err := result(sent, st)
	// The server commits when it has told the result: only its word that it is ready again says
	// that it did.
	if ready := sent.Close(); err == nil {
		err = ready
	}
	switch meant := st.fails[code(err)]; {
	case err == nil:
		return nil
	case meant != nil:
		return meant
	}
	return outcome(err, true)
}

// results reads the answers to a pipeline.
func results(br pgx.BatchResults, stmts []stmt) error {
	defer br.Close() // the answers have said it all: what breaks after COMMIT's does not take it back
	if _, err := br.Exec(); err != nil {
		return outcome(err, false)
	}
	for _, st := range stmts {
		if err := result(br, st); err != nil {
			if meant := st.fails[code(err)]; meant != nil {
				return meant
			}
			return outcome(err, false)
		}
	}
	tag, err := br.Exec()
	if err != nil {
		return outcome(err, true)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("the transaction was rolled back: %s", tag)
	}
	return nil
}

func result(br pgx.BatchResults, st stmt) error {
	switch {
	case st.scan != nil:
		return st.scan(br.QueryRow())
	case st.rows != nil:
		rows, err := br.Query()
		if err != nil {
			return err
		}
		return st.rows(rows)
	}
	_, err := br.Exec()
	return err
}

// rollback ends a transaction that failed, so that the pool keeps the connection. If it
// cannot, the pool closes the connection, which ends the transaction as well.
func rollback(ctx context.Context, conn connection) {
	if c := conn.lent.Conn(); c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`) // the connection's state tells the pool
}

// outcome wraps err with ErrUnknown unless it is the server's word that the
// statement failed. FATAL in answer to COMMIT may come after the commit. That pgconn
// calls an error safe to retry is no proof: a lost answer to COMMIT is reported so too.
func outcome(err error, committing bool) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code != codeCompletionUnknown {
		if severity := e.SeverityUnlocalized; severity == "ERROR" || severity == "FATAL" && !committing {
			return err
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrUnknown, err)
}

// code is the code of a server's error, "" for others.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

const maxTries = 10

// retry calls f until it ends otherwise than by losing against another transaction.
func retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if c := code(err); try == maxTries || errors.Is(err, journal.ErrUnknown) || c != codeSerializationFailure && c != codeDeadlock {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 8)))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// tx runs f in a transaction, for what is not worth a pipeline.
func (s *Store) tx(ctx context.Context, f func(session) error) error {
	return retry(ctx, func() error {
		return s.writing(ctx, func(conn connection) error { return within(ctx, conn, f) })
	})
}

// within runs f in a transaction of a connection.
func within(ctx context.Context, conn connection, f func(session) error) error {
	t, on, err := conn.begin(ctx)
	if err != nil {
		return err
	}
	if err := f(on); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = t.Rollback(ctx) // if it fails the connection is closed, which does the same
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, t.Rollback(context.WithoutCancel(ctx)))
	}
	if err := t.Commit(ctx); err != nil {
		if errors.Is(err, pgx.ErrTxCommitRollback) {
			return err
		}
		return outcome(err, true)
	}
	return nil
}

// exec runs one statement that writes, as its own transaction.
func (s *Store) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = retry(ctx, func() error {
		return s.writing(ctx, func(conn connection) error {
			tag, err := conn.Exec(ctx, query, args...)
			if err != nil {
				return outcome(err, true)
			}
			n = tag.RowsAffected()
			return nil
		})
	})
	return n, err
}
