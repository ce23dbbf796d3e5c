// Package pgserver gives tests a PostgreSQL database of their own.
//
// It uses the server that RECOURSE_TEST_POSTGRES names (a URL whose user may
// create databases), or else starts a temporary one for each test process.
// Tests never skip: without PostgreSQL they fail and say what to install.
package pgserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env names the server to use.
const Env = "RECOURSE_TEST_POSTGRES"

// started references the server, because the server stops when its pipe is closed, and the garbage
// collector could close it. It stops with this process.
var started *Cluster //nolint:unused // only the garbage collector must see it

// server returns the URL of the server.
var server = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(Env); dsn != "" {
		return dsn, nil
	}
	c, err := Start()
	if err != nil {
		return "", err
	}
	started = c
	return c.URL, nil
})

var count atomic.Int64

// DSN returns the URL of a new, empty database, which is dropped when tb ends.
func DSN(tb testing.TB) string {
	tb.Helper()
	admin, err := server()
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	u, err := url.Parse(admin)
	if err != nil || u.Host == "" {
		tb.Fatalf("pgserver: %s must be a postgres:// URL", Env)
	}
	name := fmt.Sprintf("recourse_test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), count.Add(1))
	run(tb, admin, `CREATE DATABASE `+name+` TEMPLATE template0`)
	tb.Cleanup(func() { run(tb, admin, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u.Path = "/" + name
	return u.String()
}

func run(tb testing.TB, dsn, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		tb.Fatalf("pgserver: %s: %v", statement, err)
	}
}
