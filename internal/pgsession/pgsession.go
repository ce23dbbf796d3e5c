// Package pgsession prepares connections to PostgreSQL, for whoever makes them: pools, the
// listener, migrations, doctor.
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

// Check looks at a connection that was just made. With an error the connection is closed.
type Check func(ctx context.Context, conn *pgconn.PgConn) error

// atStart are the parameters that poolers take when a client connects: PgBouncer's
// manual lists them at ignore_startup_parameters. `options` cannot be set later.
var atStart = []string{"application_name", "client_encoding", "datestyle", "intervalstyle", "options", "replication", "standard_conforming_strings", "timezone"}

// Prepare has the connections of a configuration looked at, and then set their parameters by a
// statement: PgBouncer refuses a client that brings others than atStart when it connects. So the
// server chosen by target_session_attrs is judged as it is, and not by what we make of it.
// Parameters of the configuration go before the given ones. A configuration for poolers that work
// by transaction, see Pooled, sets nothing: another client would meet it.
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
	// A server that does not pass is passed over for the next of the URL's.
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

// Pooled reports whether a configuration is for a pooler that works by transaction: its
// URL says default_query_exec_mode=exec, or a mode that is as good.
func Pooled(cfg *pgx.ConnConfig) bool {
	return cfg.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// statement sets parameters, those of one name in one order.
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

// quote makes a literal that means the same whatever standard_conforming_strings is.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s)
	return `E'` + s + `'`
}
