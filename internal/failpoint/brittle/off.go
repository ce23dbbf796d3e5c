//go:build !failpoints

// Package brittle puts failpoints around a store. Only a program built with the
// tag `failpoints` has them.
package brittle

import "recourse/journal"

// Store returns the store as it is.
func Store(s journal.Store) journal.Store { return s }
