package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pool is a pgxpool.Pool that marks the errors of dead connections: see session.
type pool struct {
	session
	lender
}

func newPool(conns *pgxpool.Pool) pool { return pool{session{conns}, lender{conns: conns}} }

// newPools opens a pool for each configuration.
func newPools(ctx context.Context, line *lineage, configs ...*pgxpool.Config) (pools []pool, err error) {
	for _, c := range configs {
		c.PrepareConn = line.usable
		c.ConnConfig.OnNotice = noticed
		conns, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			for _, p := range pools {
				p.Close()
			}
			return nil, err
		}
		pools = append(pools, newPool(conns))
	}
	return pools, nil
}

// lender lends the connections of a pool to transactions.
type lender struct {
	conns *pgxpool.Pool
	room  chan struct{} // its capacity is how many are lent at once; nil: as many as there are
}

// leavingSome returns a lender of the same connections that leaves a quarter of them, but at least
// one, to others. If there is only one connection, both lend it.
func (l lender) leavingSome() lender {
	n := l.conns.Config().MaxConns
	return lender{l.conns, make(chan struct{}, max(n-max(n/4, 1), 1))}
}

// Acquire returns a connection, which the caller must release.
func (l lender) Acquire(ctx context.Context) (connection, error) {
	if l.room != nil {
		select {
		case l.room <- struct{}{}:
		case <-ctx.Done():
			return connection{}, ctx.Err()
		}
	}
	lent, err := l.conns.Acquire(ctx)
	if err != nil {
		l.leave()
		return connection{}, markDead(err)
	}
	return connection{session{lent}, lent, l}, nil
}

func (l lender) leave() {
	if l.room != nil {
		<-l.room
	}
}

// Close closes all connections once they are released.
func (l lender) Close() { l.conns.Close() }

// connection is an acquired connection of a pool.
type connection struct {
	session
	lent *pgxpool.Conn
	from lender
}

// release returns the connection to its pool.
func (c connection) release() {
	c.lent.Release()
	c.from.leave()
}

// begin begins a transaction. Everything but its end must run on the session.
func (c connection) begin(ctx context.Context) (pgx.Tx, session, error) {
	t, err := c.lent.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	return t, session{t}, markDead(err)
}

// raw calls f with the driver's low-level connection.
func (c connection) raw(f func(*pgconn.PgConn) error) error {
	return markDead(f(c.lent.Conn().PgConn()))
}

// querier is a pool, a connection or a transaction of the driver.
type querier interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// session runs statements. If the driver finds a connection dead, its error says so only in its
// text; a session returns a deadConnectionError instead, which callers can detect without knowing
// the driver. The error may come late, with the rows of a query or the results of a batch.
type session struct{ querier }

func (s session) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	tag, err := s.querier.Exec(ctx, query, args...)
	return tag, markDead(err)
}

func (s session) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := s.querier.Query(ctx, query, args...)
	return foundRows{rows}, markDead(err)
}

func (s session) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return foundRow{s.querier.QueryRow(ctx, query, args...)}
}

func (s session) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return batchResults{s.querier.SendBatch(ctx, b)}
}

type foundRows struct{ pgx.Rows }

func (r foundRows) Err() error { return markDead(r.Rows.Err()) }

type foundRow struct{ pgx.Row }

func (r foundRow) Scan(dest ...any) error { return markDead(r.Row.Scan(dest...)) }

type batchResults struct{ pgx.BatchResults }

func (r batchResults) Exec() (pgconn.CommandTag, error) {
	tag, err := r.BatchResults.Exec()
	return tag, markDead(err)
}

func (r batchResults) Query() (pgx.Rows, error) {
	rows, err := r.BatchResults.Query()
	return foundRows{rows}, markDead(err)
}

func (r batchResults) QueryRow() pgx.Row { return foundRow{r.BatchResults.QueryRow()} }

func (r batchResults) Close() error { return markDead(r.BatchResults.Close()) }

// deadConnectionError is the error of a connection that was dead before it was used.
type deadConnectionError struct{ error }

// SQLState returns connection_does_not_exist.
func (deadConnectionError) SQLState() string { return "08003" }

// Unwrap returns the wrapped error.
func (e deadConnectionError) Unwrap() error { return e.error }

func markDead(err error) error {
	if pgconn.SafeToRetry(err) {
		return deadConnectionError{err}
	}
	return err
}
