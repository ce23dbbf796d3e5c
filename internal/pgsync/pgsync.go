// Package pgsync says what the commits of a PostgreSQL server wait for, for the store, migrations
// and doctor.
package pgsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoStandby says that commits wait for a standby, and that none is there: each of them waits
// until one comes.
var ErrNoStandby = errors.New("commits wait for a synchronous standby, and none is connected")

// Replication is what decides which servers a commit waits for.
type Replication struct {
	Names    string // synchronous_standby_names
	Commit   string // synchronous_commit, as the connection that was asked has it
	Standbys int    // connected standbys
	// Synchronous counts the connected standbys that commits may wait for. A role sees at least
	// that standbys are connected; their state only with pg_read_all_stats, so one whose state is
	// not shown counts.
	Synchronous int
}

// Querier is a connection, a pool, or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Read asks a server. It returns the driver's errors.
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

// Durable reports whether a commit waits until a standby has it on disk. With remote_write the
// standby's machine may lose it.
func (r Replication) Durable() bool {
	return r.Names != "" && (r.Commit == "on" || r.Commit == "remote_apply")
}

// Missing reports whether a commit waits for a standby and none is there.
func (r Replication) Missing() bool { return r.Waits() && r.Synchronous == 0 }

// Advice is what to do while a standby is missing.
const Advice = "start the standby, or empty that setting to go on with one machine"

// NoStandby is ErrNoStandby with the setting and what to do.
func (r Replication) NoStandby() error {
	return fmt.Errorf("%w (synchronous_standby_names is %q): %s", ErrNoStandby, r.Names, Advice)
}

const (
	standbyTime  = 10 * time.Second       // that a standby has to come
	standbyPause = 200 * time.Millisecond // between two looks for one
)

// Await gives a standby ten seconds to come where commits wait for one, and then returns
// ErrNoStandby with what to do: a commit would wait without a word, forever. It returns the error
// of ctx if that ends first, and nil if the server does not say: any other fault shows in the
// statements that follow.
func Await(ctx context.Context, db Querier) error {
	for began := time.Now(); ; {
		r, err := Read(ctx, db)
		if err != nil || !r.Missing() {
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
