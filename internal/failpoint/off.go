//go:build !failpoints

// Package failpoint marks the points at which tests inject a crash, a freeze or an error. Only a
// program built with the tag `failpoints` acts at them. In any other program the calls are inlined
// away.
package failpoint

// Enabled reports whether the program was built with failpoints.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// Err returns nil.
func Err(string, error) error { return nil }
