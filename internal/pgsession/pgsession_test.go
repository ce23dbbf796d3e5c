package pgsession_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"recourse/internal/pgsession"
	"recourse/internal/test/pgserver"
)

// The session has the parameters of the URL, and the given ones where the URL has none. At its
// start it sends only those that poolers accept.
func TestPrepare(t *testing.T) {
	dsn := pgserver.DSN(t) + `&statement_timeout=5s&application_name=me&my.text=it%27s%5C`
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pgsession.Prepare(cfg, map[string]string{"statement_timeout": "30s", "application_name": "recourse", "jit": "off"})
	if len(cfg.RuntimeParams) != 1 || cfg.RuntimeParams["application_name"] != "me" {
		t.Errorf("sent at the start: %v", cfg.RuntimeParams)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, want := range map[string]string{"statement_timeout": "5s", "application_name": "me", "jit": "off", "my.text": `it's\`} {
		var got string
		if err := conn.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

// Behind a pooler in transaction mode nothing is set.
func TestPooled(t *testing.T) {
	cfg, err := pgx.ParseConfig("postgres://u@h/d?default_query_exec_mode=exec&statement_timeout=5s")
	if err != nil {
		t.Fatal(err)
	}
	pgsession.Prepare(cfg, map[string]string{"jit": "off"})
	if !pgsession.Pooled(cfg) || len(cfg.RuntimeParams) != 1 {
		t.Errorf("pooled %v, parameters %v", pgsession.Pooled(cfg), cfg.RuntimeParams)
	}
}
