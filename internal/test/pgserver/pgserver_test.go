package pgserver_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
)

func TestDSN(t *testing.T) {
	ctx := t.Context()
	var first string
	t.Run("a database of one's own", func(t *testing.T) {
		first = pgserver.DSN(t)
		second := pgserver.DSN(t)
		for _, dsn := range []string{first, second} {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			if _, err := conn.Exec(ctx, `CREATE TABLE t ()`); err != nil {
				t.Fatalf("%s is not empty: %v", dsn, err)
			}
		}
	})
	if conn, err := pgx.Connect(ctx, first); err == nil {
		conn.Close(ctx)
		t.Error("the database outlives its test")
	}
}

func TestStartStop(t *testing.T) {
	c, err := pgserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), c.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), c.URL); err == nil {
		conn.Close(t.Context())
		t.Error("the server answers after Stop")
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestHaltResume(t *testing.T) {
	c, err := pgserver.Start(pgserver.Durable...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop() }()
	ctx := t.Context()
	for i, how := range []string{pgserver.Fast, pgserver.Immediate} {
		conn, err := pgx.Connect(ctx, c.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS t (n int)`); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `INSERT INTO t VALUES (1)`); err != nil {
			t.Fatal(err)
		}
		if err := c.Halt(how); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `SELECT 1`); err == nil {
			t.Fatalf("the server answers after Halt(%s)", how)
		}
		conn.Close(ctx)
		if err := c.Resume(); err != nil {
			t.Fatal(err)
		}
		var n int
		if conn, err = pgx.Connect(ctx, c.URL); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM t`).Scan(&n); err != nil || n != i+1 {
			t.Errorf("%d rows, %v after Halt(%s), want %d", n, err, how, i+1)
		}
		conn.Close(ctx)
	}
}
