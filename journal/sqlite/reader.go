package sqlite

import (
	"context"
	"database/sql"
)

// read runs a query whose statement is kept, so its text has to be one of few. database/sql
// prepares it once for each connection that reads, and closes it with the connection. Statements
// that are kept say LIMIT +?: SQLite plans by the value of a LIMIT ?, and compiles the statement
// anew each time it is run.
func (s *Store) read(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// row is read for one row, as its Scan: sql.ErrNoRows if there is none.
func (s *Store) row(ctx context.Context, query string, args ...any) func(dest ...any) error {
	st, err := s.prepare(ctx, query)
	if err != nil {
		return func(...any) error { return err }
	}
	return st.QueryRowContext(ctx, args...).Scan
}

func (s *Store) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if st, ok := s.reads.Load(query); ok {
		return st.(*sql.Stmt), nil
	}
	st, err := s.r.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, ok := s.reads.LoadOrStore(query, st); ok {
		return first.(*sql.Stmt), st.Close()
	}
	return st, nil
}
