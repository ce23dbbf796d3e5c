package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli/config"
	"recourse/internal/pgsync"
	"recourse/internal/statedir"
	"recourse/internal/test/pgserver"
)

// The doctor derives what a failover could lose from the standbys that commits wait for.
func TestDoctorReplication(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		is       pgsync.Replication
		required bool
		result   string
		text     string
	}{
		{pgsync.Replication{Commit: "on"}, false, fine, "no standby"},
		{pgsync.Replication{Commit: "on"}, true, broken, "synchronous_standby_names is empty"},
		{pgsync.Replication{Commit: "on", Standbys: 2}, false, unwise, "asynchronous"},
		{pgsync.Replication{Commit: "on", Standbys: 2}, true, broken, "synchronous_standby_names is empty"},
		{pgsync.Replication{Names: "*", Commit: "on", Standbys: 1, Synchronous: 1}, true, fine, "1 standby is connected"},
		{pgsync.Replication{Names: "*", Commit: "remote_apply", Standbys: 2, Synchronous: 1}, false, fine, "2 standbys are connected"},
		{pgsync.Replication{Names: "b", Commit: "on", Standbys: 1}, false, broken, `"b"`},
		{pgsync.Replication{Names: "*", Commit: "remote_write", Standbys: 1, Synchronous: 1}, false, unwise, "synchronous_commit is remote_write"},
		{pgsync.Replication{Names: "*", Commit: "remote_write"}, false, broken, "none is connected"},
		{pgsync.Replication{Names: "*", Commit: "local"}, true, broken, "synchronous_commit is local"},
	} {
		f := finding(t, func(d *doctor) {
			d.cmd = &Command{}
			d.cmd.RequireSync = tt.required
			d.replication(tt.is)
		})
		if f.Check != "replication" || f.Result != tt.result || !strings.Contains(f.Text, tt.text) || (f.Fix == "") != (f.Result == fine) {
			t.Errorf("%+v: %+v", tt.is, f)
		}
	}
}

// What `serve` refuses at once is an error.
func TestDoctorFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, set := range map[string]func(*Command){
		"--require-sync needs PostgreSQL": func(c *Command) { c.RequireSync = true },
		"--node-lease is at least 1s":     func(c *Command) { c.NodeLease = time.Millisecond },
		"--stalled-after is at least 1s":  func(c *Command) { c.StalledAfter = 0 },
		"--archive-wait is at least 0s":   func(c *Command) { c.ArchiveWait = -time.Hour },
		"--public-url is a URL":           func(c *Command) { c.PublicURL = "sagas.example" },
		"s3://sagas is not an archive":    func(c *Command) { c.Archive = "s3://sagas" },
		"--listen 8080: write host:port":  func(c *Command) { c.Listen = "8080" },
		"--listen :99999: write":          func(c *Command) { c.Listen = ":99999" },
		"--no-auth is for loopback":       func(c *Command) { c.Listen, c.NoAuth = "0.0.0.0:8080", true },
		"the database has no API key":     func(c *Command) { c.Listen = "0.0.0.0:8080" },
		"archive cannot be written":       func(c *Command) { c.Archive = filepath.Join(file, "archive") },
		"state cannot be written":         func(c *Command) { c.StateDir = filepath.Join(file, "state") },
	} {
		c := &Command{}
		c.Listen, c.Database, c.NodeLease, c.StalledAfter = "127.0.0.1:8080", filepath.Join(t.TempDir(), "new.db"), 15*time.Second, 5*time.Minute
		set(c)
		d := &doctor{cmd: c, file: config.NewFile(nil), free: func(string) (uint64, bool) { return 0, false }}
		for _, check := range []func(context.Context){d.database, d.configuration, d.state, d.archive} {
			check(t.Context())
		}
		d.found = slices.DeleteFunc(d.found, func(f checkup) bool { return f.Result != broken })
		if len(d.found) != 1 {
			t.Errorf("%s: %+v", text, d.found)
			continue
		}
		if f := d.found[len(d.found)-1]; f.Result != broken || !strings.Contains(f.Text, text) {
			t.Errorf("%s: %+v", text, d.found)
		}
	}
}

// Directories that serve makes are fine if it can, and the doctor leaves nothing in them. The state
// directory of a process that runs is a warning, because that may be the server.
func TestDoctorDirectories(t *testing.T) {
	t.Parallel()
	dir, held := t.TempDir(), t.TempDir()
	state, err := statedir.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	for _, tt := range []struct {
		archive, state string
		result, text   string
	}{
		{"file://" + dir, "", fine, dir + " is there"},
		{dir + "/new/archive", "", unwise, "there is no " + dir + "/new/archive yet"},
		{"", dir, fine, dir + " is there"},
		{"", dir + "/new/state", unwise, "there is no " + dir + "/new/state yet"},
		{"", held, unwise, "another process has the state directory"},
	} {
		f := finding(t, func(d *doctor) {
			d.cmd = &Command{}
			d.cmd.Archive, d.cmd.StateDir = tt.archive, tt.state
			d.archive(t.Context())
			d.state(t.Context())
		})
		if f.Result != tt.result || !strings.Contains(f.Text, tt.text) {
			t.Errorf("%+v: %+v", tt, f)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// finding returns a doctor's only finding.
func finding(t *testing.T, check func(*doctor)) checkup {
	t.Helper()
	d := &doctor{}
	check(d)
	if len(d.found) != 1 {
		t.Fatalf("findings: %+v", d.found)
	}
	return d.found[0]
}

// Free space is compared with the limits; if it is unknown there is no finding.
func TestDoctorDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		free         uint64
		result, text string
	}{
		{0, broken, "0 MB free"},
		{100<<20 - 1, broken, "99 MB free"},
		{100 << 20, unwise, "100 MB free"},
		{1<<30 - 1, unwise, "1023 MB free"},
		{1 << 30, fine, "1024 MB free"},
	} {
		f := finding(t, func(d *doctor) {
			d.free = func(dir string) (uint64, bool) { return tt.free, dir == "data" }
			d.disk("data")
		})
		if f.Check != "disk" || f.Result != tt.result || !strings.HasPrefix(f.Text, tt.text) || (f.Fix == "") != (f.Result == fine) {
			t.Errorf("%d bytes: %+v", tt.free, f)
		}
	}
	d := &doctor{free: func(string) (uint64, bool) { return 0, false }}
	if d.disk("data"); len(d.found) != 0 {
		t.Errorf("not known: %+v", d.found)
	}
	if free, is := freeBytes(t.TempDir()); !is || free == 0 {
		t.Errorf("%d bytes free, %v", free, is)
	}
}

// The difference between the clocks is compared with the limit and with the time that the request
// took.
func TestDoctorClock(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		took, ahead time.Duration // the database's clock minus this machine's
		result      string
		text        string
	}{
		{0, 0, fine, "agree"},
		{0, 2 * time.Second, fine, "agree"},
		{0, 2001 * time.Millisecond, unwise, "2s from"},
		{0, -2 * time.Second, fine, "agree"},
		{0, -2001 * time.Millisecond, unwise, "2s from"},
		{4 * time.Second, 6 * time.Second, fine, "agree"}, // the database may have read its clock at the end
		{4 * time.Second, 6001 * time.Millisecond, unwise, "4s from"},
		{4 * time.Second, -2 * time.Second, fine, "agree"},
		{4 * time.Second, -2001 * time.Millisecond, unwise, "4s from"},
		{0, -48 * time.Hour, unwise, "48h0m0s from"},
	} {
		f := finding(t, func(d *doctor) { d.clock(asked, asked.Add(tt.took), asked.Add(tt.ahead)) })
		if f.Check != "clock" || f.Result != tt.result || !strings.Contains(f.Text, tt.text) || (f.Fix == "") != (f.Result == fine) {
			t.Errorf("%s ahead, asked for %s: %+v", tt.ahead, tt.took, f)
		}
	}
}

// A server that does not say which cluster it is gets a warning, until it is fixed as the warning
// says.
func TestDoctorUnknownIdentity(t *testing.T) {
	t.Parallel()
	c, err := pgserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), c.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	warnings := func() (list []checkup) {
		d := &doctor{cmd: &Command{}, now: time.Now}
		d.cmd.Database = strings.Replace(c.URL, "postgres@127.0.0.1", "plain@127.0.0.1", 1)
		if !d.postgres(t.Context()) {
			t.Fatalf("%+v", d.found)
		}
		return slices.DeleteFunc(d.found, func(f checkup) bool { return !strings.Contains(f.Text, "which cluster it is") })
	}
	const revoked = `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`
	for _, tt := range []struct {
		do     string
		warned bool
	}{{`CREATE ROLE plain LOGIN`, false}, {revoked, true}, {`GRANT EXECUTE ON FUNCTION pg_control_system() TO plain`, false}} {
		if _, err := conn.Exec(t.Context(), tt.do); err != nil {
			t.Fatal(err)
		}
		list := warnings()
		if !tt.warned && len(list) > 0 || tt.warned && (len(list) != 1 || list[0].Result != unwise || !strings.Contains(list[0].Fix, "GRANT EXECUTE ON FUNCTION pg_control_system()")) {
			t.Errorf("after %s: %+v", tt.do, list)
		}
	}
}

// The doctor reads this machine's clock and a real PostgreSQL's.
func TestDoctorClockOfPostgres(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
	for ahead, want := range map[time.Duration]string{0: fine, time.Hour: unwise, -time.Hour: unwise} {
		d := &doctor{cmd: &Command{}, now: func() time.Time { return time.Now().Add(ahead) }}
		d.cmd.Database = dsn
		if !d.postgres(t.Context()) {
			t.Fatalf("%+v", d.found)
		}
		at := slices.IndexFunc(d.found, func(f checkup) bool { return f.Check == "clock" })
		if at < 0 || d.found[at].Result != want {
			t.Errorf("a clock that is %s ahead: %+v", ahead, d.found)
		}
	}
}
