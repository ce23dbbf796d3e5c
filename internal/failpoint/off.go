//go:build !failpoints

// Package failpoint marks the places where a crash, a freeze or an error is
// worth a test. Only a program built with the tag `failpoints` can be told to act
// there; in any other they cost a call that is inlined away.
package failpoint

// Enabled reports whether the program was built with failpoints.
const Enabled = false

// Hit passes the named point.
func Hit(string) {}

// Err passes the named point, and returns nil.
func Err(string, error) error { return nil }
