// Package pgsession prepares connections to PostgreSQL for pools, the listener, migrations and
// doctor.
package pgsession

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Check checks a new connection. If it returns an error the connection is closed.
type Check func(ctx context.Context, conn *pgconn.PgConn) error

// atStart are the parameters that poolers accept when a client connects: PgBouncer's manual lists
// them under ignore_startup_parameters. `options` cannot be set later.
var atStart = []string{"application_name", "client_encoding", "datestyle", "intervalstyle", "options", "replication", "standard_conforming_strings", "timezone"}

// Prepare makes the connections of a configuration run the checks and then set their parameters by
// a statement, because PgBouncer refuses a client that sends parameters other than atStart when it
// connects. So target_session_attrs is evaluated on the server's own settings. Parameters of the
// configuration override the given ones. For a pooler in transaction mode (see Pooled) Prepare sets
// nothing, because the settings would affect other clients.
func Prepare(cfg *pgx.ConnConfig, params map[string]string, checks ...Check) {
	late := make(map[string]string)
	if !Pooled(cfg) {
		maps.Copy(late, params)
		for name, value := range cfg.RuntimeParams {
			if slices.Contains(atStart, strings.ToLower(name)) {
				delete(late, name)
				continue
			}
			late[name] = value
			delete(cfg.RuntimeParams, name)
		}
	}
	set := statement(late)
	// If a server fails a check, the next server of the URL is tried.
	chosen := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if chosen != nil {
			if err := chosen(ctx, conn); err != nil {
				return err
			}
		}
		for _, check := range checks {
			if err := check(ctx, conn); err != nil {
				return err
			}
		}
		return nil
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if set == "" {
			return nil
		}
		if _, err := conn.Exec(ctx, set).ReadAll(); err != nil {
			return fmt.Errorf("set the session's parameters: %w", err)
		}
		return nil
	}
}

// Pooled reports whether a configuration is for a pooler in transaction mode: its URL has
// default_query_exec_mode=exec or an equivalent mode.
func Pooled(cfg *pgx.ConnConfig) bool {
	return cfg.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// statement returns the statement that sets parameters. The same names always have the same order.
func statement(params map[string]string) string {
	if len(params) == 0 {
		return ""
	}
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		sets = append(sets, fmt.Sprintf("set_config(%s, %s, false)", quote(name), quote(params[name])))
	}
	return "SELECT " + strings.Join(sets, ", ")
}

// quote returns a literal with the same meaning for every value of standard_conforming_strings.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s)
	return `E'` + s + `'`
}
