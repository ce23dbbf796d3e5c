package sqlite

import (
	"context"
	"database/sql"
)

// read runs a query and keeps its statement, so the program must have a limited number of such
// query texts. database/sql prepares the statement once for each reading connection and closes it
// with the connection. Queries that are kept say LIMIT +?: for LIMIT ?, SQLite plans by the value
// and compiles the statement again for each run.
func (s *Store) read(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// row is read for one row. It returns the row's Scan, which returns sql.ErrNoRows if there is no
// row.
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
