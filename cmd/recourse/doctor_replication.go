package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"recourse/internal/pgsession"
	"recourse/journal/postgres"
)

// replication is what a failover of PostgreSQL depends on.
type replication struct {
	names    string // synchronous_standby_names
	commit   string // synchronous_commit
	standbys int    // connected standbys
	// synchronous counts the connected standbys that commits wait for, and those whose state the
	// role may not see.
	synchronous int
}

// failover looks at what a fail-over would lose, at all servers of the URL, and at what is between
// them and us.
func (d *doctor) failover(ctx context.Context, conn *pgx.Conn) {
	var r replication
	var pid uint32
	err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), pg_backend_pid(),
		count(*), count(*) FILTER (WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum')) FROM pg_stat_replication`).Scan(&r.names, &r.commit, &pid, &r.standbys, &r.synchronous)
	if err != nil {
		d.failed("replication", databaseError(d.cmd.Database, err))
		return
	}
	d.replication(r)
	if pid != conn.PgConn().PID() { // a pooler has keys of its own for its clients
		d.pooler(pgsession.Pooled(conn.Config()))
	}
	if err := postgres.Rival(ctx, d.cmd.Database); err != nil {
		d.failed("database", err)
	}
}

// replication judges whether an acknowledged start outlives the machine of the database.
func (d *doctor) replication(r replication) {
	const check = "replication"
	waits := r.commit == "on" || r.commit == "remote_apply"
	switch {
	case r.names != "" && waits && r.synchronous == 0:
		d.wrong(check, fmt.Sprintf("commits wait for a synchronous standby (synchronous_standby_names is %q), and none is connected", r.names),
			"start the standby, or empty that setting to go on with one machine")
	case r.names != "" && waits:
		d.ok(check, "commits wait for a synchronous standby; %s connected", count(r.standbys, "standby")+map[bool]string{true: " is", false: " are"}[r.standbys == 1])
	case d.cmd.RequireSync && r.names == "":
		d.wrong(check, "--require-sync is given, and synchronous_standby_names is empty: starts will be refused", "name a standby there, or turn on your fail-over manager's synchronous mode")
	case d.cmd.RequireSync:
		d.wrong(check, "--require-sync is given, and synchronous_commit is "+r.commit+": starts will be refused", "set it to on for recourse's role")
	case r.names != "":
		d.warn(check, "a standby is named as synchronous, but synchronous_commit is "+r.commit+": commits do not wait until it has them", "set it to on for recourse's role")
	case r.standbys > 0:
		d.warn(check, "the standby is asynchronous: a fail-over loses the last seconds of what was acknowledged", "set synchronous_standby_names, or turn on your fail-over manager's synchronous mode; --require-sync then watches it")
	default:
		d.ok(check, "there is no standby")
	}
}

// pooler says how the URL takes the pooler that is in between. It does not tell which mode the
// pooler is in.
func (d *doctor) pooler(transaction bool) {
	if transaction {
		d.ok("pooler", "there is one, and the URL is for pool_mode=transaction")
		return
	}
	d.ok("pooler", "there is one, and the URL is for pool_mode=session; for transaction, add default_query_exec_mode=exec")
}
