package main

import "errors"

// The exit codes. They are part of the contract: docs/cli.md explains them.
const (
	exitOK          = 0
	exitFailed      = 1 // the saga did not succeed, a check found something, or the program failed
	exitUsage       = 2 // bad flags, a bad definition, a bad input
	exitUnreachable = 3 // no server responds, or it cannot now: retry later
	exitConflict    = 4 // the state of the saga or definition does not allow this, or has changed
	exitNotFound    = 5 // no such saga, step or definition
	exitForbidden   = 6 // the API key is missing, wrong, or of the wrong role
)

// exitError is an error with an exit code. Without an inner error it prints nothing, because
// everything was printed before.
type exitError struct {
	code int
	err  error
}

func exit(code int, err error) error { return &exitError{code: code, err: err} }

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func codeOf(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitFailed
}
