// Package migrations has the schema of the database stores as numbered steps, and runs them. There
// is one set for each dialect. Both sets have the same numbers, tables and columns.
package migrations

import "embed"

// FS has the steps: postgres/NNN_name.up.sql and .down.sql, and the same for sqlite/.
//
//go:embed postgres/*.sql sqlite/*.sql
var FS embed.FS
