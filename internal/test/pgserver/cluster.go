package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"recourse/internal/test/debian"
)

// Cluster is a temporary PostgreSQL server.
type Cluster struct {
	URL      string // URL of its database "postgres"
	bin, dir string
	port     int
	settings []string
	process  *Process // nil: the server does not run
}

// Durable are the settings for Start with which acknowledged commits survive the server's process.
var Durable = []string{"synchronous_commit=on"}

// Settings are those of every server: fast, but not durable, because nothing must survive the
// machine.
var Settings = []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB"}

// startTimeout limits how long the server may take to respond.
const startTimeout = 60 * time.Second

// Start creates a cluster in a new directory and starts its server. If PostgreSQL is missing and
// this process is root, it installs it. The server stops with Stop, or when this process ends.
// settings, as name=value, override Settings.
func Start(settings ...string) (*Cluster, error) {
	bin, err := Binaries()
	if err != nil {
		return nil, err
	}
	return create(bin, settings, (*Cluster).initialize)
}

// create creates a cluster, whose files fill creates, and starts its server.
func create(bin string, settings []string, fill func(*Cluster) error) (*Cluster, error) {
	dir, err := tempDir(memory(settings))
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, settings: settings}
	if err := fill(c); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if c.port, err = FreePort(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.URL = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", c.Host())
	if err := c.Resume(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// memory returns a mounted file system in memory with enough space; "" if there is none, TMPDIR is
// set, or the settings require commits on a disk. A database has several hundred files, and each
// test creates and deletes one; on a disk that can be most of the tests' time.
func memory(settings []string) string {
	const shm, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	//nolint:unconvert // other systems have other types
	if slices.Contains(settings, "fsync=on") || os.Getenv("TMPDIR") != "" || syscall.Statfs(shm, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < room {
		return ""
	}
	return shm
}

func (c *Cluster) initialize() error {
	return command(c.dir, filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Host returns the server's address, host:port.
func (c *Cluster) Host() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

// Resume starts the server, at first and after Halt, and waits until it responds.
func (c *Cluster) Resume() (err error) {
	args := []string{"-D", c.data(), "-k", c.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)}
	for _, set := range slices.Concat(Settings, c.settings) {
		args = append(args, "-c", set)
	}
	if c.process, err = Spawn(c.dir, filepath.Join(c.bin, "postgres"), args...); err != nil {
		return err
	}
	if err := ready(c.bin, c.port); err != nil {
		p := c.process
		return fmt.Errorf("%w: %s", errors.Join(err, c.Stop()), p.Log())
	}
	return nil
}

// The ways in which Halt stops a server.
const (
	Fast      = "INT"  // as an administrator does: clients are notified, transactions in flight are rolled back
	Immediate = "QUIT" // as a crash: without notice, and the next start recovers
	Killed    = "KILL" // the server process itself, by the kernel
)

// Halt stops the server and keeps its data, until Resume or Stop.
func (c *Cluster) Halt(how string) error {
	p := c.process
	if p == nil {
		return errors.New("the server does not run")
	}
	c.process = nil
	return p.Halt(how)
}

// Stop stops the server and deletes its directory. A second Stop does nothing.
func (c *Cluster) Stop() (err error) {
	if p := c.process; p != nil {
		c.process = nil
		err = p.Stop()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// ready waits until the server responds.
func ready(bin string, port int) error {
	deadline := time.Now().Add(startTimeout)
	for {
		out, err := exec.Command(filepath.Join(bin, "pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "1").CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not respond: %s", bytes.TrimSpace(out))
		}
		time.Sleep(20 * time.Millisecond) // between two checks; pg_isready returns at once
	}
}

// Binaries finds the directory of PostgreSQL's programs. If they are missing and this process is
// root, it installs them.
func Binaries() (string, error) {
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
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is valid
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

// complete reports whether dir also has the server: distributions have packages with clients only.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_isready"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// FreePort returns an unused port of the loopback interface. It lies below 32768, where no system
// takes the ports of outgoing connections from (Linux's ip_local_port_range, RFC 6335). One of
// those could take it before the server listens.
func FreePort() (int, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 16384+rand.IntN(16384))); err == nil {
			return l.Addr().(*net.TCPAddr).Port, l.Close()
		}
	}
	return 0, err
}
