package cli

import "errors"

// The exit codes. They are part of the contract: docs/cli.md explains them.
const (
	OK          = 0
	Failed      = 1 // the saga did not succeed, a check found something, or the program failed
	Usage       = 2 // bad flags, a bad definition, a bad input
	Unreachable = 3 // no server responds, or it cannot now: retry later
	Conflict    = 4 // the state of the saga or definition does not allow this, or has changed
	NotFound    = 5 // no such saga, step or definition
	Forbidden   = 6 // the API key is missing, wrong, or of the wrong role
)

// exitError is an error with an exit code. Without an inner error it prints nothing, because
// everything was printed before.
type exitError struct {
	code int
	err  error
}

// Exit returns an error with an exit code. A nil err prints nothing: the command has printed its
// results, and the code is the last of them.
func Exit(code int, err error) error { return &exitError{code: code, err: err} }

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return Failed
}
