package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// stateError is an error with the SQLSTATE that other databases give it: that is how whoever
// does not know this store tells a condition of the disk from a mistake.
type stateError struct {
	error
	state string
}

// SQLState returns the five characters.
func (e stateError) SQLState() string { return e.state }

// Unwrap gives errors.Is and errors.As what is inside.
func (e stateError) Unwrap() error { return e.error }

// withState adds the state to errors that have one.
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
