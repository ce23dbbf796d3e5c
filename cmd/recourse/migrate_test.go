package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli"
	"recourse/internal/test/pgserver"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	up := ok(t, nil, "migrate", "up", "--database", db)
	if !strings.HasPrefix(up, "at step ") {
		t.Errorf("up: %s", up)
	}
	ok(t, nil, "migrate", "status", "--database", db)
	ok(t, nil, "migrate", "down", "--steps", "1", "--force", "--database", db)
	if r := run(t, nil, "migrate", "status", "--database", db); r.code != cli.Failed || !strings.Contains(r.errOut, "recourse migrate up") {
		t.Errorf("outdated: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, nil, "keys", "list", "--database", db); r.code != cli.Failed || !strings.Contains(r.errOut, "recourse migrate up") {
		t.Errorf("keys of an outdated database: exit %d: %s", r.code, r.errOut)
	}
	if down := ok(t, nil, "migrate", "down", "--steps", "999", "--force", "--database", db); down != "at step 0\n" {
		t.Errorf("down by more steps than there are: %s", down)
	}
	serve(t, nil, "--database", db) // migrates by itself
}

// A migration whose commit would wait for a missing standby does not start: the program says what
// to do. A migration with nothing to do does not wait.
func TestMigrateWithoutStandby(t *testing.T) {
	t.Parallel()
	c, err := pgserver.Start(pgserver.Durable...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	empty, migrated := c.URL+"&dbname=empty", c.URL+"&dbname=migrated"
	conn, err := pgx.Connect(t.Context(), c.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	do := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE DATABASE empty`)
	do(`CREATE DATABASE migrated`)
	at := ok(t, nil, "migrate", "up", "--database", migrated)
	if err := c.WaitFor(t.Context(), "nobody"); err != nil {
		t.Fatal(err)
	}

	var both sync.WaitGroup
	for _, args := range [][]string{{"migrate", "up", "--database", empty}, {"migrate", "down", "--steps", "1", "--force", "--database", migrated}} {
		both.Go(func() {
			ended := time.AfterFunc(time.Minute, func() { // ends an endless wait for the standby
				t.Errorf("%v waits without a word", args)
				if err := c.CancelWaits(context.Background()); err != nil {
					t.Error(err)
				}
			})
			defer ended.Stop()
			r := run(t, nil, args...)
			if r.code != cli.Failed || !strings.Contains(r.errOut, `"nobody"`) || !strings.Contains(r.errOut, "start the standby, or empty that setting") {
				t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.errOut)
			}
		})
	}
	both.Wait()
	if t.Failed() { // a migration would wait again
		return
	}
	if again := ok(t, nil, "migrate", "up", "--database", migrated); again != at {
		t.Errorf("migrated: %s, want %s", again, at)
	}
	if r := run(t, nil, "migrate", "status", "--database", empty); r.code != cli.Failed || !strings.Contains(r.out, "at step 0,") {
		t.Errorf("empty: exit %d: %s", r.code, r.out)
	}
}
