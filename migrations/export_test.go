package migrations

import "io/fs"

// WithSteps returns a database that is migrated by other steps than the program's.
func WithSteps(d Database, steps fs.FS) Database {
	d.source = steps
	return d
}
