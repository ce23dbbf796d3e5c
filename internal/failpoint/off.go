//go:build !failpoints

// Package failpoint marks the places where a crash is worth a test. In a program
// built with the tag `failpoints`, RECOURSE_FAILPOINTS arms them; in any other
// they cost a call that is inlined away.
package failpoint

// Enabled reports whether the program was built with failpoints.
const Enabled = false

// Hit passes the named point.
func Hit(string) {}
