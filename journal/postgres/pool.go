package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pool is a pgxpool.Pool whose errors can be told apart. That a connection was found dead the
// driver says in words only; here it is goneError, for who does not know this driver.
type pool struct{ *pgxpool.Pool }

func (p pool) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := p.Pool.Query(ctx, query, args...)
	return rows, gone(err)
}

func (p pool) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return row{p.Pool.QueryRow(ctx, query, args...)}
}

func (p pool) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	tag, err := p.Pool.Exec(ctx, query, args...)
	return tag, gone(err)
}

type row struct{ pgx.Row }

func (r row) Scan(dest ...any) error { return gone(r.Row.Scan(dest...)) }

// goneError is an error of a connection that was dead before it was used.
type goneError struct{ error }

// SQLState is connection_does_not_exist.
func (goneError) SQLState() string { return "08003" }

// Unwrap gives errors.Is and errors.As what is inside.
func (e goneError) Unwrap() error { return e.error }

func gone(err error) error {
	if pgconn.SafeToRetry(err) {
		return goneError{err}
	}
	return err
}
