package testpg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/testpg"
)

func TestDSN(t *testing.T) {
	ctx := t.Context()
	var first string
	t.Run("a database of one's own", func(t *testing.T) {
		first = testpg.DSN(t)
		second := testpg.DSN(t)
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
	c, err := testpg.Start()
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
