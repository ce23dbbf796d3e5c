package testpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Branch copies the data of a server that is halted: a backup, or a standby that is as far as it is now. It stays until Stop.
func (c *Cluster) Branch() (data string, err error) {
	as, err := unprivileged(c.dir)
	if err != nil {
		return "", err
	}
	to, err := os.MkdirTemp(c.dir, "branch-")
	if err != nil {
		return "", err
	}
	if as != nil {
		if err := os.Chown(to, int(as.Uid), int(as.Gid)); err != nil {
			return "", err
		}
	}
	cp := exec.Command("cp", "-a", c.data()+"/.", to)
	cp.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := cp.CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy the data: %w: %s", err, out)
	}
	return to, nil
}

// Exchange makes data, of Branch, that of the server, which is halted, and returns where its own is kept.
func (c *Cluster) Exchange(data string) (own string, err error) {
	own = data + "-own"
	if err := os.Rename(c.data(), own); err != nil {
		return "", err
	}
	return own, os.Rename(data, c.data())
}

// ResumePromoted resumes a server that is halted as a standby, and promotes it: it is a primary on the next timeline.
func (c *Cluster) ResumePromoted() error {
	as, err := unprivileged(c.dir)
	if err != nil {
		return err
	}
	signal := filepath.Join(c.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(signal, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	if err := c.Resume(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var promoted bool
	if err := conn.QueryRow(ctx, `SELECT pg_promote()`).Scan(&promoted); err != nil || !promoted {
		return errors.Join(errors.New("the standby was not promoted"), err)
	}
	return nil
}
