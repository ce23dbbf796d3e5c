//go:build mutants

// Package mutant marks the places where a deliberate bug can be switched on, to
// show that the simulation notices it. Only a program built with the tag
// `mutants` has them; in any other On is a constant and costs nothing.
package mutant

import "os"

var active = os.Getenv("RECOURSE_MUTANT")

// Set switches one bug on, and every other off; "" switches all off. It is not
// to be called while anything runs.
func Set(name string) { active = name }

// On reports whether the named bug is switched on.
func On(name string) bool { return name == active }
