//go:build !failpoints

// Package brittle adds failpoints to a store. Only a program built with the tag `failpoints` has
// them.
package brittle

import "recourse/journal"

// Store returns s.
func Store(s journal.Store) journal.Store { return s }
