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

	"recourse/internal/debian"
)

// Cluster is a throw-away PostgreSQL server.
type Cluster struct {
	URL      string // of its database "postgres"
	bin, dir string
	port     int
	settings []string
	keep     io.WriteCloser // while it is open the server runs
	cmd      *exec.Cmd
}

// Durable are settings for Start under which acknowledged commits outlive the server's process.
var Durable = []string{"synchronous_commit=on"}

// startTimeout bounds how long the server may take until it answers.
const startTimeout = 60 * time.Second

// Start makes a cluster in a new directory and starts its server, installing PostgreSQL
// by apt-get if there is none and this is root. The server stops with Stop, or when this process dies. It is fast
// rather than durable; settings, name=value, come on top.
func Start(settings ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "testpg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, settings: settings}
	if err := c.make(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// make makes the cluster's files and starts its server.
func (c *Cluster) make() error {
	as, err := unprivileged(c.dir)
	if err != nil {
		return err
	}
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = c.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	c.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
	return c.Resume()
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Resume starts the server, at first and after Halt, and waits until it answers.
func (c *Cluster) Resume() error {
	as, err := unprivileged(c.dir)
	if err != nil {
		return err
	}
	// The server is the child of a shell that reads from a pipe of ours: when this
	// process dies in whatever way, the pipe closes, and the shell stops the server and cleans up.
	// A line in the pipe names another signal to stop it with, and what it leaves is kept then.
	args := []string{"-c", `dir=$1; shift; "$@" & pid=$!; if read -r sig; then kill -$sig $pid; wait $pid; else kill -INT $pid; wait $pid; cd /; rm -rf "$dir"; fi`,
		"sh", c.dir, filepath.Join(c.bin, "postgres"), "-D", c.data(), "-k", c.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)}
	for _, set := range append([]string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB"}, c.settings...) {
		args = append(args, "-c", set)
	}
	c.cmd = exec.Command("/bin/sh", args...)
	var log bytes.Buffer
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.dir, &log, &log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // a Ctrl-C is ours to handle
	if c.keep, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	if err := ready(c.bin, c.port); err != nil {
		return fmt.Errorf("%w: %s", err, errors.Join(c.Stop(), errors.New(log.String())))
	}
	return nil
}

// How Halt stops a server.
const (
	Fast      = "INT"  // as an administrator does: connections are told, transactions under way are rolled back
	Immediate = "QUIT" // as a crash: without a word, and the next start recovers
	Killed    = "KILL" // the server process itself, by the kernel
)

// Halt stops the server and keeps its data, until Resume or Stop.
func (c *Cluster) Halt(how string) error {
	if c.cmd == nil {
		return errors.New("the server does not run")
	}
	_, err := io.WriteString(c.keep, how+"\n")
	return errors.Join(err, c.wait())
}

// wait waits for the server's end.
func (c *Cluster) wait() error {
	err := c.cmd.Wait()
	c.cmd = nil
	if errors.As(err, new(*exec.ExitError)) {
		return nil // killed by a signal, as was wanted
	}
	return err
}

// Stop stops the server and deletes its directory. Stopping twice is stopping once.
func (c *Cluster) Stop() error {
	var err error
	if c.cmd != nil && c.cmd.Process != nil {
		err = errors.Join(c.keep.Close(), c.wait())
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

// unprivileged hands a directory to a user that may run PostgreSQL, which root may not.
func unprivileged(dir string) (*syscall.Credential, error) {
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
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return nil, errors.New("PostgreSQL does not run as root: add a user named postgres")
}

// binaries finds the directory of PostgreSQL's programs.
func binaries() (string, error) {
	if dir, ok := installed(); ok {
		return dir, nil
	}
	const advice = "no PostgreSQL found: install it (apt-get install postgresql), or set RECOURSE_TEST_POSTGRES to a server's URL"
	if err := debian.Install("postgresql"); err != nil {
		return "", fmt.Errorf("%s: %w", advice, err)
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
