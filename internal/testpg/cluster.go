package testpg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is a throw-away PostgreSQL server.
type Cluster struct {
	URL  string // of its database "postgres"
	dir  string
	keep io.Closer // while it is open the server runs
	cmd  *exec.Cmd
}

// startTimeout bounds how long the server may take until it answers.
const startTimeout = 60 * time.Second

// Start makes a cluster in a new directory and starts its server, installing PostgreSQL
// by apt-get if there is none and this is root. The server stops with Stop, or when this process dies.
func Start() (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "testpg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.start(bin); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(bin string) error {
	as, err := c.unprivileged()
	if err != nil {
		return err
	}
	data := filepath.Join(c.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = c.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	// The server is the child of a shell that reads from a pipe of ours: when this
	// process dies in whatever way, the pipe closes, and the shell stops the server and cleans up.
	c.cmd = exec.Command("/bin/sh", "-c", `dir=$1; shift; "$@" & pid=$!; read -r _; kill -INT $pid; wait $pid; cd /; rm -rf "$dir"`, "sh", c.dir,
		filepath.Join(bin, "postgres"), "-D", data, "-k", c.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(port),
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=200", "-c", "shared_buffers=64MB")
	var log bytes.Buffer
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.dir, &log, &log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // a Ctrl-C is ours to handle
	if c.keep, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := ready(bin, port); err != nil {
		return fmt.Errorf("%w: %s", err, errors.Join(c.Stop(), errors.New(log.String())))
	}
	return nil
}

// Stop stops the server and deletes its directory. Stopping twice is stopping once.
func (c *Cluster) Stop() error {
	var err error
	if c.cmd != nil && c.cmd.Process != nil {
		err = c.keep.Close()
		if waited := c.cmd.Wait(); waited != nil && !errors.As(waited, new(*exec.ExitError)) {
			err = errors.Join(err, waited)
		}
		c.cmd = nil
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// ready waits until the server answers.
func ready(bin string, port int) error {
	deadline := time.Now().Add(startTimeout)
	for {
		out, err := exec.Command(filepath.Join(bin, "pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "1").CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %s", bytes.TrimSpace(out))
		}
		time.Sleep(20 * time.Millisecond) // between two looks; pg_isready returns at once
	}
}

// unprivileged hands the directory to a user that may run PostgreSQL, which root may not.
func (c *Cluster) unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(c.dir, uid, gid)
	}
	return nil, errors.New("PostgreSQL does not run as root: add a user named postgres")
}

// binaries finds the directory of PostgreSQL's programs.
func binaries() (string, error) {
	if dir, ok := installed(); ok {
		return dir, nil
	}
	const advice = "no PostgreSQL found: install it (apt-get install postgresql), or set RECOURSE_TEST_POSTGRES to a server's URL"
	if _, err := exec.LookPath("apt-get"); os.Getuid() != 0 || err != nil {
		return "", errors.New(advice)
	}
	for _, args := range [][]string{{"update"}, {"install", "-y", "postgresql"}} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: apt-get: %w: %s", advice, err, out)
		}
	}
	if dir, ok := installed(); ok {
		return dir, nil
	}
	return "", errors.New(advice)
}

func installed() (dir string, ok bool) {
	var candidates []string
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	slices.SortFunc(versions, func(a, b string) int { return major(b) - major(a) })
	for _, dir := range append(candidates, versions...) {
		if complete(dir) {
			return dir, true
		}
	}
	return "", false
}

func major(bin string) int {
	n, _ := strconv.Atoi(strings.SplitN(filepath.Base(filepath.Dir(bin)), ".", 2)[0])
	return n
}

// complete tells whether dir has the server too: distributions ship clients alone.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_isready"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
