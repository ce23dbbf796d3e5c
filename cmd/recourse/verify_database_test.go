package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/test/pgserver"
	"recourse/saga"
)

// filled serves a database in which one saga succeeds, one needs a person and one sleeps.
func filled(t *testing.T, database string) *serving {
	t.Helper()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", database)
	ok(t, s.env, "definitions", "apply", file(t, "hello.yaml", hello))
	ok(t, s.env, "definitions", "apply", file(t, "slow.yaml", slow))
	ok(t, s.env, "start", "hello", "-i", `{"n":1,"city":"LIS"}`, "--wait", "10s")
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		t.Fatal(err)
	}
	stuck := strings.Fields(ok(t, s.env, "start", "hello", "-i", `{"n":2,"city":"LIS"}`))[0]
	waitFor(t, s, stuck, saga.Stuck)
	asleep := strings.Fields(ok(t, s.env, "start", "slow"))[0]
	waitFor(t, s, asleep, saga.Waiting)
	return s
}

// harm lists changes of a database that verify must detect, or must ignore.
var harm = []struct {
	name  string
	query string
	want  []int
}{
	{"nothing", "", nil},
	{"taken over", `UPDATE sagas SET wake_at = 1 WHERE wake_at IS NOT NULL`, nil},
	{"a byte of records changed", `UPDATE journal SET data = CAST(substr(data, 1, 20) || CASE substr(data, 21, 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(data, 22) AS BLOB) WHERE seq = 1 AND saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded')`, []int{2}},
	{"records cut", `UPDATE journal SET data = substr(data, 1, 20) WHERE seq = 1 AND saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded')`, []int{2}},
	{"dictionaries lost", `DELETE FROM dictionaries`, []int{2, 2, 2}},
	{"records lost at the end", `DELETE FROM journal WHERE (saga_id, seq) IN (SELECT saga_id, max(seq) FROM journal WHERE saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded') GROUP BY saga_id)`, []int{12}},
	{"records lost at the start", `DELETE FROM journal WHERE seq = 1 AND saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded')`, []int{2}},
	{"a definition changed", `UPDATE documents SET source = (SELECT source FROM documents WHERE name = 'slow') WHERE name = 'hello'`, []int{2, 2}},
	{"a row's status changed", `UPDATE sagas SET status = 'failed' WHERE status = 'succeeded'`, []int{12}},
	{"a wake-up lost", `UPDATE sagas SET wake_at = NULL WHERE wake_at IS NOT NULL`, []int{12}},
	{"an owner without a lease", `UPDATE sagas SET owner = 'nobody' WHERE ended_at IS NULL AND wake_at IS NOT NULL`, []int{12}},
	{"an inbox entry lost", `DELETE FROM inbox`, []int{11}},
	{"the rows of live sagas lost", `DELETE FROM sagas WHERE ended_at IS NULL`, []int{12, 12}},
}

func TestVerifyDatabase(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	s := filled(t, db)
	live, r := verdictOf(t, "--database", db)
	wants(t, live, r)
	if live.Sagas != 3 || live.Replayed != 3 || live.Live != 2 {
		t.Errorf("while a server runs: %s", r.out)
	}
	id := strings.Fields(ok(t, s.env, "list", "--status", "succeeded"))[6]
	for _, name := range []string{id, id[:30]} {
		if one, r := verdictOf(t, "--database", db, "--saga", name); one.Sagas != 1 || r.code != cli.OK {
			t.Errorf("one saga, %s: exit %d: %s%s", name, r.code, r.out, r.errOut)
		}
	}
	if r := run(t, nil, "verify", "--database", db, "--saga", id[:7]); r.code != cli.Usage || !strings.Contains(r.errOut, "first 8 characters") {
		t.Errorf("too short: exit %d: %s", r.code, r.errOut)
	}
	// Of three sagas of the same minute at least two share the first 8 characters of their ids.
	begins := make(map[string]int)
	for _, one := range verifiedIDs(t, s.env) {
		if begins[one[:8]]++; begins[one[:8]] == 2 {
			if r := run(t, nil, "verify", "--database", db, "--saga", one[:8]); r.code != cli.Usage || !strings.Contains(r.errOut, "write more of the id") || !strings.Contains(r.errOut, one) {
				t.Errorf("ambiguous: exit %d: %s", r.code, r.errOut)
			}
		}
	}
	if len(begins) > 2 {
		t.Errorf("no two ids begin alike: %v", begins)
	}
	if r := run(t, nil, "verify", "--database", db, "--since", "2199-01-01"); r.code != cli.NotFound || !strings.Contains(r.errOut, "nothing was checked") {
		t.Errorf("none: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := run(t, nil, "verify", "--database", db, "--saga", other); r.code != cli.NotFound {
		t.Errorf("a saga that is not there: exit %d", r.code)
	}
	s.stop()
	content, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range harm {
		t.Run(tt.name, func(t *testing.T) {
			path := file(t, "b.db", string(content))
			alter(t, "sqlite", path, tt.query)
			v, r := verdictOf(t, "--database", path)
			wants(t, v, r, tt.want...)
		})
	}
}

// verifiedIDs lists the ids of a server's sagas.
func verifiedIDs(t *testing.T, env []string) []string {
	t.Helper()
	var list []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(ok(t, env, "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.ID
	}
	return ids
}

func TestVerifyDatabaseOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
	s := filled(t, dsn)
	v, r := verdictOf(t, "--database", dsn)
	wants(t, v, r)
	s.stop()
	v, r = verdictOf(t, "--database", dsn)
	wants(t, v, r)
	alter(t, "pgx", dsn, `UPDATE sagas SET wake_at = NULL WHERE wake_at IS NOT NULL`)
	alter(t, "pgx", dsn, `UPDATE journal SET data = set_byte(data, 20, 255 - get_byte(data, 20)) WHERE seq = 1 AND saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded')`)
	v, r = verdictOf(t, "--database", dsn)
	wants(t, v, r, 2, 12)
	alter(t, "pgx", dsn, `DELETE FROM sagas WHERE status = 'succeeded'`)
	v, r = verdictOf(t, "--database", dsn)
	wants(t, v, r, 12, 12)
}

func alter(t *testing.T, driver, name, query string) {
	t.Helper()
	if query == "" {
		return
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.Exec(query)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("%s: %d rows, %v", query, n, err)
	}
}
