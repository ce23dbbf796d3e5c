package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// stateError is an error with the SQLSTATE that other databases give it. A caller that does not
// know this store can thereby tell a problem of the disk from a bug.
type stateError struct {
	error
	state string
}

// SQLState returns the SQLSTATE.
func (e stateError) SQLState() string { return e.state }

// Unwrap returns the wrapped error.
func (e stateError) Unwrap() error { return e.error }

// withState adds the SQLSTATE to errors that have one.
func withState(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return stateError{err, "53100"} // disk_full
	case sqlite3.SQLITE_READONLY:
		return stateError{err, "25006"} // read_only_sql_transaction
	}
	return err
}
