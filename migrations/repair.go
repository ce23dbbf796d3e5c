package migrations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
)

// probe says how to see that a step is there, by something that it makes: a table or an index,
// or a column of one. Every step has one.
type probe struct{ table, column string }

var probes = []probe{
	{"sagas", "id"},
	{"sagas", "claims"},
	{"sagas_live", "definition"},
	{"sagas", "delete_at"},
	{"saga_labels", "value"},
	{"stalls", "until"},
	{"tasks", "traceparent"},
	{"sagas", "search_text"},
}

// repair takes the mark off a database whose migration was cut off. A step runs in
// a transaction, so it is there or it is not; only the mark that it left is in
// doubt. It counts the steps that are there.
func (d Database) repair(ctx context.Context, db *sql.DB) error {
	at := 0
	for _, p := range probes {
		var there bool
		if err := db.QueryRowContext(ctx, d.column, p.table, p.column).Scan(&there); err != nil {
			return fmt.Errorf("look for step %d: %w", at+1, err)
		}
		if !there {
			break
		}
		at++
	}
	if at == 0 {
		at = database.NilVersion
	}
	driver, err := d.driver(db)
	if err != nil {
		return err
	}
	return driver.SetVersion(at, false)
}
