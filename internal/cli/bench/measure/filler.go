package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// growthSpan is the time over which the copies of a saga are spread, and growthStep the time
// between two of them: ten million fit.
const (
	growthStep = 100 * time.Millisecond
	growthSpan = 12 * 24 * time.Hour
)

// fillBatch is how many copies are made in one transaction.
const fillBatch = 20_000

// TableSize is the size of a table, and what autovacuum has done to it since the start.
type TableSize struct {
	Name     string `json:"name"`
	Table    int64  `json:"table_bytes"`
	Indexes  int64  `json:"index_bytes"` // SQLite: 0
	Dead     int64  `json:"dead_rows"`
	Vacuums  int64  `json:"autovacuums"`
	Analyzes int64  `json:"autoanalyzes"`
}

// filler fills a store's database with copies of one ended saga. It copies the rows of all tables
// that belong to the saga, so it does not depend on how a store keeps records. The copies have
// other ids, start keys and times; nothing else differs, so their hash chains are not valid.
type filler struct {
	db       *sql.DB
	postgres bool
	tables   []filledTable
	first    int64 // the time of the first copy, in milliseconds
	copies   int
}

// filledTable has the statement that copies the saga's rows of a table. Its parameters are the
// numbers of the first and of the last copy.
type filledTable struct{ name, insert string }

// openFiller prepares copies of the saga.
func openFiller(ctx context.Context, dsn, saga string) (*filler, error) {
	f := &filler{postgres: strings.HasPrefix(dsn, "postgres"), first: time.Now().Add(-growthSpan - 24*time.Hour).UnixMilli()}
	driver := "sqlite"
	if f.postgres {
		driver = "pgx"
	}
	var err error
	if f.db, err = sql.Open(driver, dsn); err != nil {
		return nil, err
	}
	f.db.SetMaxOpenConns(1)
	if err := f.prepare(ctx, saga); err != nil {
		f.close()
		return nil, fmt.Errorf("prepare copies: %w", err)
	}
	return f, nil
}

func (f *filler) close() { f.db.Close() }

// prepare makes the statements.
func (f *filler) prepare(ctx context.Context, saga string) error {
	columns := `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid`
	if f.postgres {
		columns = `SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum`
	}
	rows, err := f.db.QueryContext(ctx, columns)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	of := make(map[string][]string) // the columns of each table
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return err
		}
		if of[table] == nil {
			names = append(names, table)
		}
		of[table] = append(of[table], column)
	}
	shift, err := idTimeOf(saga)
	if err != nil || rows.Err() != nil {
		return errors.Join(err, rows.Err())
	}
	if f.postgres {
		if err := f.partition(ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		if name == "sagas" || slices.Contains(of[name], "saga_id") {
			f.tables = append(f.tables, filledTable{name, f.insert(name, of[name], saga, shift)})
		}
	}
	return nil
}

// partition gives each day of copies a partition of the journal, as the store does before the day.
func (f *filler) partition(ctx context.Context) error {
	const day = 24 * time.Hour
	least := func(at time.Time) string { return fmt.Sprintf("%012x%020d", at.UnixMilli(), 0) }
	first := time.UnixMilli(f.first).UTC().Truncate(day)
	for at := first; at.Before(time.UnixMilli(f.first).Add(growthSpan)); at = at.Add(day) {
		statement := `CREATE TABLE journal_` + at.Format("20060102") + ` PARTITION OF journal FOR VALUES FROM ('` + least(at) + `') TO ('` + least(at.Add(day)) + `')`
		if _, err := f.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// insert returns the statement that copies the saga's rows of a table.
func (f *filler) insert(table string, columns []string, saga string, shift int64) string {
	owner := "saga_id"
	if table == "sagas" {
		owner = "id"
	}
	var values []string
	for _, c := range columns {
		switch c {
		case owner:
			c = "n.id"
		case "start_key":
			c = "t.start_key || '-' || n.i"
		case "at", "created_at", "updated_at", "ended_at", "delete_at":
			c = fmt.Sprintf("t.%s - %d + n.ms", c, shift)
		default:
			c = "t." + c
		}
		values = append(values, c)
	}
	ms := fmt.Sprintf("%d + %d * i", f.first, growthStep.Milliseconds())
	numbers := fmt.Sprintf(`WITH RECURSIVE c(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM c WHERE i < ?2) SELECT i, %s AS ms, unhex(printf('%%012x7%%03x8%%015x', %[1]s, i %% 4096, i)) AS id FROM c`, ms)
	id := "unhex('" + strings.ReplaceAll(saga, "-", "") + "')"
	if f.postgres {
		numbers = fmt.Sprintf(`SELECT i, %s AS ms, (lpad(to_hex(%[1]s), 12, '0') || '7' || lpad(to_hex(i %% 4096), 3, '0') || '8' || lpad(to_hex(i), 15, '0'))::uuid AS id FROM generate_series($1::bigint, $2::bigint) i`, ms)
		id = "'" + saga + "'"
	}
	return fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM (%s) n, (SELECT * FROM %[1]s WHERE %[5]s = %[6]s) t ORDER BY n.i`, table, strings.Join(columns, ", "), strings.Join(values, ", "), numbers, owner, id)
}

// fill makes copies until there are so many.
func (f *filler) fill(ctx context.Context, copies int, progress Progress) error {
	for f.copies < copies {
		progress(f.copies, copies, "ended sagas")
		last := min(f.copies+fillBatch, copies)
		tx, err := f.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range f.tables {
			if _, err := tx.ExecContext(ctx, t.insert, f.copies+1, last); err != nil {
				return errors.Join(fmt.Errorf("table %s: %w", t.name, err), tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		f.copies = last
	}
	return nil
}

// vacuum does what autovacuum would do soon, so that it does not begin in the middle of a run.
func (f *filler) vacuum(ctx context.Context) error {
	statement := `ANALYZE`
	if f.postgres {
		statement = `VACUUM (ANALYZE)`
	}
	_, err := f.db.ExecContext(ctx, statement)
	return err
}

// sizes returns the sizes of the tables that are not empty.
func (f *filler) sizes(ctx context.Context) (list []TableSize, err error) {
	query := `SELECT 'all', page_count * page_size, 0, 0, 0, 0 FROM pragma_page_count, pragma_page_size`
	if f.postgres {
		query = `SELECT coalesce(p.relname, s.relname), sum(pg_table_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint, sum(n_dead_tup)::bigint,
				sum(autovacuum_count)::bigint, sum(autoanalyze_count)::bigint
			FROM pg_stat_user_tables s LEFT JOIN pg_inherits i ON i.inhrelid = relid LEFT JOIN pg_class p ON p.oid = i.inhparent
			WHERE pg_relation_size(relid) > 0 GROUP BY 1 ORDER BY sum(pg_total_relation_size(relid)) DESC`
	}
	rows, err := f.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t TableSize
		if err := rows.Scan(&t.Name, &t.Table, &t.Indexes, &t.Dead, &t.Vacuums, &t.Analyzes); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// idTimeOf returns the time in a saga's id, in milliseconds.
func idTimeOf(saga string) (int64, error) {
	id, err := uuid.FromString(saga)
	if err != nil {
		return 0, fmt.Errorf("saga %q: %w", saga, err)
	}
	return idTime(id).UnixMilli(), nil
}
