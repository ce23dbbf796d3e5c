// Package pgsync finds out whether the commits of a PostgreSQL server wait for standbys, for the
// store, migrations and doctor.
package pgsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoStandby means that commits wait for a standby and none is connected, so each of them waits
// until one connects.
var ErrNoStandby = errors.New("commits wait for a synchronous standby, and none is connected")

// Replication has the settings and state that decide which servers a commit waits for.
type Replication struct {
	Names    string // synchronous_standby_names
	Commit   string // synchronous_commit of the connection
	Standbys int    // connected standbys
	// Synchronous counts the connected standbys that commits may wait for. Every role sees that
	// standbys are connected, but sees their state only with pg_read_all_stats; standbys with an
	// unknown state count.
	Synchronous int
}

// Querier is a connection, a pool, or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Read reads the replication state of a server. It returns the driver's errors.
func Read(ctx context.Context, db Querier) (r Replication, err error) {
	err = db.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
		count(*), count(*) FILTER (WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum')) FROM pg_stat_replication`).
		Scan(&r.Names, &r.Commit, &r.Standbys, &r.Synchronous)
	return r, err
}

// Waits reports whether a commit waits for a standby.
func (r Replication) Waits() bool {
	return r.Names != "" && r.Commit != "off" && r.Commit != "local"
}

// Durable reports whether a commit waits until a standby has it on disk. With remote_write, the
// standby's machine may lose it.
func (r Replication) Durable() bool {
	return r.Names != "" && (r.Commit == "on" || r.Commit == "remote_apply")
}

// Missing reports whether a commit waits for a standby and none is connected.
func (r Replication) Missing() bool { return r.Waits() && r.Synchronous == 0 }

// Advice says what to do while a standby is missing.
const Advice = "start the standby, or empty that setting to continue with one machine"

// NoStandby returns ErrNoStandby with the setting and the advice.
func (r Replication) NoStandby() error {
	return fmt.Errorf("%w (synchronous_standby_names is %q): %s", ErrNoStandby, r.Names, Advice)
}

const (
	standbyTime  = 10 * time.Second       // time for a standby to connect
	standbyPause = 200 * time.Millisecond // between two reads of the state
)

// Await waits up to ten seconds for a standby if commits wait for one, and then returns
// ErrNoStandby with what to do. Otherwise a commit would wait forever without a message. It returns
// ctx's error if ctx ends first, and nil if the server does not report its state: any other error
// appears in the statements that follow.
func Await(ctx context.Context, db Querier) error {
	for began := time.Now(); ; {
		r, err := Read(ctx, db)
		if err != nil {
			return ctx.Err()
		}
		if !r.Missing() {
			return nil
		}
		if time.Since(began) > standbyTime {
			return r.NoStandby()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(standbyPause):
		}
	}
}
