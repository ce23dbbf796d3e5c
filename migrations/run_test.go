package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"recourse/internal/test/pgserver"
	"recourse/migrations"
)

// target is a new, empty database of each dialect, with access to its tables.
type target struct {
	name   string
	at     migrations.Database
	db     *sql.DB
	tables string // query: table and column names
}

func targets(t *testing.T) []target {
	t.Helper()
	dsn, file := pgserver.DSN(t), filepath.Join(t.TempDir(), "a b?.db")
	out := []target{
		{"postgres", migrations.Postgres(dsn), open(t, "pgx", dsn),
			`SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT IN ('schema_migrations', 'journal_default')`},
		{"sqlite", migrations.SQLite(file), open(t, "sqlite", migrations.FileURI(file)),
			`SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name <> 'schema_migrations'`},
	}
	return out
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (x target) columns(t *testing.T) map[string]bool {
	t.Helper()
	rows, err := x.db.Query(x.tables)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		out[table+"."+column] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpDownUp(t *testing.T) {
	for _, x := range targets(t) {
		t.Run(x.name, func(t *testing.T) {
			ctx := t.Context()
			_, newest, err := migrations.Version(ctx, x.at)
			if err != nil || newest == 0 {
				t.Fatalf("newest = %d, %v", newest, err)
			}
			if err := migrations.Check(ctx, x.at); !errors.Is(err, migrations.ErrBehind) {
				t.Fatalf("Check of an empty database = %v, want ErrBehind", err)
			}
			must(t, migrations.Up(ctx, x.at))
			must(t, migrations.Up(ctx, x.at))
			must(t, migrations.Check(ctx, x.at))
			full := x.columns(t)
			if !full["journal.seq"] {
				t.Fatalf("columns after up: %v", full)
			}
			must(t, migrations.Down(ctx, x.at, 1)) // there is one step, whatever its number
			if left := x.columns(t); len(left) > 0 {
				t.Errorf("left after down: %v", left)
			}
			must(t, migrations.Up(ctx, x.at))
			if d := cmp.Diff(full, x.columns(t)); d != "" {
				t.Errorf("up, down, up (-first +second):\n%s", d)
			}
			if at, _, err := migrations.Version(ctx, x.at); err != nil || at != newest {
				t.Errorf("Version = %d, %v, want %d", at, err, newest)
			}
		})
	}
}

func TestParity(t *testing.T) {
	var columns []map[string]bool
	for _, x := range targets(t) {
		must(t, migrations.Up(t.Context(), x.at))
		columns = append(columns, x.columns(t))
	}
	if d := cmp.Diff(columns[0], columns[1]); d != "" {
		t.Errorf("columns (-postgres +sqlite):\n%s", d)
	}
	names := func(dialect string) (out []string) {
		entries, err := fs.ReadDir(migrations.FS, dialect)
		must(t, err)
		for _, e := range entries {
			out = append(out, e.Name())
			if other := strings.NewReplacer(".up.", ".down.", ".down.", ".up.").Replace(e.Name()); !exists(path.Join(dialect, other)) {
				t.Errorf("%s/%s has no %s", dialect, e.Name(), other)
			}
		}
		return out
	}
	if d := cmp.Diff(names("postgres"), names("sqlite")); d != "" {
		t.Errorf("steps (-postgres +sqlite):\n%s", d)
	}
}

func exists(name string) bool {
	_, err := fs.Stat(migrations.FS, name)
	return err == nil
}

// The checks of a database run on the connection that would migrate it, so a server that a check
// refuses is not changed.
func TestChecksComeFirst(t *testing.T) {
	dsn := pgserver.DSN(t)
	refused := errors.New("another server")
	checked := migrations.Postgres(dsn, func(context.Context, *pgconn.PgConn) error { return refused })
	if err := migrations.Up(t.Context(), checked); !errors.Is(err, refused) {
		t.Errorf("Up: %v, want the error of the check", err)
	}
	if at, _, err := migrations.Version(t.Context(), migrations.Postgres(dsn)); err != nil || at != 0 {
		t.Errorf("the database is at step %d, %v", at, err)
	}
	must(t, migrations.Up(t.Context(), migrations.Postgres(dsn)))
	if err := migrations.Down(t.Context(), checked, 1); !errors.Is(err, refused) {
		t.Errorf("Down: %v, want the error of the check", err)
	}
	must(t, migrations.Check(t.Context(), migrations.Postgres(dsn)))
}

// A database that a newer program migrated, or that has an initial step which this program no
// longer has, is refused and stays as it is.
func TestRefusesOtherSteps(t *testing.T) {
	for _, x := range targets(t) {
		t.Run(x.name, func(t *testing.T) {
			must(t, migrations.Up(t.Context(), x.at))
			for step, want := range map[int]error{999: migrations.ErrNewer, 1: migrations.ErrUnreleased} {
				if _, err := x.db.Exec(fmt.Sprintf(`UPDATE schema_migrations SET version = %d`, step)); err != nil {
					t.Fatal(err)
				}
				for name, f := range map[string]func(context.Context, migrations.Database) error{"Check": migrations.Check, "Up": migrations.Up,
					"Down": func(ctx context.Context, d migrations.Database) error { return migrations.Down(ctx, d, 1) }} {
					if err := f(t.Context(), x.at); !errors.Is(err, want) {
						t.Errorf("%s at step %d = %v, want %v", name, step, err, want)
					}
				}
				if at, _, err := migrations.Version(t.Context(), x.at); err != nil || at != step {
					t.Errorf("Version = %d, %v, want %d", at, err, step)
				}
			}
		})
	}
}

// If a step fails, all steps of its migration are rolled back. Down reverts step by step.
func TestAllOrNothing(t *testing.T) {
	for _, x := range targets(t) {
		t.Run(x.name, func(t *testing.T) {
			ctx := t.Context()
			steps := fstest.MapFS{}
			for _, name := range []string{"006_init.up.sql", "006_init.down.sql"} {
				text, err := fs.ReadFile(migrations.FS, path.Join(x.name, name))
				must(t, err)
				steps[path.Join(x.name, name)] = &fstest.MapFile{Data: text}
			}
			second := path.Join(x.name, "007_more.up.sql")
			steps[path.Join(x.name, "007_more.down.sql")] = &fstest.MapFile{Data: []byte(`DROP TABLE more;`)}
			at := migrations.WithSteps(x.at, steps)

			// The first step has created nodes.
			steps[second] = &fstest.MapFile{Data: []byte(`CREATE TABLE more (id int); CREATE TABLE nodes (id int);`)}
			if err := migrations.Up(ctx, at); err == nil {
				t.Fatal("a step with an error succeeded")
			}
			if left := x.columns(t); len(left) > 0 {
				t.Errorf("remaining: %v", left)
			}
			steps[second] = &fstest.MapFile{Data: []byte(`CREATE TABLE more (id int);`)}
			must(t, migrations.Up(ctx, at))
			must(t, migrations.Check(ctx, at))
			if err := migrations.Check(ctx, x.at); !errors.Is(err, migrations.ErrNewer) {
				t.Errorf("the program without the second step: %v", err)
			}
			must(t, migrations.Down(ctx, at, 1))
			if err := migrations.Check(ctx, at); !errors.Is(err, migrations.ErrBehind) {
				t.Errorf("one step undone: %v", err)
			}
			if have := x.columns(t); have["more.id"] || !have["nodes.id"] {
				t.Errorf("one step undone, there are %v", have)
			}
		})
	}
}

// If no step is missing, nothing waits for a lock of another process. Behind a pooler it could wait
// forever.
func TestNoLockWithoutNeed(t *testing.T) {
	x := targets(t)[0]
	must(t, migrations.Up(t.Context(), x.at))
	other, err := x.db.Conn(t.Context())
	must(t, err)
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), `SELECT pg_advisory_lock(8243104023334515557)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, migrations.Up(ctx, x.at))
}

// The rows of saga_labels follow the saga's row.
func TestLabelsFollow(t *testing.T) {
	ids := map[string]string{"postgres": `'01920000-0000-7000-8000-00000000000%d'`, "sqlite": `x'0192000000007000800000000000000%d'`}
	for _, x := range targets(t) {
		t.Run(x.name, func(t *testing.T) {
			ctx := t.Context()
			must(t, migrations.Up(ctx, x.at))
			do := func(query string) {
				t.Helper()
				if _, err := x.db.Exec(query); err != nil {
					t.Fatal(err)
				}
			}
			insert := func(n int, labels string) {
				t.Helper()
				do(fmt.Sprintf(`INSERT INTO sagas (id, definition, version, sha256, start_hash, labels) VALUES (`+ids[x.name]+`, '', 1, '', '', '%s')`, n, labels))
			}
			has := func(what string, want ...string) {
				t.Helper()
				rows, err := x.db.Query(`SELECT name || '=' || value || ' of ' || definition FROM saga_labels JOIN sagas ON id = saga_id ORDER BY 1`)
				must(t, err)
				defer rows.Close()
				var got []string
				for rows.Next() {
					var line string
					must(t, rows.Scan(&line))
					got = append(got, line)
				}
				must(t, rows.Err())
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: %s", what, d)
				}
			}
			insert(1, `{"a": "1", "b": "2"}`)
			insert(2, `{}`)
			has("inserted", "a=1 of ", "b=2 of ")
			insert(3, `{"a": "1"}`)
			do(`UPDATE sagas SET definition = 'd', labels = '{"c": "3"}' WHERE labels = '{}'`)
			has("inserted and changed", "a=1 of ", "a=1 of ", "b=2 of ", "c=3 of d")
			do(`UPDATE sagas SET definition = 'e', labels = '{"c": "4"}' WHERE definition = 'd'`)
			do(`DELETE FROM sagas WHERE definition = ''`)
			has("changed again, and deleted", "c=4 of e")
			do(`DELETE FROM sagas`)
			var left int
			must(t, x.db.QueryRow(`SELECT count(*) FROM saga_labels`).Scan(&left))
			if left > 0 {
				t.Errorf("%d labels are left without sagas", left)
			}
		})
	}
}

func TestUpConcurrently(t *testing.T) {
	for _, x := range targets(t) {
		t.Run(x.name, func(t *testing.T) {
			_, newest, err := migrations.Version(t.Context(), x.at)
			must(t, err)
			for range 5 {
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						if err := migrations.Up(t.Context(), x.at); err != nil {
							t.Errorf("Up: %v", err)
						}
					})
				}
				wg.Wait()
				must(t, migrations.Check(t.Context(), x.at))
				must(t, migrations.Down(t.Context(), x.at, newest))
				_, err := x.db.Exec(`DROP TABLE schema_migrations`) // the state before the first start
				must(t, err)
			}
		})
	}
}

// A program that is frozen during its migration does not keep the lock: the server ends its
// transaction, because the program is silent.
func TestFrozenMigration(t *testing.T) {
	db, err := migrations.Open(migrations.Postgres(pgserver.DSN(t)))
	must(t, err)
	defer db.Close()
	var silent string
	must(t, db.QueryRow(`SHOW idle_in_transaction_session_timeout`).Scan(&silent))
	if silent != "30s" {
		t.Errorf("a migration may be silent for %s; 0 is forever", silent)
	}
}

func TestDownNeedsSteps(t *testing.T) {
	if err := migrations.Down(t.Context(), migrations.SQLite(filepath.Join(t.TempDir(), "x.db")), 0); err == nil {
		t.Error("Down of no steps succeeded")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
