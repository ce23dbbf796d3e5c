package pgserver

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// Branch copies the data of a halted server: for a backup, or a standby with the same state. The
// copy stays until Stop.
func (c *Cluster) Branch() (data string, err error) {
	to, err := os.MkdirTemp(c.dir, "branch-")
	if err != nil {
		return "", err
	}
	return to, command(to, "cp", "-a", c.data()+"/.", to)
}

// Exchange replaces the data of the halted server by data from Branch, and returns the path of the
// server's own.
func (c *Cluster) Exchange(data string) (own string, err error) {
	own = data + "-own"
	if err := os.Rename(c.data(), own); err != nil {
		return "", err
	}
	return own, os.Rename(data, c.data())
}

// ResumePromoted starts a halted server as a standby and promotes it, so it is a primary on the
// next timeline.
func (c *Cluster) ResumePromoted() error {
	signal := filepath.Join(c.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if _, err := unprivileged(signal); err != nil {
		return err
	}
	if err := c.Resume(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Promote(ctx)
}
