//go:build !failpoints

// Package faultstore adds failpoints to a store. Only a program built with the tag `failpoints` has
// them.
package faultstore

import "recourse/journal"

// Store returns s.
func Store(s journal.Store) journal.Store { return s }
