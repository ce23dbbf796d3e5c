// Package migrations holds the schema of the database stores as numbered steps,
// and runs them. There is one set per dialect; both have the same numbers, the
// same tables and the same columns.
package migrations

import "embed"

// FS holds the steps: postgres/NNN_name.up.sql and .down.sql, and sqlite/ alike.
//
//go:embed postgres/*.sql sqlite/*.sql
var FS embed.FS
