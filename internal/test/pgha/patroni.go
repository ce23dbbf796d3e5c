package pgha

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/internal/test/debian"
	"recourse/internal/test/pgserver"
)

// Patroni is a cluster whose members Patroni manages. It promotes another member when the leader
// has not renewed its key in etcd for 20 s, the shortest time that Patroni allows.
type Patroni struct {
	URL     string // names all members; connects to the one that accepts writes
	Members []*Member

	etcd        *pgserver.Process
	synchronous bool
}

// Member is a PostgreSQL server and its Patroni.
type Member struct {
	Name    string
	Host    string // host:port of PostgreSQL
	api     string // host:port of Patroni
	program string
	dir     string
	process *pgserver.Process // nil: it does not run
}

// wait is the longest time for the cluster to reach an expected state.
const wait = 2 * time.Minute

// NewPatroni starts a cluster of so many members, until tb ends, and waits until all of them
// replicate. In synchronous mode a commit is acknowledged when a second member has it, and only
// such a member is promoted.
func NewPatroni(tb testing.TB, members int, synchronous bool) *Patroni {
	tb.Helper()
	c := &Patroni{synchronous: synchronous}
	if err := c.start(tb, members); err != nil {
		tb.Fatalf("pgha: %v", err)
	}
	if err := c.Whole(tb.Context()); err != nil {
		for _, m := range c.Members {
			tb.Logf("%s:\n%s", m.Name, m.process.Log())
		}
		tb.Fatalf("pgha: %v", err)
	}
	return c
}

func (c *Patroni) start(tb testing.TB, members int) error {
	etcd, patroni, err := programs()
	if err != nil {
		return err
	}
	store, err := c.startEtcd(tb, etcd)
	if err != nil {
		return err
	}
	var hosts []string
	for i := range members {
		m := &Member{Name: string(rune('a' + i)), program: patroni}
		if err := m.configure(store, c.synchronous); err != nil {
			return err
		}
		tb.Cleanup(func() {
			if err := errors.Join(m.Kill(), os.RemoveAll(m.dir)); err != nil {
				tb.Errorf("pgha: stop member %s: %v", m.Name, err)
			}
		})
		if err := m.Resume(); err != nil {
			return err
		}
		c.Members, hosts = append(c.Members, m), append(hosts, m.Host)
	}
	c.URL = address(hosts...)
	return nil
}

// startEtcd starts the etcd of the cluster and returns its address.
func (c *Patroni) startEtcd(tb testing.TB, program string) (address string, err error) {
	dir, err := pgserver.TempDir()
	if err != nil {
		return "", err
	}
	ports, err := hosts(2)
	if err != nil {
		return "", err
	}
	client, peer := "http://"+ports[0], "http://"+ports[1]
	c.etcd, err = pgserver.Spawn(dir, program, "--data-dir", filepath.Join(dir, "data"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer)
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		if err := c.etcd.Stop(); err != nil {
			tb.Errorf("pgha: stop etcd: %v", err)
		}
	})
	return ports[0], nil
}

// configuration is the configuration of a member. The keys under dcs apply to the cluster: the
// first member writes them to etcd.
const configuration = `scope: recourse
name: %[1]s
restapi: {listen: "%[2]s", connect_address: "%[2]s"}
etcd3: {host: "%[3]s"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    maximum_lag_on_failover: 1073741824
    synchronous_mode: %[4]t
    postgresql:
      use_pg_rewind: true
      parameters: {wal_log_hints: "on", max_connections: 200}
  initdb: [{encoding: UTF8}, {locale: C}, no-sync]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: "%[5]s"
  connect_address: "%[5]s"
  data_dir: %[6]s/data
  bin_dir: %[7]s
  pgpass: %[6]s/pgpass
  authentication:
    superuser: {username: postgres}
    replication: {username: postgres}
  parameters: {unix_socket_directories: "", shared_buffers: 64MB, fsync: "off", full_page_writes: "on", synchronous_commit: "on"}
watchdog: {mode: "off"}
`

// configure creates a member's directory.
func (m *Member) configure(etcd string, synchronous bool) error {
	bin, err := pgserver.Binaries()
	if err != nil {
		return err
	}
	if m.dir, err = pgserver.TempDir(); err != nil {
		return err
	}
	at, err := hosts(2)
	if err != nil {
		return err
	}
	m.Host, m.api = at[0], at[1]
	text := fmt.Sprintf(configuration, m.Name, m.api, etcd, synchronous, m.Host, m.dir, bin)
	return os.WriteFile(m.config(), []byte(text), 0o644)
}

func (m *Member) config() string { return filepath.Join(m.dir, "patroni.yaml") }

// Resume starts a member's Patroni, at first and after Kill. Patroni starts PostgreSQL.
func (m *Member) Resume() (err error) {
	m.process, err = pgserver.Spawn(m.dir, m.program, m.config())
	return err
}

// Kill kills a member's Patroni and PostgreSQL, as if its machine was lost. A second Kill does
// nothing.
func (m *Member) Kill() error {
	if m.process == nil {
		return nil
	}
	p := m.process
	m.process = nil
	// PostgreSQL is killed first, because it has Patroni's output open. Patroni has no time to
	// restart it.
	first, err := os.ReadFile(filepath.Join(m.dir, "data", "postmaster.pid"))
	if err == nil {
		line, _, _ := bytes.Cut(first, []byte("\n"))
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return p.Halt(pgserver.Killed)
}

// CutOff ends a follower's replication, so it does not get later commits of the leader. Its
// Patroni, which would restore the replication within ten seconds, stands still until Promotable.
func (m *Member) CutOff(ctx context.Context) error {
	return errors.Join(m.process.Freeze(), pgserver.CutOff(ctx, m.url()))
}

// url connects to the member's PostgreSQL, whatever its role is.
func (m *Member) url() string { return "postgres://postgres@" + m.Host + "/postgres?sslmode=disable" }

// Promotable lets the Patroni of a follower continue after CutOff. The leader must be lost by then.
func (m *Member) Promotable() error {
	return m.process.Thaw()
}

// member is Patroni's description of a member.
type member struct {
	Name, Role, State string
	Timeline          int64
}

// list returns all members. It asks one Patroni after another until one responds.
func (c *Patroni) list(ctx context.Context) (list []member, err error) {
	for _, m := range c.Members {
		var answer struct{ Members []member }
		body, failed := m.ask(ctx, http.MethodGet, "/cluster", "")
		if failed == nil {
			failed = json.Unmarshal(body, &answer)
		}
		if failed == nil {
			return answer.Members, nil
		}
		err = errors.Join(err, failed)
	}
	return nil, err
}

// ask sends a request to a member's Patroni.
func (m *Member) ask(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+m.api+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("patroni of %s: %s: %s", m.Name, resp.Status, answer)
	}
	return answer, err
}

// until waits until ok accepts the members.
func (c *Patroni) until(ctx context.Context, what string, ok func([]member) bool) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		list, err := c.list(ctx)
		if err == nil && ok(list) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: the members are %+v, %w", what, list, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond): // between two checks
		}
	}
}

// Whole waits until all members run and stream the log of one leader. In synchronous mode one of
// them must be synchronous.
func (c *Patroni) Whole(ctx context.Context) error {
	return c.until(ctx, "not all members run and replicate", func(list []member) bool {
		roles := make(map[string]int)
		var streams string
		for _, m := range list {
			if m.State != "running" && m.State != "streaming" || m.Timeline != list[0].Timeline {
				return false
			}
			roles[m.Role]++
			if m.Role == leader {
				streams = c.named(m.Name).url()
			}
		}
		if len(list) != len(c.Members) || roles[leader] != 1 || roles[synchronous] != 1 && c.synchronous {
			return false
		}
		// For Patroni a member runs before it has received anything of the leader's log.
		n, err := pgserver.Standbys(ctx, streams)
		return err == nil && n == len(list)-1
	})
}

// The roles of the member that accepts writes, and of the one that commits wait for.
const (
	leader      = "leader"
	synchronous = "sync_standby"
)

// Leader returns the member that accepts writes.
func (c *Patroni) Leader(ctx context.Context) (m *Member, err error) {
	err = c.until(ctx, "no leader", func(list []member) bool {
		at := slices.IndexFunc(list, func(m member) bool { return m.Role == leader && m.State == "running" })
		if at < 0 {
			return false
		}
		m = c.named(list[at].Name)
		return m != nil && m.process != nil
	})
	return m, err
}

func (c *Patroni) named(name string) *Member {
	for _, m := range c.Members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Switchover makes the leader hand over to an up-to-date member, and returns when that one leads.
func (c *Patroni) Switchover(ctx context.Context) error {
	from, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	if _, err := from.ask(ctx, http.MethodPost, "/switchover", fmt.Sprintf(`{"leader":%q}`, from.Name)); err != nil {
		return err
	}
	return c.until(ctx, "no other leader", func(list []member) bool {
		return slices.ContainsFunc(list, func(m member) bool { return m.Role == leader && m.Name != from.Name && m.State == "running" })
	})
}

// programs finds etcd and Patroni.
func programs() (etcd, patroni string, err error) {
	find := func() error {
		var missing [2]error
		etcd, missing[0] = exec.LookPath("etcd")
		patroni, missing[1] = exec.LookPath("patroni")
		return errors.Join(missing[:]...)
	}
	if find() == nil {
		return etcd, patroni, nil
	}
	if err := debian.Install("patroni", "python3-etcd", "etcd-server"); err != nil {
		return "", "", fmt.Errorf("no patroni or etcd found: install both (apt-get install patroni python3-etcd etcd-server): %w", err)
	}
	return etcd, patroni, find()
}

// hosts returns so many unused addresses.
func hosts(n int) (list []string, err error) {
	for range n {
		port, err := pgserver.FreePort()
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return list, nil
}
