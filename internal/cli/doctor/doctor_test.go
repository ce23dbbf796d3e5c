package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/internal/cli/config"
	"recourse/internal/pgsync"
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
	for text, set := range map[string]func(*Command){
		"--require-sync needs PostgreSQL": func(c *Command) { c.RequireSync = true },
		"--node-lease is at least 1s":     func(c *Command) { c.NodeLease = time.Millisecond },
		"--stalled-after is at least 1s":  func(c *Command) { c.StalledAfter = 0 },
		"--archive-wait is at least 0s":   func(c *Command) { c.ArchiveWait = -time.Hour },
		"--public-url is a URL":           func(c *Command) { c.PublicURL = "sagas.example" },
		"s3://sagas is not an archive":    func(c *Command) { c.Archive = "s3://sagas" },
	} {
		c := &Command{}
		c.Database, c.NodeLease, c.StalledAfter = "recourse.db", 15*time.Second, 5*time.Minute
		set(c)
		d := &doctor{cmd: c, file: config.NewFile(nil)}
		d.configuration(t.Context())
		d.archive(t.Context())
		if f := d.found[len(d.found)-1]; f.Result != broken || !strings.Contains(f.Text, text) {
			t.Errorf("%s: %+v", text, d.found)
		}
	}
	f := finding(t, func(d *doctor) {
		d.cmd = &Command{}
		d.cmd.Archive = t.TempDir() + "/new"
		d.archive(t.Context())
	})
	if f.Check != "archive" || f.Result != unwise {
		t.Errorf("%+v", f)
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
