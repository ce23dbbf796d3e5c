package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/pgsession"
	"recourse/internal/pgsync"
	"recourse/journal/postgres"
)

// failover checks what a failover would lose, all servers in the URL, and poolers in between.
func (d *doctor) failover(ctx context.Context, conn *pgx.Conn) {
	r, err := pgsync.Read(ctx, conn)
	var pid uint32
	if err == nil {
		err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	}
	if err != nil {
		d.failed("replication", database.Describe(d.cmd.Database, err))
		return
	}
	d.replication(r)
	if pid != conn.PgConn().PID() { // a pooler gives its clients its own cancellation keys
		d.pooler(pgsession.Pooled(conn.Config()))
	}
	if err := postgres.Rival(ctx, d.cmd.Database); err != nil {
		d.failed("database", err)
	}
}

// replication reports whether an acknowledged start survives the loss of the database's machine.
func (d *doctor) replication(r pgsync.Replication) {
	const check = "replication"
	switch {
	case r.Missing():
		d.wrong(check, fmt.Sprintf("commits wait for a synchronous standby (synchronous_standby_names is %q), and none is connected", r.Names), pgsync.Advice)
	case r.Durable():
		d.ok(check, "commits wait for a synchronous standby; %s connected", cli.Count(r.Standbys, "standby")+map[bool]string{true: " is", false: " are"}[r.Standbys == 1])
	case d.cmd.RequireSync && r.Names == "":
		d.wrong(check, "--require-sync is given, and synchronous_standby_names is empty: starts will be refused", "name a standby there, or turn on your fail-over manager's synchronous mode")
	case d.cmd.RequireSync:
		d.wrong(check, "--require-sync is given, and synchronous_commit is "+r.Commit+": starts will be refused", "set it to on for recourse's role")
	case r.Names != "":
		d.warn(check, "a standby is named as synchronous, but synchronous_commit is "+r.Commit+": commits do not wait until it has them", "set it to on for recourse's role")
	case r.Standbys > 0:
		d.warn(check, "the standby is asynchronous: a failover loses the last seconds of acknowledged commits", "set synchronous_standby_names, or turn on your fail-over manager's synchronous mode; --require-sync then watches it")
	default:
		d.ok(check, "there is no standby")
	}
}

// pooler reports how the URL treats a pooler. It does not detect the pooler's mode.
func (d *doctor) pooler(transaction bool) {
	if transaction {
		d.ok("pooler", "there is one, and the URL is for pool_mode=transaction")
		return
	}
	d.ok("pooler", "there is one, and the URL is for pool_mode=session; for transaction, add default_query_exec_mode=exec")
}
