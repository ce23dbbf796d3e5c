//go:build !mutants

// Package mutant marks the places where a deliberate bug can be switched on, to
// show that the simulation notices it. Only a program built with the tag
// `mutants` has them; in any other On is a constant and costs nothing.
package mutant

// On reports whether the named bug is switched on.
func On(string) bool { return false }
