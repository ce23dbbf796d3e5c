//go:build !mutants

// Package mutant marks the places of deliberate bugs, which show that the simulation detects them.
// Only a program built with the tag `mutants` has them; in any other program On is a constant and
// costs nothing.
package mutant

// On reports whether the named bug is switched on.
func On(string) bool { return false }
