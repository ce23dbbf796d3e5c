package pgserver

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby creates a cluster that follows this one by streaming replication, until Promote or
// CutOff. The primary's setting synchronous_standby_names=* makes commits wait for it.
func (c *Cluster) Standby(settings ...string) (*Cluster, error) {
	return create(c.bin, settings, func(s *Cluster) error {
		from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", c.port)
		return command(s.dir, filepath.Join(s.bin, "pg_basebackup"), "-D", s.data(), "-d", from, "-X", "stream", "-c", "fast", "-R", "--no-sync")
	})
}

// Promote promotes a standby, and returns when it accepts writes.
func (c *Cluster) Promote(ctx context.Context) error {
	return session(ctx, c.URL, func(conn *pgx.Conn) error {
		var done bool
		if err := conn.QueryRow(ctx, `SELECT pg_promote(true, 60)`).Scan(&done); err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("the standby %s was not promoted within a minute", c.Host())
		}
		return nil
	})
}

// WaitFor sets which standbys commits wait for (synchronous_standby_names; "": none), and returns
// when the setting is in effect.
func (c *Cluster) WaitFor(ctx context.Context, names string) error {
	return session(ctx, c.URL, func(conn *pgx.Conn) error {
		if err := reload(ctx, conn, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`); err != nil {
			return err
		}
		for {
			var now string
			if err := conn.QueryRow(ctx, `SHOW synchronous_standby_names`).Scan(&now); err != nil {
				return err
			}
			if now == names {
				// The checkpointer decides for all sessions whether commits wait. It reads the
				// settings again before it carries out a checkpoint.
				_, err := conn.Exec(ctx, `CHECKPOINT`)
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond): // between two checks
			}
		}
	})
}

// CancelWaits cancels the waits of commits for a standby, as an administrator could. The commits
// are on this server, and possibly on no other.
func (c *Cluster) CancelWaits(ctx context.Context) error {
	return session(ctx, c.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		return err
	})
}

// reload changes a setting and makes the server read it.
func reload(ctx context.Context, conn *pgx.Conn, set string) error {
	for _, do := range []string{set, `SELECT pg_reload_conf()`} {
		if _, err := conn.Exec(ctx, do); err != nil {
			return err
		}
	}
	return nil
}

// CutOff ends a standby's replication, so it does not get later commits of the primary.
func (c *Cluster) CutOff(ctx context.Context) error { return CutOff(ctx, c.URL) }

// CutOff ends the replication of the standby at a URL, whatever manages its configuration.
func CutOff(ctx context.Context, url string) error {
	return session(ctx, url, func(conn *pgx.Conn) error {
		if err := reload(ctx, conn, `ALTER SYSTEM SET primary_conninfo = ''`); err != nil {
			return err
		}
		for receivers := 1; receivers > 0; {
			if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_wal_receiver`).Scan(&receivers); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond): // between two checks
			}
		}
		return nil
	})
}

// Standbys returns the number of standbys that stream the log of the server at a URL.
func Standbys(ctx context.Context, url string) (n int, err error) {
	err = session(ctx, url, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'`).Scan(&n)
	})
	return n, err
}

func session(ctx context.Context, url string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}
