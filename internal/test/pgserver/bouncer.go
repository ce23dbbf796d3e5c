package pgserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/debian"
)

// Bouncer starts a PgBouncer on the loopback interface for the server of a URL, with a pool_mode,
// and returns the URL of the same database through it. It accepts only the startup parameters that
// PgBouncer accepts by default. If PgBouncer is missing and this process is root, Bouncer installs
// it. PgBouncer runs as an unprivileged user until tb or this process ends.
func Bouncer(tb testing.TB, dsn, mode string) string {
	tb.Helper()
	program, err := bouncer()
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	dir, err := TempDir()
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	port, err := FreePort()
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	login := "user=" + u.User.Username()
	if password, set := u.User.Password(); set {
		login += " password='" + strings.ReplaceAll(password, "'", "''") + "'"
	}
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 60
`, u.Hostname(), u.Port(), login, port, mode)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	p, err := Spawn(dir, program, "-q", file)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Stop(); err != nil {
			tb.Errorf("pgserver: stop pgbouncer: %v", err)
		}
	})
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	for deadline := time.Now().Add(startTimeout); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, u.String())
		if err == nil {
			_ = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return u.String()
		}
		if time.Now().After(deadline) {
			tb.Fatalf("pgserver: pgbouncer does not respond: %v: %s", err, p.Log())
		}
		time.Sleep(20 * time.Millisecond) // between two checks
	}
}

// bouncer finds the program of PgBouncer.
func bouncer() (string, error) {
	find := func() (string, error) {
		if path, err := exec.LookPath("pgbouncer"); err == nil {
			return path, nil
		}
		return exec.LookPath("/usr/sbin/pgbouncer")
	}
	if path, err := find(); err == nil {
		return path, nil
	}
	if err := debian.Install("pgbouncer"); err != nil {
		return "", fmt.Errorf("no pgbouncer found: install it (apt-get install pgbouncer): %w", err)
	}
	return find()
}
