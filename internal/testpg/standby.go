package testpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a cluster that follows this one by streaming replication, until Promote or CutOff. Whether the
// primary waits for it is the primary's setting: synchronous_standby_names=*.
func (c *Cluster) Standby(settings ...string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "testpg-standby-")
	if err != nil {
		return nil, err
	}
	s := &Cluster{bin: c.bin, dir: dir, settings: settings}
	if err := s.follow(c); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// follow copies the primary's files and starts a server that goes on from there.
func (c *Cluster) follow(primary *Cluster) error {
	as, err := unprivileged(c.dir)
	if err != nil {
		return err
	}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", primary.port)
	backup := exec.Command(filepath.Join(c.bin, "pg_basebackup"), "-D", c.data(), "-d", from, "-X", "stream", "-c", "fast", "-R", "--no-sync")
	backup.Dir, backup.SysProcAttr = c.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	c.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
	return c.Resume()
}

// Host is the server's address, host:port.
func (c *Cluster) Host() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

// Promote makes a standby a primary, and returns when it takes writes.
func (c *Cluster) Promote(ctx context.Context) error {
	return c.session(ctx, func(conn *pgx.Conn) error {
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

// CutOff ends a standby's replication: what the primary commits from then on is not there.
func (c *Cluster) CutOff(ctx context.Context) error {
	return c.session(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `ALTER SYSTEM SET primary_conninfo = ''`); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
			return err
		}
		for receivers := 1; receivers > 0; {
			if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_wal_receiver`).Scan(&receivers); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond): // between two looks
			}
		}
		return nil
	})
}

func (c *Cluster) session(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}
