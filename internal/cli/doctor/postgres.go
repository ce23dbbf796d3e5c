package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/internal/cli/database"
)

// postgres checks a server. It returns false if no further check is possible.
func (d *doctor) postgres(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	cfg, err := pgxpool.ParseConfig(d.cmd.Database) // it also parses the pool's options
	if err != nil {
		d.failed("database", database.Describe(d.cmd.Database, err))
		return false
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		d.failed("database", database.Describe(d.cmd.Database, err))
		return false
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var number, fsync, synchronous, pages string
	var standby bool
	asked := d.now()
	var there time.Time
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('full_page_writes'), pg_is_in_recovery(), clock_timestamp()`).Scan(&number, &fsync, &synchronous, &pages, &standby, &there)
	if err != nil {
		d.failed("database", database.Describe(d.cmd.Database, err))
		return false
	}
	version, _ := strconv.Atoi(number)
	if major := version / 10_000; major < oldestPG {
		d.warn("database", fmt.Sprintf("PostgreSQL %d no longer gets fixes", major), "move to a later one")
	} else {
		d.ok("database", "PostgreSQL %d", major)
	}
	if standby {
		d.wrong("database", "is a standby, which accepts no writes", "name the primary with --database")
	}
	d.durable("fsync", fsync)
	d.durable("full_page_writes", pages)
	if synchronous == "off" {
		d.warn("database", "synchronous_commit is off: a crash may lose acknowledged commits; then requests are repeated, or the journal lacks them",
			"turn it on for recourse's user: ALTER ROLE … SET synchronous_commit = on")
	}
	if _, err := conn.Exec(ctx, `SELECT system_identifier FROM pg_control_system()`); err != nil {
		d.warn("database", "does not say which cluster it is (pg_control_system): a fail-over that goes back in time is not noticed", "GRANT EXECUTE ON FUNCTION pg_control_system() TO recourse's role")
	}
	d.failover(ctx, conn)
	d.clock(asked, d.now(), there)
	return true
}

// clock compares the database's clock with this machine's. The request was sent and its response
// arrived at the given times.
func (d *doctor) clock(asked, came, there time.Time) {
	half := came.Sub(asked) / 2 // uncertainty of the time at which the database read its clock
	if apart := there.Sub(asked.Add(half)).Abs(); apart > clockApart+half {
		d.warn("clock", fmt.Sprintf("the database's clock is %s from this machine's", apart.Round(time.Second)),
			"set both by NTP; sagas, API keys and the signatures of webhooks go by the database's, but logs by this one")
	} else {
		d.ok("clock", "the database's and this machine's agree")
	}
}

func (d *doctor) durable(setting, is string) {
	if is != "on" {
		d.wrong("database", setting+" is "+is+": a crash of its machine may lose or corrupt data", "turn it on in postgresql.conf")
	}
}
