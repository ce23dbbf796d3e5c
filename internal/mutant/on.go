//go:build mutants

// Package mutant marks the places of deliberate bugs, which show that the simulation detects them.
// Only a program built with the tag `mutants` has them; in any other program On is a constant and
// costs nothing.
package mutant

import "os"

var active = os.Getenv("RECOURSE_MUTANT")

// Set switches one bug on and all others off; "" switches all off. It must not be called while
// other goroutines run.
func Set(name string) { active = name }

// On reports whether the named bug is switched on.
func On(name string) bool { return name == active }
