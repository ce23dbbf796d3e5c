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

// PostgreSQL's error codes, appendix A of its manual.
const (
	codeDivisionByZero       = "22012"
	codeBadSquareRoot        = "2201F"
	codeUniqueViolation      = "23505"
	codeTransactionTimeout   = "25P04"
	codeSerializationFailure = "40001"
	codeCompletionUnknown    = "40003"
	codeDeadlock             = "40P01"
	codeCheckViolation       = "23514"
	codeUndefinedTable       = "42P01"
	codeQueryCanceled        = "57014"
	codeDuplicateTable       = "42P07"
	codeLockNotAvailable     = "55P03"
)

// stmt is one statement of a transaction.
type stmt struct {
	with  []string // writing CTEs, `name AS (…)`, with the same arguments
	query string
	args  []any
	scan  func(pgx.Row) error  // reads its only row; nil: its rows do not matter
	rows  func(pgx.Rows) error // reads all its rows
	fails map[string]error     // the errors for the codes with which it fails intentionally
}

// text returns the statement with its CTEs.
func (st *stmt) text() string {
	if len(st.with) == 0 {
		return st.query
	}
	return "WITH " + strings.Join(st.with, ", ") + " " + st.query
}

// of returns the statement for a partition of the journal. If p is nil, it names none.
func (st stmt) of(p *span) stmt {
	if p == nil {
		return st
	}
	st.query = strings.ReplaceAll(st.query, spanName, p.name)
	return st
}

// begin sets the isolation level, because a DSN or a database may have another default.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED`

// transact runs the statements between BEGIN and COMMIT in one round trip. It retries after a
// serialization failure or deadlock, a limited number of times. It returns ErrUnknown if it does
// not know whether they were committed; any other error means that nothing was.
func (l lender) transact(ctx context.Context, stmts []stmt) error {
	return retry(ctx, func() error { return l.pipeline(ctx, stmts) })
}

const (
	rowWait     = 500 * time.Millisecond // how long patiently keeps a connection that waits for a row
	rowPatience = 10 * time.Second       // how long it tries: as long as others wait for a lock, by settings
)

// patiently is transact for requests of clients, of which many may wait for the row of one saga. It
// does not keep its connection meanwhile, so that all others have their turns.
func (l lender) patiently(ctx context.Context, stmts []stmt) error {
	stmts = append([]stmt{{query: fmt.Sprintf(`SET LOCAL lock_timeout = %d`, rowWait.Milliseconds())}}, stmts...)
	for began := time.Now(); ; {
		err := l.transact(ctx, stmts)
		if code(err) != codeLockNotAvailable || ctx.Err() != nil || time.Since(began) > rowPatience {
			return err
		}
	}
}

func (l lender) pipeline(ctx context.Context, stmts []stmt) error {
	return l.writing(ctx, func(conn connection) error {
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

// writing calls f with a connection, unless ctx has ended.
func (l lender) writing(ctx context.Context, f func(connection) error) error {
	conn, err := l.Acquire(ctx)
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

// unwaited is the key under which a connection stores that one of its commits stopped waiting for
// its standby.
const unwaited = "recourse.unwaited"

// noticed handles the warning that a commit was cancelled while it waited for its standby. The
// server sends it, and has committed locally. (It is recognized by the name of the server's
// function, because its text is in the server's language.)
func noticed(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unwaited] = n.Message
	}
}

// alone returns ErrUnknown once if a commit may be on this server only.
func alone(conn *pgconn.PgConn) error {
	why, ok := conn.CustomData()[unwaited]
	if !ok {
		return nil
	}
	delete(conn.CustomData(), unwaited)
	return fmt.Errorf("%w: it is committed on this server, and it is not known whether a standby has it: %v", journal.ErrUnknown, why)
}

// once runs a statement as its own transaction, in one round trip. Otherwise it is like transact.
func (l lender) once(ctx context.Context, st stmt) error {
	return retry(ctx, func() error { return l.writing(ctx, func(conn connection) error { return single(ctx, conn, st) }) })
}

func single(ctx context.Context, conn connection, st stmt) error {
	b := &pgx.Batch{}
	b.Queue(st.text(), st.args...)
	sent := conn.SendBatch(ctx, b)
	failpoint.Hit("tx.sent")
	err := result(sent, st)
	// The server commits after it has sent the result. Only its ReadyForQuery proves the commit.
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

// results reads the responses to a pipeline.
func results(br pgx.BatchResults, stmts []stmt) error {
	defer func() { _ = br.Close() }() // an error after the response to COMMIT does not undo the commit
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

// rollback ends a failed transaction, so that the pool keeps the connection. If it cannot, the pool
// closes the connection, which also ends the transaction.
func rollback(ctx context.Context, conn connection) {
	if c := conn.lent.Conn(); c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`) // the pool reads the connection's state
}

// outcome wraps err with ErrUnknown unless the server has reported that the statement failed. A
// FATAL response to COMMIT may come after the commit. That pgconn calls an error safe to retry
// proves nothing, because it also does so if the response to COMMIT is lost.
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

// code returns the code of a server's error; "" for other errors.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

const maxTries = 10

// retry calls f again while it fails because of a concurrent transaction, a limited number of
// times.
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

// tx runs f in a transaction, without a pipeline.
func (l lender) tx(ctx context.Context, f func(session) error) error {
	return retry(ctx, func() error {
		return l.writing(ctx, func(conn connection) error { return within(ctx, conn, f) })
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
		_ = t.Rollback(ctx) // if it fails, the pool closes the connection, which has the same effect
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

// exec runs one writing statement as its own transaction.
func (l lender) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = retry(ctx, func() error {
		return l.writing(ctx, func(conn connection) error {
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
